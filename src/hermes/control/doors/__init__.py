"""What callers that say who they are (terminal, HTTP, scripts) do with a turn they began."""
