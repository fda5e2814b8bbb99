"""Signal, through a signal-cli that runs as a daemon."""
