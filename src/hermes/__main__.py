"""`python -m hermes` is the `hermes` command."""

from __future__ import annotations

import sys

from hermes.cli import main

if __name__ == "__main__":
    sys.exit(main())
