"""Feishu and Lark: the bot of a custom app, over a long connection or called."""
