"""The agent core, one for every door: the loop, the prompt, providers and tools."""
