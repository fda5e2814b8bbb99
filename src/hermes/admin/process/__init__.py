"""The gateway as a process: run, background, watchdog, logs."""
