"""The face of the Responses API: its shapes, its events, the fold that makes them, and their numbers."""
