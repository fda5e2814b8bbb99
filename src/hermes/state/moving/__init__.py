"""Homes of other programs, read: what stands where, and what it becomes here."""
