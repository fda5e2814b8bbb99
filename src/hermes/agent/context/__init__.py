"""What a model is sent: the transcript as messages, and the system prompt."""
