"""Settings: `config.yaml`, `.env` and the environment, read, checked and changed."""
