"""Does a shell command need a person's approval? It is read as a shell reads it and judged by a table of
rules. If that cannot be told, it does. `judge.judge_command` decides; whether a tool's call is asked for at
all is decided in `agent/run/calls.py`.

This is help for people, not a boundary: the boundary is the sandbox a command runs in."""
