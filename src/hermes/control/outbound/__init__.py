"""From a row of the outbox to the platform: lanes, drafts, targets, notices."""
