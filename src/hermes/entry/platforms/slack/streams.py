"""Answers through Slack's own streams (`chat.startStream` …), where the operator wants them: in threads
of direct messages, since in a channel only one person sees such a stream grow.

A stream takes only what is added at its end, and Slack ends it when it likes. Whatever it does not take, and
whatever nobody knows the fate of, is written over the message by an edit, as everywhere else."""

from __future__ import annotations

import contextlib
import logging
import re
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.errors import HermesError
from hermes.domain.text import one_line
from hermes.entry.kit.errors import TOO_FAST
from hermes.entry.kit.payload import Recent, as_text, dig
from hermes.entry.platforms.slack.api import SlackApi, SlackResponse

log = logging.getLogger("hermes.slack")
_MARKUP = re.compile(r"[*_`~|<>\[\]#\\]")


class SlackStreams:
    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._open: Recent[str, str] = Recent()
        """What each stream of this life has been given."""
        self._refused: Recent[str, None] = Recent()

    async def start(self, to: Address, body: Body) -> Receipt | None:
        """A message that will grow; None if it has to be an ordinary one."""
        if not body.growing or to.thread is None or not to.chat.startswith("D") or to.chat in self._refused:
            return None
        text = _settled(body.text) or body.text
        asked = {"channel": to.chat, "thread_ts": to.thread, "markdown_text": text}
        response = await self._ask("chat.startStream", asked)
        if response.status == TOO_FAST or response.status >= 500:
            _ = response.result  # a second message could be one too many
        ts = as_text(dig(response.answer, "ts"))
        if not _is_ok(response) or not ts:
            self._refused[to.chat] = None
            return None
        self._open[ts] = text
        return Receipt(to=to, ref=ts)

    async def grow(self, receipt: Receipt, body: Body) -> bool:
        """Whether the message now says this; if not, it is an ordinary message, to be edited."""
        given = self._open.pop(receipt.ref, None)
        if given is None:
            return False
        text = _settled(body.text) if body.growing else body.text
        if text.startswith(given) and not body.buttons:
            more = {"markdown_text": text[len(given) :]} if len(text) > len(given) else {}
            if body.growing and not more:
                self._open[receipt.ref] = given
                return True
            method = "chat.appendStream" if body.growing else "chat.stopStream"
            response = await self._ask(method, {**_message(receipt), **more})
            if response.status == TOO_FAST:
                self._open[receipt.ref] = given  # nothing was added
                _ = response.result
            if _is_ok(response):
                if body.growing:
                    self._open[receipt.ref] = text
                return True
        await self.end(receipt)
        return False

    async def end(self, receipt: Receipt) -> None:
        """An edit of what still streams is refused, also of what an earlier life began."""
        with contextlib.suppress(HermesError):
            await self._ask("chat.stopStream", _message(receipt))

    async def _ask(self, method: str, asked: dict[str, Any]) -> SlackResponse:
        response = await self._api.ask(method, asked)
        if not _is_ok(response) and response.status != TOO_FAST:
            why = one_line(as_text(dig(response.answer, "error")) or f"HTTP {response.status}", 80)
            log.info("slack.no_stream method=%s why=%s", method, why)
        return response


def _is_ok(response: SlackResponse) -> bool:
    return response.status < 300 and dig(response.answer, "ok") is True


def _settled(text: str) -> str:
    """What of a growing text will not be printed otherwise when more of it has come: whole lines, and of the
    last one the words, if nothing in it may turn out to be marked up."""
    lines, newline, last = text.rpartition("\n")
    return f"{lines}{newline}" if _MARKUP.search(last) else text


def _message(receipt: Receipt) -> dict[str, Any]:
    return {"channel": receipt.to.chat, "ts": receipt.ref}
