"""The gateway as a service of the system: systemd on Linux, launchd on macOS."""
