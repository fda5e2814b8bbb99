"""The HTTP side: an OpenAI-compatible API, runs, sessions and webhooks, one file per resource."""
