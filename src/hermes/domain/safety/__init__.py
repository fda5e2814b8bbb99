"""Words from outside, secrets in them, and patterns whose cost is bounded."""
