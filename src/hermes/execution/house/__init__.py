"""Houses that agents may look into and act in."""
