"""Where people write: addresses, messages, what a platform can do, pairing and hand-off."""
