"""Discord: private chats, servers, threads and slash commands through the gateway and the HTTP API."""
