"""Anthropic's Messages format, which Claude, several other vendors and llama.cpp speak."""
