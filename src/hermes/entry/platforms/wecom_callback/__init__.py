"""WeCom: an app of one's own that WeCom calls."""
