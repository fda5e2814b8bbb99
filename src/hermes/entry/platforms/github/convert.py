"""Between our words and GitHub's: addresses to paths, keys to marks, answers to errors. Pure functions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from hermes.domain.chats.address import Address
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.errors import TOO_FAST, retry_after
from hermes.entry.kit.payload import if_malformed

PER_PAGE = 100
_SHORTEST_WAIT = 60.0
_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_LAST = re.compile(r'[?&]page=(\d+)[^>]*>;\s*rel="last"')


def comments_path(to: Address) -> str:
    """Where the comments of an address `github:<owner/repo>:<number>` are."""
    number = to.thread or ""
    if not _REPO.fullmatch(to.chat) or ".." in to.chat or not (number.isascii() and number.isdigit()):
        raise Refused(f"{to} is not an issue or pull request like github:owner/repo:7")
    return f"repos/{to.chat}/issues/{number}/comments"


def marked(text: str, key: str) -> str:
    """The text with a mark that nobody sees, by which the comment is found again."""
    return f"{text}\n\n{_mark(key)}"


def find_marked(comments: Sequence[Any], key: str) -> str | None:
    mark = _mark(key)
    for comment in comments:
        if isinstance(comment, dict) and mark in str(comment.get("body", "")):
            return str(comment["id"])
    return None


def last_page(link: str) -> int:
    """How many pages there are, from a `Link` header."""
    last = _LAST.search(link)
    return int(last[1]) if last else 1


def error_for(status: int, headers: Mapping[str, str], message: str) -> HermesError:
    # `gh` writes the names of headers in another way.
    named = {name.lower(): value for name, value in headers.items()}
    limited = named.get("x-ratelimit-remaining") == "0" or "retry-after" in named
    why = f"GitHub says {status}: {one_line(message, 120)}"
    if status == 401:
        return NeedsLogin(f"{why} (GITHUB_TOKEN)")
    if status == TOO_FAST or (status == 403 and (limited or "rate limit" in message.lower())):
        after = retry_after(named) or _until_reset(named) or _SHORTEST_WAIT
        return Unreachable(why, after=min(after, 3600.0))
    return Unreachable(why, maybe_done=True) if status >= 500 else Refused(why)


@if_malformed(None)
def _until_reset(headers: Mapping[str, str]) -> float | None:
    """The seconds to the time, by GitHub's clock, at which it counts anew; before that it wants no calls."""
    if headers.get("x-ratelimit-remaining") != "0":
        return None
    seconds = int(headers["x-ratelimit-reset"]) - parsedate_to_datetime(headers["date"]).timestamp()
    return max(seconds, _SHORTEST_WAIT)


def _mark(key: str) -> str:
    return f"<!-- hermes:{hashlib.sha256(key.encode()).hexdigest()[:24]} -->"
