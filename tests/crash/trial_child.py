"""The real gateway process for the trial, with its settings, lock, store and provider. The platform is the
fake one, whose world the test keeps; the tools act on it. `trial_child.py <home> <port> <kind>`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hermes.admin.process.run import GatewayProcess
from hermes.app.overrides import AppOverrides
from hermes.testing.platform import fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.wire import RemoteWorld


def main(home: Path, port: int, kind: str) -> int:
    service = RemoteWorld(port)
    given = AppOverrides(tools=world_tools(service.effect), platforms={"fake": fake_platform(kind, service)})
    process = GatewayProcess(
        home=home, environ=os.environ, given=given, say=lambda line: print("ready", flush=True)
    )
    return process.run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
