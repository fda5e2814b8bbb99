"""Where commands run and how the gateway is kept running."""
