"""Markdown read into a tree, printed in a platform's markup, split at its limit."""
