"""What the agent keeps for later: memory entries and skills."""
