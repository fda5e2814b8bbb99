"""From a request to a turn, and back."""
