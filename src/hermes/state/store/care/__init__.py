"""Damaged files, full disks, backups: how the database file survives."""
