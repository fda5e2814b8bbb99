"""From an HTTP request to a turn, and back: what clients ask of agents, and what turns ask of people."""
