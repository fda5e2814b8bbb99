"""Callers that know who they are and which agent they mean: the terminal, HTTP, scripts."""
