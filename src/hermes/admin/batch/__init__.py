"""Many prompts, one after the other and side by side, on the gateway of a home."""
