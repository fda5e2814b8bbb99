"""A reader of shell command lines. It runs nothing."""
