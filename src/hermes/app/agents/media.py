"""What an agent hears, says, sees and paints with: the engines and services that the settings name for it.

A service is chosen when it is first asked, like a model; which programs are installed is looked up when the
agent is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct

from hermes.agent.models.choose import ModelAccess
from hermes.agent.models.media_service import MediaService
from hermes.agent.tools.media import FindSight, PaintPicture, ShrinkPicture, Sight, SpeakText
from hermes.app.agents.models import AgentModels
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import UserError
from hermes.domain.models.model_facts import ModelRole
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import Egress, Media
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.media import SttEndpoint, SttProgram, TtsEndpoint, TtsProgram
from hermes.domain.settings.settings import AuxiliaryModel, Profile
from hermes.domain.text import closest
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import ToolContext
from hermes.domain.word import replace
from hermes.execution.media.programs import (
    SMALLER_PICTURE,
    SPEAKERS,
    UNASKED,
    VOICE_NOTES,
    WHISPER,
    MediaProgram,
    run_program,
)
from hermes.state.files.sniff import ending, sniff
from hermes.state.settings.loader import LoadedSettings

_OPENAI = "openai"
_VOICE_KEY = "VOICE_TOOLS_OPENAI_KEY"
_AUTO = "auto"
_LOCAL = "local"
_WHISPER, _SPEAKER = "whisper-1", "gpt-4o-mini-tts"
_OGG = "audio/ogg"
Transcribe = Callable[[Attachment], Awaitable[tuple[str, Usage | None]]]
Paint = Callable[[str, str, Sequence[tuple[str, bytes]]], Awaitable[tuple[bytes, Usage]]]


class Speak(Protocol):
    """Speaks words, as one of these types of sound if any are named."""

    async def __call__(self, text: str, mimes: Sequence[str] = (), /) -> tuple[Attachment, Usage | None]: ...


class AgentMedia(Struct, frozen=True, kw_only=True):
    profile: Profile
    store: Store
    models: AgentModels
    egress: Egress
    media: Media
    variable: Callable[[str], str] = lambda name: ""

    def offered(self, services: ToolServices) -> ToolServices:
        """With what the tools of pictures and speech need."""
        services = services.plus(SpeakText, self.speaker()).plus(PaintPicture, self.painter())
        return services.plus(FindSight, self.sight).plus(ShrinkPicture, self.shrink)

    # --- hearing

    def transcriber(self) -> Transcribe | None:
        return self._transcribe if self.profile.settings.stt.enabled else None

    async def _transcribe(self, file: Attachment) -> tuple[str, Usage | None]:
        wanted = self.profile.settings.stt
        data, name = await self.media.open(file.sha256 or ""), f"voice{ending(file.mime or '')}"
        if wanted.provider == _OPENAI:
            service = await self._service(self._voice_model(wanted.openai, _WHISPER), 300.0)
            return await service.hear(name, file.mime or _OGG, data)
        own_program = wanted.providers.get(wanted.provider)
        if own_program is None:
            words = {"model": wanted.local.model, "language": wanted.local.language}
            heard = await run_program(WHISPER, data, name=name, **words)
        else:
            program = MediaProgram(
                command=own_program.command, format=own_program.format, seconds=own_program.timeout
            )
            words = {"model": own_program.model, "language": own_program.language}
            heard = await run_program(program, data, name=name, **words)
        return heard.decode("utf-8", "replace").strip(), None

    # --- speaking

    def speaker(self) -> Speak | None:
        """None if nothing is installed that speaks, and nobody asked for anything. Looks at files."""
        wanted = self.profile.settings.tts
        if wanted.provider != _AUTO:
            return partial(self._speak, wanted.provider)
        found = next((name for name in UNASKED if SPEAKERS[name].is_installed), None)
        return None if found is None else partial(self._speak, found)

    async def _speak(
        self, name: str, text: str, mimes: Sequence[str] = ()
    ) -> tuple[Attachment, Usage | None]:
        wanted, usage = self.profile.settings.tts, None
        own_program = wanted.providers.get(name, TtsProgram())
        if name == _OPENAI:
            service = await self._service(self._voice_model(wanted.openai, _SPEAKER), 120.0)
            data, usage = await service.speak(text, wanted.openai.voice)
        else:
            program = _speaker(name, own_program)
            named = {"edge": wanted.edge.voice, "piper": wanted.piper.voice}.get(name, "")
            words = {"voice": own_program.voice or named or program.voice, "model": own_program.model}
            if not words["voice"] and "{voice}" in program.command:
                raise UserError(f"{name} needs a voice.", hint=f"Set tts.{name}.voice.")
            data = await run_program(program, text.encode(), name="text.txt", **words)
        item = await self._kept_sound(data, own_program.voice_compatible, mimes)
        file = replace(item.attached(f"voice{ending(item.mime)}"), path=self.media.locate(item))
        if not file.mime or not file.mime.startswith("audio/"):
            raise UserError(f"What {name} made is no sound ({file.mime}).")
        return (replace(file, kind=MediaKind.VOICE) if own_program.voice_compatible else file), usage

    async def _kept_sound(self, data: bytes, as_voice: bool, mimes: Sequence[str]) -> MediaItem:
        """As a platform with these types takes voice messages, where ffmpeg is there to make them so."""
        wanted = next((mime for mime in mimes if mime in VOICE_NOTES), _OGG)
        if as_voice and sniff(data) not in (wanted, "text/plain") and VOICE_NOTES[wanted].is_installed:
            data = await run_program(VOICE_NOTES[wanted], data)
        return await self.media.put(data, sniff(data))

    def _voice_model(self, own: SttEndpoint | TtsEndpoint, usual: str) -> AuxiliaryModel:
        """No address is OpenAI's, with the key that Hermes Agent has for voices."""
        provider = "" if own.base_url else _OPENAI
        key = own.api_key or Secret(self.variable(_VOICE_KEY) if provider else "")
        return AuxiliaryModel(model=own.model or usual, provider=provider, base_url=own.base_url, api_key=key)

    # --- pictures

    def painter(self) -> Paint | None:
        return self._paint if self.profile.settings.image_gen.model else None

    async def _paint(self, prompt: str, shape: str, seen: Sequence[tuple[str, bytes]]) -> tuple[bytes, Usage]:
        own = self.profile.settings.image_gen
        asked = AuxiliaryModel(
            model=own.model, provider=own.provider, base_url=own.base_url, api_key=own.api_key
        )
        service = await self._service(asked, own.timeout)
        chats = own.api_mode == "chat_completions" or (
            not own.api_mode and "//openrouter.ai/" in service.base_url
        )
        return await (service.paint_in_chat if chats else service.paint)(prompt, shape, seen)

    async def shrink(self, data: bytes) -> bytes:
        return await run_program(SMALLER_PICTURE, data)

    async def sight(self, context: ToolContext) -> Sight:
        settings = self.profile.settings
        turn = await self.store.read(lambda tx: tx.turns.get(context.turn))
        session = await self.store.read(lambda tx: tx.sessions.get(context.session))
        model = (turn and turn.input.guidance.model) or (session and session.model) or ""
        own = self.models.facts_of(self.profile.agent, model).images is not False
        if own and settings.agent.image_input_mode != "text":
            return Sight.OWN
        role = settings.auxiliary.get(ModelRole.VISION, AuxiliaryModel(enabled=False))
        if role.enabled and role != AuxiliaryModel():
            return Sight.ROLE
        raise UserError("The model of this session sees no pictures.", hint="Set auxiliary.vision.model.")

    async def _service(self, asked: AuxiliaryModel, seconds: float) -> MediaService:
        choice, facts = await self.models.service(self.profile.agent, asked)
        if choice.way is not ModelAccess.HTTP:
            raise UserError(f"{asked.model} cannot be asked: {choice.why}.", hint=choice.hint)
        return MediaService(
            base_url=choice.base_url,
            key=choice.key,
            model=choice.model,
            egress=self.egress,
            facts=facts,
            headers={name: text.reveal() for name, text in choice.options.headers},
            seconds=seconds,
        )


def check_media(loaded: LoadedSettings) -> None:
    """A `SettingsError` for an engine that there is not, or one of your own that is never run."""
    settings = loaded.settings
    spoken = {_AUTO, _OPENAI, *SPEAKERS, *settings.tts.providers}
    heard = {_LOCAL, _OPENAI, *settings.stt.providers}
    for key, name, known in (
        ("tts.provider", settings.tts.provider, spoken),
        ("stt.provider", settings.stt.provider, heard),
    ):
        if name not in known:
            near = closest(name, known)
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(sorted(known))}."
            raise loaded.wrong(key, f"{key}: there is no “{name}” here.", hint)
    own: dict[str, SttProgram | TtsProgram] = {
        **{
            f"tts.providers.{name}": one
            for name, one in settings.tts.providers.items()
            if name not in SPEAKERS
        },
        **{f"stt.providers.{name}": one for name, one in settings.stt.providers.items()},
    }
    for key, program in own.items():
        if not program.command.strip():
            raise loaded.wrong(f"{key}.command", f"{key}: it has no command.", "Write one, or remove it.")


def _speaker(name: str, own: TtsProgram) -> MediaProgram:
    if not own.command:
        return replace(SPEAKERS[name], seconds=own.timeout)
    return MediaProgram(command=own.command, format=own.output_format, seconds=own.timeout)
