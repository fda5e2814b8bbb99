"""Incoming webhooks: from a signed request to a turn. (The platform `webhook` sends outgoing ones.)"""
