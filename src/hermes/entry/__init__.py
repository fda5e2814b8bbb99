"""Shells around the gateway: the terminal, HTTP, chat platforms."""
