"""The `local` backend: commands, files and processes of this machine. No sandbox."""
