"""Where layers meet: stores, platforms, agents, the world and hooks as protocols."""
