"""WhatsApp, through Meta's Cloud API for businesses."""
