"""One file per table family; each holds its SQL."""
