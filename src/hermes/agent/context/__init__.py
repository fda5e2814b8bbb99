"""What a model is sent: the transcript as messages, the system prompt, images."""
