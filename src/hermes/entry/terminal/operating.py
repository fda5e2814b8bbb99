"""Slash commands of the terminal that are commands of `hermes`: what they print is shown in the chat."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence

from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId

Operate = Callable[[Sequence[str]], Awaitable[str]]
"""Run a command of `hermes` on the home of the chat; what it printed."""
OPERATED = {
    "history": ("show the whole conversation", ""),
    "save": ("write the conversation to a file (.md, .html, .jsonl)", "<file>"),
    "config": ("show what is set, or change it (/config set KEY VALUE)", "diff|get|set|unset|check"),
    "reload": ("adopt what stands in config.yaml and .env", ""),
    "plugins": ("list the plugins, or switch one off or on", "list|enable|disable"),
    "browser": ("let the agent use a browser that runs already", "status|connect|disconnect"),
}
_CDP, _LOCAL_CDP = "browser.cdp_url", "http://127.0.0.1:9222"
_FORMATS = ("md", "html", "jsonl")


def as_words(name: str, args: str, session: SessionId | None) -> list[str]:
    """The command of `hermes` that a slash command stands for."""
    try:
        given = shlex.split(args)
    except ValueError as error:
        raise UserError("A quotation mark is missing.") from error
    if name in ("history", "save"):
        if session is None:
            raise UserError("Nothing has been said yet.")
        if name == "history":
            return ["sessions", "show", session]
        file = given[0] if given else f"{session}.md"
        form = file.rpartition(".")[2]
        return ["sessions", "export", session, "-o", file, "--format", form if form in _FORMATS else "md"]
    if name == "browser":
        action, url = [*given, "", ""][:2]
        if action == "connect":
            return ["config", "set", _CDP, url or _LOCAL_CDP]
        return ["config", "unset" if action == "disconnect" else "get", _CDP]
    if name == "reload":
        return ["config", "apply"]
    return [name, *(given or ["diff" if name == "config" else "list"])]
