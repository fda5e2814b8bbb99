"""Telegram: private chats, groups, topics and channels through the Bot API."""
