"""Commands in shells, wherever they run: the frames, what carries them, and both ends."""
