"""The gateway's ways out: the client for addresses from outside, and the proxy of sandboxes, both by the
settings of now. It lives as long as the gateway."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path

from hermes.domain.ids import AgentId
from hermes.domain.ports.world import BackendRequest
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace
from hermes.execution.egress.broker import AgentBroker
from hermes.execution.egress.proxy import ProxySurroundings, SandboxProxy
from hermes.execution.egress.reach import Reach
from hermes.execution.egress.wire import Wire
from hermes.state.home.locks import runtime_folders

FOLDER = "egress"
_LONGEST = 85
"""The path of a socket has about a hundred bytes; its last two names take fifteen."""


class AppEgress:
    def __init__(self, home: Path, environ: Mapping[str, str], settings: Callable[[], Settings]) -> None:
        self._settings = settings
        around = ProxySurroundings(reach=Reach, wire=Wire, broker=AgentBroker)
        self.proxy = SandboxProxy(egress_folder(home, environ), around)

    def lead_out(self, request: BackendRequest) -> BackendRequest:
        """A backend that may reach some hosts gets the way to them."""
        if request.network.open or not request.network.hosts:
            return request
        agent: AgentId = request.profile.agent
        return replace(request, open_egress=partial(self.proxy.open, agent, request.network))

    async def close(self) -> None:
        await self.proxy.close()


def egress_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """In the home, or, where that is too long a path for a socket, in the user's runtime folder."""
    folder = home / FOLDER
    if len(os.fsencode(folder)) <= _LONGEST:
        return folder
    return runtime_folders(environ)[-1] / f"egress-{sha256(os.fsencode(home)).hexdigest()[:16]}"
