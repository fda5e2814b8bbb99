"""Hooks: who is told of what happens, and who is asked before it happens."""
