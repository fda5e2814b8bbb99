"""What the agent keeps of itself and of people: SOUL.md, MEMORY.md, USER.md."""
