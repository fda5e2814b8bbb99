"""How a command is declared, reaches its home and prints."""
