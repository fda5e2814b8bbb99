"""Matrix: rooms and direct chats on any homeserver, through the Client-Server API."""
