"""Which message a bot may still answer: QQ lets it answer each one four times within an hour in private, five
times within five minutes in a group, and mostly lets it begin nothing by itself. Kept in memory;
after a restart QQ itself says what is over."""

from __future__ import annotations

from msgspec import Struct

from hermes.entry.kit.payload import Recent

_SECONDS = {True: 3_500.0, False: 280.0}
"""A little less than QQ gives, for a private chat and for a group."""
_MOST = {"u": 4, "g": 5}
_MOST_KEPT = 20


class _Heard(Struct, kw_only=True):
    at: float
    left: int


class QQReplies:
    def __init__(self) -> None:
        self._chats: Recent[str, Recent[str, _Heard]] = Recent(5_000)

    def hear(self, chat: str, message: str, now: float) -> None:
        heard = self._chats.setdefault(chat, Recent(_MOST_KEPT))
        if message not in heard:
            heard[message] = _Heard(at=now, left=_MOST[chat[0]])

    def choose(self, chat: str, wanted: str | None, private: bool, now: float) -> str | None:
        """The message that the next one answers: the wanted one if that may be, or else the newest."""
        heard = self._chats.get(chat) or Recent()
        if wanted is not None and wanted not in heard:
            return wanted  # of an earlier life
        for message in filter(None, (wanted, *reversed(heard))):
            if heard[message].left > 0 and now - heard[message].at < _SECONDS[private]:
                return message
        return None

    def count(self, chat: str, message: str, now: float, *, over: bool = False) -> None:
        """It was answered once more; or it is `over`: QQ takes no more answers to it."""
        self.hear(chat, message, now)
        heard = self._chats[chat][message]
        heard.left = 0 if over else heard.left - 1
