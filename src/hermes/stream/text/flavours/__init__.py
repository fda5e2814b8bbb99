"""One printer per markup flavour, each a class over the same walk through the tree."""
