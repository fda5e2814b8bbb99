"""`hermes gateway run` with the model and the tools of `chat_child.py`: `words_gateway.py <home>`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hermes import __version__
from hermes.admin.process.run import GatewayProcess
from hermes.admin.process.spawning import WHILE_USED
from tests.cli.chat_child import world

if __name__ == "__main__":
    home = Path(sys.argv[1])
    home.mkdir(mode=0o700, exist_ok=True)
    process = GatewayProcess(
        home=home,
        environ=os.environ,
        given=world(home),
        say=lambda line: print(line, file=sys.stderr, flush=True),
        temporary=WHILE_USED in sys.argv,
        version=os.environ.get("WORDS_VERSION", __version__),
    )
    sys.exit(process.run())
