"""Terminal backends, one file each."""
