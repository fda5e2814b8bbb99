"""The web browser of agents: its process, the DevTools protocol, and pages."""
