"""What the platform adapters share: HTTP, errors, listeners, sockets, readers of JSON, files."""
