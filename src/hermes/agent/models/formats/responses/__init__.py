"""OpenAI's Responses format, used without the service keeping anything."""
