"""The HTTP door: an OpenAI-compatible API, runs, sessions and webhooks, one file per resource."""
