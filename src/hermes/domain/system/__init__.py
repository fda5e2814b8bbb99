"""The process and the machine around it: ranks, marks, plugins and hooks."""
