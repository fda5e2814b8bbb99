"""Running commands, scripts and hooks in processes of their own."""
