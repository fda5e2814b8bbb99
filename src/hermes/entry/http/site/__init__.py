"""The site: routing, the call, admission, errors, streams. What every resource is given."""
