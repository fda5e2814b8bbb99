"""Sessions from outside their chats: words submitted to them, administration, resets, a message's trace."""
