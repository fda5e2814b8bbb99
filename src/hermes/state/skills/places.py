"""Where skills are: those that come with Hermes, in a home, and in a project."""

from __future__ import annotations

from pathlib import Path

BUNDLED = Path(__file__).with_name("bundled")
OPTIONAL = Path(__file__).with_name("optional")
"""Shipped, but only used by who installs them."""
PROJECT_FOLDERS = (".hermes/skills", ".agents/skills", ".claude/skills")
OPT_OUT = ".no-bundled-skills"
"""A home with this file does without those that come with Hermes."""
