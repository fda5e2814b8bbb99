"""From an accepted row of the inbox to a command or a turn."""
