"""Files beside the database: media, logs, hooks, job output, webhook subscriptions."""
