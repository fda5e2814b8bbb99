"""Webhooks out: messages as signed requests to addresses that the operator named. Nothing comes in here."""
