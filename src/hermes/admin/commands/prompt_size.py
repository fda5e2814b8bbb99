"""`hermes prompt-size`: who takes how much of the first request, without a gateway and without a network."""

from __future__ import annotations

import argparse
import asyncio

from hermes import plugins
from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.output import Column
from hermes.app.agents.prompt_size import measure_prompt
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.text import size_told
from hermes.state.settings.loader import load_settings


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_measure)
    parser.description = (
        "Show who takes how much of the first request: the tiers of the system prompt, each file of the"
        " project, each tool. Tools of servers that are not asked here are missing."
    )
    declare(parser, JSON)
    declare(parser, {"--platform NAME": "begun there (cli)"}, default="cli")
    declare(parser, {"--agent NAME": "by this agent (main)"}, default=MAIN_AGENT)


def _measure(command: CliCommand) -> None:
    asked = command.asked
    names = [manifest.name for manifest in plugins.platform_manifests()]
    loaded = load_settings(command.home, command.environ, platforms=names)
    parts = asyncio.run(
        measure_prompt(command.home, command.environ, loaded, AgentId(asked.agent), asked.platform)
    )
    total = sum(part.bytes for part in parts)
    columns = [
        Column("tier", "TIER"),
        Column("name", "PART"),
        Column("bytes", "BYTES", lambda size: f"{size:,}" if size else "-"),
    ]
    command.list(parts, columns, whole=2, wrap=lambda rows: {"total_bytes": total, "parts": list(rows)})
    if not asked.json:
        tokens = f"about {total // 4:,} tokens"
        command.console.line(f"\n{size_told(total)} ({total:,} bytes, {tokens}) before the first word.")
