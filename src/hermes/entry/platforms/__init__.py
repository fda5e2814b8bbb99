"""Chat platforms, one folder each: manifest, adapter, convert."""
