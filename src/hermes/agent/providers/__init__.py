"""Model services, one file each."""
