"""Hooks of the home, each in a process of its own."""
