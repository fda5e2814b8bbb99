"""One file per command of `hermes`."""
