"""Models: which one answers, how it is reached, what went wrong."""
