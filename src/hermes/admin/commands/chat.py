"""`hermes` and `hermes chat`: what the words are (an option, a pipe, a person), and which gateway hears them.

This process is always a client of the home's gateway. Where none runs it starts one as a process of its own,
which outlives it, so a terminal that is closed or killed takes nothing along. The conversation itself is in
`conversation.py`; what this process loads is kept small, since every `hermes -q` waits for it."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import stat
import sys
from typing import Any

from msgspec import Struct

from hermes.admin.process.spawning import GatewayFinder, GatewayNotStarted, Spawn
from hermes.admin.shell.command import CliCommand, UsageError, declare, number_to
from hermes.domain.ids import AgentId
from hermes.entry.terminal.door import SessionChoice, TerminalState

_PATIENCE = 3.0
_URL = "HERMES_GATEWAY_URL"
_MOST_BYTES = 64 * 1024 * 1024
_NO_WORDS = "Nothing was said: standard input is empty."
_NO_QUERY = "Nothing was said: -q needs words."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_chat)
    parser.description = (
        "Talk with the agent. Without -q and with a terminal: a conversation. With -q, -z or a pipe: one"
        " message and its answer."
    )
    declare(parser, {"[prompt]": "begin the conversation with this"})
    declare(parser, {"-q, --query TEXT": "send this, print the answer, and exit"})
    declare(parser, {"-z, --oneshot TEXT": "print only the final answer to TEXT or -q"}, nargs="?", const="")
    declare(parser, {"-r, --resume SESSION": "continue this session, by id or title"})
    latest = {"-c, --continue SESSION": "continue your last session, or this one"}
    declare(parser, latest, dest="latest", nargs="?", const="")
    declare(
        parser,
        {
            "-m, --model NAME": "the model for this session",
            "--provider NAME": "the provider of that model",
            "--agent ID": "talk with this agent",
            "-t, --toolsets A,B": "only these toolsets",
            "-s, --skills A,B": "begin with these skills",
            "--gateway URL": "talk with a gateway elsewhere, with its key in HERMES_GATEWAY_KEY",
            "--usage-file FILE": "write what a single message took to this file, as JSON, also if it failed",
        },
    )
    declare(parser, {"--image FILE": "show this picture with the first message"}, action="append")
    steps = {"--max-turns N": "how many steps with tools an answer may take"}
    declare(parser, steps, type=number_to(1000), default=0)
    declare(
        parser,
        {
            "-v, --verbose": "show tools and thoughts, whatever the settings say",
            "-Q, --quiet": "no greeting and no tools; of one message the final answer, and the session's id",
            "--plain": "a plain chat, line by line, that redraws nothing",
            "--ignore-rules": "begin a session without SOUL.md and the files of the project",
            "--source TAG": "tag a session that begins, for `hermes sessions list --source TAG`",
            "--checkpoints": "keep states of the folder for /undo, also if the settings switch them off",
        },
    )


def _chat(command: CliCommand) -> int:
    return ChatProcess(command=command).run()


class ChatProcess(Struct, frozen=True, kw_only=True):
    """A conversation as a process. `spawn` starts another gateway than the usual one, for tests."""

    command: CliCommand
    spawn: Spawn | None = None
    url: str = ""
    """Of a gateway elsewhere."""

    @property
    def asked(self) -> argparse.Namespace:
        return self.command.asked

    def run(self) -> int:
        if self.asked.resume is not None and not self.asked.resume.strip():
            raise UsageError("--resume needs the id or the title of a session.")
        if self.asked.resume is not None and self.asked.latest is not None:
            raise UsageError("--resume and --continue cannot be used together.")
        if self.asked.prompt is not None and (self.asked.query is not None or self.final_only):
            raise UsageError("Give the message once: as an argument, or with -q or -z.")
        if self.asked.usage_file and not os.path.isdir(os.path.dirname(self.asked.usage_file) or "."):
            raise UsageError(f"{self.asked.usage_file} cannot be written: its folder does not exist.")
        if self.asked.quiet and self.asked.verbose:
            raise UsageError("--quiet and --verbose cannot be used together.")
        url = self.asked.gateway or self.command.environ.get(_URL, "")
        if url:
            from hermes.admin.commands.elsewhere import reach

            return reach(self, url)
        self._check_model()
        words = self.words()
        command = self.command
        finder = GatewayFinder(command.home, command.environ, command.console.note, self.spawn)
        try:
            finder.begin()
            # The gateway loads while this process does.
            from hermes.admin.commands.conversation import converse

            return asyncio.run(converse(self, finder.locate, words))
        except GatewayNotStarted as error:
            if not error.output.startswith("hermes: "):
                raise
            command.console.err.write(error.output)
            return error.code

    def _check_model(self) -> None:
        """Plain names are left to their provider, and cost nothing here."""
        name, provider = self.asked.model or "", self.asked.provider or ""
        if provider or ":" in name:
            from hermes.admin.commands.model import check_model

            self.asked.model = asyncio.run(check_model(self.command, name, provider))

    # --- what is said ---

    @property
    def interactive(self) -> bool:
        return is_terminal(sys.stdin)

    @property
    def watched(self) -> bool:
        """Whether a person follows even a single message as it is answered."""
        return self.interactive and is_terminal(sys.stdout) and not self.final_only

    @property
    def quiet(self) -> bool:
        """`HERMES_QUIET` is for scripts; who asks for more gets it."""
        told = self.command.environ.get("HERMES_QUIET", "").strip().lower()
        return (
            bool(self.asked.quiet or told not in ("", "0", "false", "no", "off")) and not self.asked.verbose
        )

    @property
    def final_only(self) -> bool:
        return self.asked.oneshot is not None or (self.quiet and not self.is_conversation)

    def words(self) -> str | None:
        """The message that was given; None if a conversation begins without one."""
        given = (self.asked.prompt, self.asked.query, self.asked.oneshot)
        parts = [part for part in given if part and part.strip()]
        if not self.interactive:
            parts.append(self._read_pipe(bool(parts)))
        told = "\n\n".join(part for part in parts if part.strip())
        if told.strip():
            return told
        if not self.is_conversation:
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

    @property
    def is_conversation(self) -> bool:
        """Whether somebody stays: then a prompt is only its beginning."""
        return self.interactive and self.asked.query is None and self.asked.oneshot is None

    @property
    def _model(self) -> str | None:
        named = self.asked.model
        return f"{self.asked.provider}:{named}" if named and self.asked.provider else named

    @property
    def folder(self) -> str | None:
        return None if self.url else current_folder()

    def _images(self) -> tuple[str, ...]:
        """The pictures for the first words, as the gateway takes them."""
        if not self.asked.image:
            return ()
        from hermes.admin.commands.pictures import data_url

        return tuple(data_url(path) for path in self.asked.image)

    def wish(self) -> SessionChoice:
        return SessionChoice(
            named=self.asked.resume or self.asked.latest or None,
            latest=self.asked.latest is not None,
            attach=self.is_conversation and self.asked.prompt is None,
            terminal=TerminalState(
                agent=AgentId(self.asked.agent) if self.asked.agent else None,
                model=self._model,
                folder=self.folder,
                ignore_rules=self.asked.ignore_rules,
                checkpoints=self.asked.checkpoints,
                tag=self.asked.source,
                toolsets=_names(self.asked.toolsets),
                steps=self.asked.max_turns,
                images=self._images(),
                skills=_names(self.asked.skills),
            ),
        )


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())


def is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _may_carry(descriptor: int) -> bool:
    """Whether somebody may have sent something along: a pipe, a file or a socket, not a bare device."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def current_folder() -> str | None:
    """None if it was removed under us."""
    try:
        return os.getcwd()
    except OSError:
        return None
