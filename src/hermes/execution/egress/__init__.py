"""How the outside world is reached from addresses that people, models or other content named."""
