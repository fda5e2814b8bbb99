"""The rich chat: what stands in the terminal's own scrollback, and the few rows under it that are redrawn."""
