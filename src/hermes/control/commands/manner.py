"""Commands about how an agent behaves in this session and what of its work is shown: `/personality`,
`/reasoning`, `/footer`, `/verbose`, kept with the session, by name; and `/voice`, kept for the chat. All
survive a restart."""

from __future__ import annotations

from typing import Any

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.domain.chats.voice_modes import VoiceMode, set_voice_mode, voice_mode
from hermes.domain.errors import UserError
from hermes.domain.models.manner import NO_MANNER, NO_PERSONALITY
from hermes.domain.models.personalities import check_personality, personality_names
from hermes.domain.settings.manner import EFFORTS, PROGRESS
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.stream.fold.display import display_for

_DEFAULT = ("default", "reset")
_SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "show": ({"thoughts": True}, "What the model thinks is shown in this session."),
    "hide": ({"thoughts": False}, "What the model thinks is not shown in this session."),
    "full": ({"thoughts": True, "full": True}, "All that the model thinks is shown in this session."),
    "clamp": ({"thoughts": True, "full": False}, "Of what the model thinks the last lines are shown."),
    "reset": ({"thoughts": None, "full": None, "effort": ""}, "Thinking is as the settings say again."),
}
_LEVELS = [level for level in EFFORTS if level]
_ON = {"on": True, "off": False}
_VOICE = {"on": VoiceMode.VOICE_ONLY, "tts": VoiceMode.ALL, "off": VoiceMode.OFF}
_SPOKEN = {
    VoiceMode.OFF: "Answers are not spoken in this chat.",
    VoiceMode.VOICE_ONLY: "Voice messages in this chat are answered with one, beside the text.",
    VoiceMode.ALL: "All answers in this chat are spoken, beside the text.",
}


def keep_manner(call: CommandCall, **changes: Any) -> None:
    changed = replace(call.session.manner or NO_MANNER, **changes)
    call.tx.sessions.save(replace(call.session, manner=None if changed == NO_MANNER else changed))


@command("personality", "show or choose how the agent speaks in this session", usage="[name|none|default]")
def personality(call: CommandCall) -> CommandReply:
    own = call.settings.personalities
    default = call.settings.display.personality or NO_PERSONALITY
    if not call.args:
        now = (call.session.manner or NO_MANNER).personality or default
        names = ", ".join([*personality_names(own), NO_PERSONALITY, "default"])
        return CommandReply(text=f"Personality: {now}\nTo choose from: {names}")
    if call.args.lower() in _DEFAULT:
        keep_manner(call, personality="")
        return CommandReply(text=f"This session has the default personality again: {default}.")
    name = check_personality(call.args, own)
    keep_manner(call, personality=name)
    return CommandReply(text=f"Personality of this session: {name}.")


@command(
    "reasoning",
    "show or set how hard the model thinks here, and whether it is shown",
    usage=f"[{'|'.join(_LEVELS)}|show|hide|full|clamp|reset]",
)
def reasoning(call: CommandCall) -> CommandReply:
    word = call.args.lower()
    if not word:
        own, settings = call.session.manner or NO_MANNER, call.settings.agent
        level = own.effort or settings.reasoning_effort or "as the model likes"
        shown = display_for(call.settings, call.source.address, call.session.manner)
        seen = ("all shown" if shown.thoughts_full else "shown") if shown.thoughts else "not shown"
        return CommandReply(text=f"Thinking: {level}, {seen}.")
    if word in _SHOWN:
        changes, text = _SHOWN[word]
        keep_manner(call, **changes)
        return CommandReply(text=text)
    if "--global" in word.split():
        hint = "The operator sets it for all with: hermes config set agent.reasoning_effort <level>"
        raise UserError("/reasoning counts for this session alone.", hint=hint)
    if word not in _LEVELS:
        hint = f"Known: {', '.join([*_LEVELS, *_SHOWN])}."
        raise UserError(f"“{one_line(call.args, 20)}” is no level of thinking.", hint=hint)
    keep_manner(call, effort=word)
    return CommandReply(text=f"The model of this session thinks at the level {word} from now on.")


@command("footer", "show what an answer took, in a line below it", usage="[on|off|status]")
def footer(call: CommandCall) -> CommandReply:
    if call.is_local:
        raise UserError("The footer is for chats.", hint="Here /usage says what the session took.")
    word = call.args.lower()
    if word in ("", "status"):
        shown = display_for(call.settings, call.source.address, call.session.manner).footer
        return CommandReply(text=f"The footer is {'on' if shown else 'off'} in this session.")
    if word not in _ON:
        raise UserError(f"“{one_line(call.args, 20)}” is neither on nor off.", hint="Write /footer on.")
    keep_manner(call, footer=_ON[word])
    return CommandReply(text=f"The footer is {word} in this session from now on.")


@command("verbose", "show more or less of tools at work in this session", usage=f"[{'|'.join(PROGRESS)}]")
def verbose(call: CommandCall) -> CommandReply:
    now = display_for(call.settings, call.source.address, call.session.manner).progress.value
    word = call.args.lower() or PROGRESS[(PROGRESS.index(now) + 1) % len(PROGRESS)]
    if word not in PROGRESS:
        hint = f"Known: {', '.join(PROGRESS)}."
        raise UserError(f"“{one_line(call.args, 20)}” is no level of tool progress.", hint=hint)
    keep_manner(call, progress=word)
    return CommandReply(text=f"Tools at work are shown in this session: {word}.")


@command("voice", "choose whether answers are spoken in this chat", usage="[on|off|tts|status]")
def voice(call: CommandCall) -> CommandReply:
    if call.is_local:
        raise UserError("/voice is for chats.", hint="Nothing is spoken in the terminal.")
    word, chat = call.args.lower(), call.source.address
    if word in ("", "status"):
        heard = "written down" if call.settings.stt.enabled else "not written down"
        mode = voice_mode(call.tx, chat, call.settings)
        return CommandReply(text=f"{_SPOKEN[mode]} Voice messages are {heard}.")
    if word not in _VOICE:
        hint = "There are on (voice answers voice), tts (every answer), off and status."
        raise UserError(f"“{one_line(call.args, 20)}” is no way to speak.", hint=hint)
    if word != "off" and call.runtime.speak is None:
        hint = "Whoever runs me sets tts.provider, or installs one: hermes platforms install tts"
        raise UserError("There is nothing here that speaks.", hint=hint)
    set_voice_mode(call.tx, chat, _VOICE[word])
    return CommandReply(text=_SPOKEN[_VOICE[word]])
