"""WeCom: an AI bot over its long connection."""
