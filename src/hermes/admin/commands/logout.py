"""`hermes logout`: the same as `hermes auth logout`."""

from __future__ import annotations

import argparse

from hermes.admin.commands.auth import logout, logout_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=logout)
    parser.description = "Remove the logins of a provider of models, or all of them."
    logout_arguments(parser)
