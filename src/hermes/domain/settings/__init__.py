"""The settings as types: each field with its default, its limits and its description."""
