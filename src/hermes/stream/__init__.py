"""One event stream of a turn, and its many faces: what is shared, each client's form, and Markdown."""
