"""Backends that hold commands in, one file each; none knows another."""
