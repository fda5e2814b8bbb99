"""Which chats get spoken answers. The mode of a chat is a stored fact."""

from __future__ import annotations

from enum import StrEnum

from hermes.domain.chats.address import Address
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace

_FACT = "voice."


class VoiceMode(StrEnum):
    OFF = "off"
    VOICE_ONLY = "voice_only"
    """Voice messages are answered with one."""
    ALL = "all"


def voice_mode(tx: Tx, chat: Address, settings: Settings) -> VoiceMode:
    usual = VoiceMode.VOICE_ONLY if settings.voice.auto_tts else VoiceMode.OFF
    return next((mode for mode in VoiceMode if mode == tx.facts.get(_key(chat))), usual)


def set_voice_mode(tx: Tx, chat: Address, mode: VoiceMode) -> None:
    tx.facts.put(_key(chat), mode)


def move_voice_mode(tx: Tx, old: Address, new: Address) -> None:
    if mode := tx.facts.get(_key(old)):
        tx.facts.put(_key(new), mode)


def _key(chat: Address) -> str:
    return f"{_FACT}{replace(chat, thread=None)}"
