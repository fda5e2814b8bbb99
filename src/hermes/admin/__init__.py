"""The operator's commands; never on a message's path."""
