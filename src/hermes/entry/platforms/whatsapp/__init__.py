"""WhatsApp with a personal account: a linked device, through a bridge that runs on Node."""
