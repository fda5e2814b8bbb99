"""Slash commands: one registry, one function per command; help, completion, menus and docs follow from it.

The machinery is in `registry` (what a command is, and who may use it), `run` (from a line to its reply),
`menu` and `quick` (commands of the settings); the commands themselves are in all other modules. Each of these
registers its own when it is imported, and is an entry point of `hermes.commands`, as a plugin's would be."""
