"""A conversation moves from the terminal to a chat."""
