"""Where layers meet: stores, platforms, agents and the world as protocols."""
