"""The run: a function of the transcript that takes the next step, with the tools of its turn."""
