"""Settings of speech that is written down, words that are spoken, and pictures that are made."""

from __future__ import annotations

from msgspec import field

from hermes.domain.settings.declaring import Secret, Section, setting

_KEY = "The key for it; empty = `VOICE_TOOLS_OPENAI_KEY`, or `OPENAI_API_KEY`."
_COMMAND = "The command, run by `sh`, with {} in it for what is given and made."


class SttEndpoint(Section, frozen=True, kw_only=True):
    """An OpenAI-compatible API that writes speech down."""

    model: str = setting("", "Its name; empty = `whisper-1`.")
    base_url: str = setting("", "Its address; empty = OpenAI's.", form="url")
    api_key: Secret = setting(Secret(""), _KEY)


class LocalStt(Section, frozen=True, kw_only=True):
    """Whisper on this machine (`hermes platforms install stt`)."""

    model: str = setting(
        "base",
        "A folder with a converted model, or a size (`tiny`, `base`, `small` …) that is downloaded once.",
    )
    language: str = setting("", "Like `de`; empty = it is recognised.")


class SttProgram(Section, frozen=True, kw_only=True):
    """A program of your own that writes speech down."""

    type: str = setting("command", "What it is.", choices=("command",))
    command: str = setting("", _COMMAND.format("`{input_path}`, `{output_path}`, `{model}` and `{language}`"))
    format: str = setting("txt", "How the name of what it makes ends.")
    model: str = setting("", "What `{model}` stands for.")
    language: str = setting("", "What `{language}` stands for.")
    timeout: float = setting(300.0, "Seconds that it may take.", least=1)


class SttSettings(Section, frozen=True, kw_only=True):
    """How voice messages are written down before they are answered."""

    enabled: bool = setting(True, "Whether they are.")
    echo_transcripts: bool = setting(True, "Whether the person is shown what was understood.")
    provider: str = setting("local", "`local`, `openai`, or a name below `stt.providers`.")
    local: LocalStt = field(default_factory=LocalStt)
    openai: SttEndpoint = field(default_factory=SttEndpoint)
    providers: dict[str, SttProgram] = setting({}, "Programs of your own, by name.")


class TtsVoice(Section, frozen=True, kw_only=True):
    """Who speaks."""

    voice: str = setting("", "The voice; for `piper` the file of its model. Empty = the usual one.")


class TtsEndpoint(Section, frozen=True, kw_only=True):
    """An OpenAI-compatible API that speaks."""

    model: str = setting("", "Its name; empty = `gpt-4o-mini-tts`.")
    voice: str = setting("alloy", "The voice.")
    base_url: str = setting("", "Its address; empty = OpenAI's.", form="url")
    api_key: Secret = setting(Secret(""), _KEY)


class TtsProgram(Section, frozen=True, kw_only=True):
    """A program that speaks: one of your own, or, without a command, one that Hermes knows."""

    type: str = setting("command", "What it is.", choices=("command",))
    command: str = setting("", _COMMAND.format("`{input_path}`, `{output_path}`, `{voice}` and `{model}`"))
    output_format: str = setting("mp3", "How the name of what it makes ends: `mp3`, `wav`, `ogg`, `flac`.")
    voice: str = setting("", "What `{voice}` stands for.")
    model: str = setting("", "What `{model}` stands for.")
    voice_compatible: bool = setting(
        True, "False: what it makes is sent as a sound file, not as a voice message."
    )
    timeout: float = setting(120.0, "Seconds that it may take.", least=1)


class TtsSettings(Section, frozen=True, kw_only=True):
    """How answers are spoken."""

    provider: str = setting(
        "auto",
        "`edge`, `openai`, `espeak-ng`, `flite`, `piper`, or a name below `tts.providers`; `auto` = the "
        "first of `edge`, `espeak-ng` and `flite` that is installed.",
    )
    edge: TtsVoice = field(default_factory=TtsVoice)
    piper: TtsVoice = field(default_factory=TtsVoice)
    openai: TtsEndpoint = field(default_factory=TtsEndpoint)
    providers: dict[str, TtsProgram] = setting(
        {}, "Programs of your own, or other voices of those above, by name."
    )


class VoiceSettings(Section, frozen=True, kw_only=True):
    """Spoken answers in chats; `/voice` decides for one chat."""

    auto_tts: bool = setting(False, "Whether voice messages are answered with one where nobody said /voice.")


class ImageGenSettings(Section, frozen=True, kw_only=True):
    """What makes pictures: an OpenAI-compatible API. Without a model there is no such tool."""

    model: str = setting("", "Its name, like `gpt-image-1`.")
    provider: str = setting("", "Who serves it; empty = as the main model.")
    base_url: str = setting("", "Its address.", form="url")
    api_key: Secret = setting(Secret(""), "The key for it; a named provider reads `<PROVIDER>_API_KEY`.")
    api_mode: str = setting(
        "",
        "How it is asked: `images`, or `chat_completions` for models that put pictures into answers; empty = "
        "the latter at OpenRouter.",
        choices=("", "images", "chat_completions"),
    )
    timeout: float = setting(180.0, "Seconds that a picture may take.", least=1)
