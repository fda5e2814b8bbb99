"""Webhooks: what the outside world sends, from its signature to the words of a turn."""
