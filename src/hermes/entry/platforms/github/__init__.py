"""GitHub: comments on issues and pull requests. It only sends; events come in as webhooks."""
