"""What the agent may call: tools, toolsets, their sources and the services behind them."""
