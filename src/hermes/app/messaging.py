"""What the agents of a gateway need to send: how a tool posts to other chats, and which files may go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hermes.app.homes import is_wide
from hermes.control.core import TakeFile
from hermes.control.outbound.answers import collect_files
from hermes.control.outbound.sending import MessageSender, OutboundMessage
from hermes.domain.address import Address
from hermes.domain.channels import KnownChannels, MessagingPort
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.message import Attachment
from hermes.domain.ports.world import Media
from hermes.domain.settings.settings import Profile
from hermes.domain.text import one_line
from hermes.domain.tool import ToolContext
from hermes.state.files.outgoing import OutgoingFiles
from hermes.state.home.homes import agent_home


class Messaging:
    """`courier` is asked for when something is sent: there is one as soon as the gateway runs."""

    def __init__(self, home: Path, environ: Mapping[str, str], courier: Callable[[], MessageSender]) -> None:
        self._home = home
        self._environ = environ
        self._courier = courier
        self._files: dict[AgentId, TakeFile] = {}
        self._media: list[Media] = []

    @property
    def office(self) -> MessagingPort:
        return MessagingPort(send=self._send, places=self._places, spelled=self._spelled)

    def files(
        self, profile: Profile, workspace: Path, media: Media, kept: Path, closed: Sequence[str]
    ) -> TakeFile:
        """What lets an agent's files go: those of its workspace unless that is too wide, its media folder
        `kept`, and the folders that the settings name; nothing in a `closed` home but these."""
        settings = profile.settings
        user_home = Path(self._environ.get("HOME") or Path.home())
        named = [_absolute(folder, user_home) for folder in settings.gateway.media_delivery_allow_dirs]
        hosted = [agent_home(self._home, AgentId(name), settings) for name in settings.agents]
        own = [] if is_wide(workspace, self._environ) else [workspace]
        files = OutgoingFiles(
            media=media,
            workspace=workspace,
            allowed=[*own, kept, *(folder for folder in named if folder is not None)],
            homes=[*map(Path, closed), profile.home, *hosted],
            user_home=user_home,
        )
        self._files[profile.agent] = files.take
        self._media.append(media)
        return files.take

    async def open(self, file: Attachment) -> bytes:
        """The bytes of a file on its way out, named by its content: whose folder has it is all one."""
        for media in self._media:
            try:
                return await media.open(file.sha256 or "")
            except UserError:
                continue
        raise UserError(f"The file {one_line(file.name or file.ref, 80)} no longer exists.")

    async def _send(self, context: ToolContext, target: str, text: str) -> Sequence[Address]:
        body = await collect_files(text, self._files.get(context.agent))
        letter = OutboundMessage(key=context.key, target=target, body=body, turn=context.turn)
        return (await self._courier().post(context.agent, letter)).to

    async def _places(self, context: ToolContext) -> KnownChannels:
        known = await self._courier().known(context.agent, context.turn)
        return KnownChannels(homes=known.homes, channels=known.channels)

    async def _spelled(self, agent: AgentId, turn: TurnId, target: str) -> Sequence[Sequence[str]]:
        return await self._courier().spelled(agent, turn, target)


def _absolute(folder: str, user_home: Path) -> Path | None:
    """A folder of the settings; one that is not absolute names no place."""
    place = Path(folder)
    if place.parts and place.parts[0] == "~":
        place = user_home.joinpath(*place.parts[1:])
    return place if place.is_absolute() else None
