"""The real gateway process with a scripted model and the fake platform, whose world the test keeps.

`gateway_child.py <home> <port> <grace>`; the model hangs while `<home>/hold` exists,
and there is none if `<home>/no-model` does."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hermes.admin.process.run import GatewayProcess
from hermes.app.overrides import AppOverrides
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace
from hermes.testing.model import Say, ScriptedModel, last_words
from hermes.testing.platform import fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.wire import RemoteWorld


def main(home: Path, port: int, grace: float) -> int:
    def change(settings: Settings) -> Settings:
        return replace(settings, agent=replace(settings.agent, restart_drain_timeout=grace))

    def script(request: ModelRequest) -> Say:
        hold = asyncio.Event() if (home / "hold").exists() else None
        return Say(text=f"You said: {last_words(request)}", hold=hold)

    service = RemoteWorld(port)
    given = AppOverrides(
        provider=None if (home / "no-model").exists() else ScriptedModel(script),
        tools=world_tools(service.effect),
        platforms={"fake": fake_platform("edits", service)},
        change=change,
    )
    process = GatewayProcess(
        home=home, environ=os.environ, given=given, say=lambda line: print(line, file=sys.stderr, flush=True)
    )
    return process.run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
