"""Models, the vendors that serve them, credentials, usage and what a call may cost."""
