"""Measures the gateway and prints figures; never judges. What they mean: `docs/reference/bench.md`."""
