"""What is taken out of texts: the values that were loaded, and what looks like a credential of somebody's."""
