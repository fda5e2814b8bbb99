"""Home Assistant: what happens in a house, questions from there, and notifications."""
