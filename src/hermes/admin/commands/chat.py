"""`hermes` and `hermes chat`: what the words are (an option, a pipe, a person), and which gateway hears them.

A gateway that works on the home already is attached to, whoever runs it; otherwise this process holds the
home and embeds one. The conversation itself is in `conversation.py`."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.admin.process.run import embed, loop_factory, tell_problems
from hermes.admin.process.running import RunningGateway, find_running
from hermes.admin.shell.command import CliCommand, UsageError, declare
from hermes.domain.errors import UserError
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.app.app import App
    from hermes.app.overrides import AppOverrides
    from hermes.domain.settings.settings import Settings
    from hermes.entry.terminal.door import SessionChoice

CHAT = "hermes chat"
_PATIENCE = 3.0
_MOST_BYTES = 64 * 1024 * 1024
_NO_WORDS = "Nothing was said: standard input is empty."
_NO_QUERY = "Nothing was said: -q needs words."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_chat)
    parser.description = (
        "Talk with the agent. Without -q and with a terminal: a conversation. With -q, -z or a pipe: one"
        " message and its answer."
    )
    declare(parser, {"-q, --query TEXT": "send this, print the answer, and exit"})
    declare(parser, {"-z, --oneshot TEXT": "print only the final answer to TEXT or -q"}, nargs="?", const="")
    declare(parser, {"-r, --resume SESSION": "continue this session, by id or title"})
    latest = {"-c, --continue SESSION": "continue your last session, or this one"}
    declare(parser, latest, dest="latest", nargs="?", const="")
    declare(
        parser,
        {"-m, --model NAME": "the model for this session", "-t, --toolsets A,B": "only these toolsets"},
    )


def _chat(command: CliCommand) -> int:
    return ChatProcess(command=command).run()


class ChatProcess(Struct, frozen=True, kw_only=True):
    """A conversation as a process. `given` is for tests."""

    command: CliCommand
    given: AppOverrides | None = None

    @property
    def asked(self) -> argparse.Namespace:
        return self.command.asked

    def run(self) -> int:
        if self.asked.resume is not None and self.asked.latest is not None:
            raise UsageError("--resume and --continue cannot be used together.")
        words = self._words()
        running = find_running(self.command.home, self.command.environ)
        return self._embed(words) if running is None else self._attach(words, running)

    def _attach(self, words: str | None, running: RunningGateway) -> int:
        if self.asked.toolsets:
            raise UserError(
                f"--toolsets cannot be chosen here: a gateway runs already ({running.holder}), with its own.",
                hint="Leave the option out, or stop that gateway first: hermes gateway stop",
            )
        from hermes.admin.commands.conversation import talk_attached

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(talk_attached(self, running, words))

    def _embed(self, words: str | None) -> int:
        async def talk(app: App) -> int:
            from hermes.admin.commands.conversation import talk_embedded

            tell_problems(app.loaded)
            return await talk_embedded(self, app, words)

        return embed(self.command, CHAT, self._given, talk)

    # --- what is said ---

    @property
    def interactive(self) -> bool:
        return is_terminal(sys.stdin)

    @property
    def watched(self) -> bool:
        """Whether a person follows even a single message as it is answered."""
        return self.interactive and is_terminal(sys.stdout) and not self.final_only

    @property
    def final_only(self) -> bool:
        return self.asked.oneshot is not None

    def _words(self) -> str | None:
        """The one message of a one-shot; None for a conversation."""
        parts = [part for part in (self.asked.query, self.asked.oneshot) if part and part.strip()]
        if not self.interactive:
            parts.append(self._read_pipe(bool(parts)))
        told = "\n\n".join(part for part in parts if part.strip())
        if told.strip():
            return told
        if self.asked.query is not None or self.final_only or not self.interactive:
            raise UsageError(_NO_WORDS if self.asked.query is None and not self.interactive else _NO_QUERY)
        return None

    def _read_pipe(self, has_words: bool) -> str:
        """What comes by standard input, to its end; if nothing comes, what is waited for is told."""
        if sys.stdin is None:
            return ""
        descriptor = sys.stdin.fileno()
        if has_words and not _may_carry(descriptor):
            return ""
        if not select.select([descriptor], [], [], _PATIENCE)[0]:
            self.command.console.note("hermes: reading standard input to its end (</dev/null gives none) …")
        data = sys.stdin.buffer.read(_MOST_BYTES)
        return data.decode("utf-8", "replace")

    def _given(self) -> AppOverrides:
        from hermes.app.overrides import AppOverrides
        from hermes.domain.toolbox import ToolsetLimit

        given = self.given or AppOverrides(workspace=current_folder(), boots=False)
        wanted = tuple(name.strip() for name in (self.asked.toolsets or "").split(",") if name.strip())
        if wanted:
            given = replace(given, toolsets=ToolsetLimit(enabled=wanted))
        model = self.asked.model
        if model:
            given = replace(given, change=lambda settings: _with_model(settings, model))
        return given

    def wish(self, words: str | None) -> SessionChoice:
        from hermes.entry.terminal.door import SessionChoice

        named = self.asked.resume or self.asked.latest or None
        return SessionChoice(
            named=named,
            latest=self.asked.latest is not None,
            attach=words is None,
            model=self.asked.model,
        )


def is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _may_carry(descriptor: int) -> bool:
    """Whether somebody may have sent something along: a pipe, a file or a socket, not a bare device."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def current_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def _with_model(settings: Settings, model: str) -> Settings:
    return replace(settings, model=replace(settings.model, default=settings.model.default or model))
