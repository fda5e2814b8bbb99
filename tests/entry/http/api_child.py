"""The real gateway process with its HTTP door and a scripted model, to be killed: `api_child.py <home>`.

The model stops in the middle of its answer while `<home>/hold` exists; what tools did is a line each
in `<home>/done`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hermes.admin.process.run import GatewayProcess
from hermes.app.overrides import AppOverrides
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.word import replace
from hermes.testing.model import Say, ScriptedModel, obedient
from hermes.testing.tools import world_tools


def main(home: Path) -> int:
    def script(request: ModelRequest) -> Say:
        hold = asyncio.Event() if (home / "hold").exists() else None
        return replace(obedient(request), hold=hold)

    async def act(name: str, key: str, token: str) -> None:
        with (home / "done").open("a") as file:
            file.write(f"{name} {token}\n")

    given = AppOverrides(provider=ScriptedModel(script), tools=world_tools(act), platforms={})
    process = GatewayProcess(
        home=home, environ=os.environ, given=given, say=lambda line: print(line, file=sys.stderr, flush=True)
    )
    return process.run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
