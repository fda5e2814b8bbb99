"""Mattermost: a bot account over WebSocket and REST."""
