"""The home folder: where it is, its locks, and how files in it are read and replaced."""
