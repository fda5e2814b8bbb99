"""Hermes Gateway: one agent behind every door."""

from __future__ import annotations

__version__ = "0.1.0"
