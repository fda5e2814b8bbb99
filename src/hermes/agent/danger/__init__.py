"""Does a command need a person's approval? It is read as a shell reads it and judged by a table of rules; if
that cannot be told, it does. `judge.judge_command` decides.

This is help for people, not a boundary: the boundary is the sandbox a command runs in."""
