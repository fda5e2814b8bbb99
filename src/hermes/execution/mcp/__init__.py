"""MCP servers: connections, their tools, their questions, logins. The SDK is imported on first use."""
