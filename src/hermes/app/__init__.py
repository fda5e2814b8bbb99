"""The composition root: one gateway on one home, built from settings, store, agents and platforms."""
