"""Skills as folders of files: reading them, finding them, and putting whole ones in place."""
