"""What every HTTP endpoint is built on: routing, the call, admission, errors, streams. Not a web site."""
