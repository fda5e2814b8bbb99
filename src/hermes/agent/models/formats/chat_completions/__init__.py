"""OpenAI's chat-completions format, which most services and all local servers speak."""
