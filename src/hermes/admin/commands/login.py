"""`hermes login`: the same as `hermes auth login`."""

from __future__ import annotations

import argparse

from hermes.admin.commands.auth import login, login_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=login)
    parser.description = "Log in to a provider of models by a code."
    login_arguments(parser)
