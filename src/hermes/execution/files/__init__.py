"""Work on files, wherever it is done: in the gateway for its own machine, or inside a sandbox."""
