"""Logins at model services that give tokens instead of keys."""
