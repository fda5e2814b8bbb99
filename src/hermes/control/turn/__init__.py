"""The session actor: claims, runs and ends turns, one at a time per session."""
