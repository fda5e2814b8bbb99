"""Slack: direct messages, channels and threads, through Socket Mode or the Events API."""
