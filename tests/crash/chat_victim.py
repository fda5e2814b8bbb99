"""The `hermes` command, to be killed: everything is real, and the borders of store, model and tools are kill
points of the gateway. `HERMES_KILL_AT=point:n` ends it there with a real SIGKILL, and its terminal with it,
as if the plug was pulled; `HERMES_KILL_LOG` names a file in which each passing of a point becomes a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import hermes.app.app
from hermes import cli
from hermes.admin.commands import chat
from hermes.admin.process.spawning import WHILE_USED
from hermes.app.agents.factory import AgentFactory
from hermes.app.app import App
from hermes.app.vitals import LiveStatus
from hermes.domain.ports.agent import Provider
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import Media
from hermes.domain.settings.settings import Profile
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import ToolSource
from hermes.state.files.session_log import SessionLogs
from hermes.testing.crash import KillingProvider, KillingStore, KillSwitch, killing_tool

KILL_AT, KILL_LOG = "HERMES_KILL_AT", "HERMES_KILL_LOG"


def _switch() -> KillSwitch:
    log = os.environ.get(KILL_LOG)
    return KillSwitch.set_to(os.environ.get(KILL_AT, ""), Path(log) if log else None)


SWITCH = _switch()


class MortalAgents(AgentFactory):
    """Agents whose model and tools may kill the process."""

    def provider(self, profile: Profile, media: Media) -> Provider:
        return KillingProvider(super().provider(profile, media), SWITCH)

    def tools(self, services: ToolServices, sources: dict[str, ToolSource]) -> list[Tool]:
        tools = super().tools(services, sources)
        return [killing_tool(tool, SWITCH) for tool in tools]


class MortalApp(App):
    """The composition root with a kill switch at its ports."""

    agent_factory = MortalAgents

    async def _run(self, store: Store, status: LiveStatus, logs: SessionLogs | None) -> None:
        await super()._run(KillingStore(store, SWITCH), status, logs)


def main() -> int:
    if "gateway" in sys.argv:
        hermes.app.app.App = MortalApp  # type: ignore[misc]
        return cli.main()
    begun: list[subprocess.Popen[bytes]] = []

    def spawn() -> subprocess.Popen[bytes]:
        if begun:  # the gateway is dead, and nobody is to go on in this life
            os.kill(os.getpid(), signal.SIGKILL)
        program = f"import sys; from {__name__} import main; sys.exit(main())"
        null = subprocess.DEVNULL
        with open(Path(os.environ["HERMES_HOME"]) / "logs" / "gateway.out", "wb") as output:
            words = [sys.executable, "-P", "-c", program, "gateway", "run", "--background", WHILE_USED]
            begun.append(
                subprocess.Popen(words, stdin=null, stdout=output, stderr=output, start_new_session=True)
            )
        return begun[0]

    chat._chat = lambda command: chat.ChatProcess(command=command, spawn=spawn).run()
    return cli.main()
