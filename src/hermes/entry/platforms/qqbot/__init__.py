"""QQ: the official bot interface, version 2."""
