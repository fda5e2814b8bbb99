"""Search services, and pages from the web."""
