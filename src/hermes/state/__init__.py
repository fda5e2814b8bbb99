"""State and identity: settings, secrets, homes, and the tables of the one database."""
