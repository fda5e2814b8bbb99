"""Hand-offs: a conversation of the terminal continues in a chat."""
