"""Comments on GitHub: through the API of a fake GitHub, and through a `gh` command."""

from __future__ import annotations

import asyncio
import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.github.adapter import GithubAdapter
from hermes.entry.platforms.github.convert import comments_path, error_for, last_page
from hermes.entry.platforms.github.manifest import MANIFEST
from hermes.testing.platform_suite import (
    CHECKS,
    RECEIVING,
    WHOLE,
    Check,
    Does,
    Fault,
    Shown,
    conform,
)
from hermes.testing.served import ServedBed
from tests.platforms.fake_github import ISSUE, FakeGithub


def adapter(stage: FakeGithub, token: str = "t0ken") -> GithubAdapter:
    settings = PlatformSettings(extra={"api_url": stage.url + "/"})
    return GithubAdapter(
        AdapterContext(settings=settings, find=lambda name: Secret(token) if name == "GITHUB_TOKEN" else None)
    )


async def leave(platform: GithubAdapter) -> None:
    """End as its host ends it."""
    running = asyncio.create_task(platform.run(never, None))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait((running,))


async def never(items: object, cursor: str | None) -> None:
    raise AssertionError("nothing comes in here")


class GithubBed(ServedBed):
    """One issue, to which an adapter that only sends writes comments."""

    manifest = MANIFEST
    receives = frozenset()
    faults = frozenset({Fault.TOO_FAST, Fault.TOO_FAST_ALL, Fault.REVOKED, Fault.GONE, Fault.BROKEN})
    chat = ISSUE
    exempt = {check.__name__: "nothing comes in here" for check in (*RECEIVING, *WHOLE)}

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.server = FakeGithub()

    def connect(self) -> GithubAdapter:
        return adapter(self.server)

    def chats(self, count: int) -> list[Address]:
        raise AssertionError("there is one issue")

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        raise AssertionError("nothing comes in here")

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(ref=str(number), chat=ISSUE.chat, text=text)
            for number, text in enumerate(self.server.seen(), 1)
        ]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_github_conforms(check: Check, full: bool) -> None:
    await conform(check, GithubBed, full=full)


async def test_a_comment_is_found_again_among_many() -> None:
    async with FakeGithub() as stage:
        platform = adapter(stage)
        for number in range(250):
            stage.bodies.append(f"comment {number}")
        sent = await platform.send(ISSUE, Body(text="ours"), key="turn_1:0", reply_to=None)
        stage.bodies += ["later"] * 60
        found = await platform.find_sent(ISSUE, "turn_1:0")
        assert found is not None and found.ref == sent.ref == "251"
        assert await platform.find_sent(ISSUE, "turn_1:1") is None
        assert stage.tokens == {"Bearer t0ken"}
        await leave(platform)


async def test_a_wrong_token_asks_the_operator_and_nobody_there_is_tried_again() -> None:
    assert isinstance(error_for(401, {}, "Bad credentials"), NeedsLogin)
    limited = error_for(403, {"X-RateLimit-Remaining": "0"}, "API rate limit exceeded")
    assert isinstance(limited, Unreachable) and limited.after == 60.0 and not limited.maybe_done
    assert isinstance(error_for(403, {}, "Resource not accessible"), Refused)
    told = {"Date": "Thu, 19 Nov 2026 04:00:00 GMT", "X-Ratelimit-Remaining": "0"}
    for reset, after in (
        ("1795062000", 1200.0),
        ("1795060801", 60.0),
        ("1795162000", 3600.0),
        ("soon", 60.0),
    ):
        error = error_for(403, {**told, "X-Ratelimit-Reset": reset}, "API rate limit exceeded")
        assert isinstance(error, Unreachable) and error.after == after, "before it GitHub wants no calls"
    async with FakeGithub() as stage:
        gone = stage.url
    platform = GithubAdapter(
        AdapterContext(settings=PlatformSettings(extra={"api_url": gone}), find=lambda name: Secret("t"))
    )
    with pytest.raises(Unreachable) as error:
        await platform.send(ISSUE, Body(text="x"), key="k", reply_to=None)
    assert not error.value.maybe_done
    await leave(platform)


@pytest.mark.parametrize(
    ("chat", "thread"),
    [("me", "7"), ("me/it/more", "7"), ("me/..", "7"), ("me/it", None), ("me/it", "7/x"), ("me/it?x", "7")],
)
async def test_only_issues_are_written_to(chat: str, thread: str | None) -> None:
    with pytest.raises(Refused):
        comments_path(Address(platform="github", chat=chat, thread=thread))


def test_the_last_page() -> None:
    assert last_page("") == 1
    assert last_page('<https://h/x?page=2>; rel="next", <https://h/x?per_page=100&page=12>; rel="last"') == 12


GH = """#!/bin/sh
echo "$@" >> {log}
env | cut -d= -f1 | sort >> {log}.env
cat > {log}.in
{answer}
"""


def gh(folder: Path, answer: str) -> GithubAdapter:
    command = folder / "gh"
    command.write_text(GH.format(log=folder / "log", answer=answer))
    command.chmod(0o755)
    said = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "SECRET_KEY": "x"}
    return GithubAdapter(
        AdapterContext(
            settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
        )
    )


async def test_the_command_writes_where_there_is_no_token(tmp_path: Path) -> None:
    answer = r"""printf 'HTTP/2.0 201 Created\r\nX-A: b\r\n\r\n{"id": 5}'"""
    sent = await gh(tmp_path, answer).send(ISSUE, Body(text="hello"), key="k", reply_to=None)
    assert sent.ref == "5"
    assert "--method POST repos/me/it/issues/7/comments --input -" in (tmp_path / "log").read_text()
    assert json.loads((tmp_path / "log.in").read_text())["body"].startswith("hello\n\n<!-- hermes:")
    assert "SECRET_KEY" not in (tmp_path / "log.env").read_text()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("exit 4", NeedsLogin),
        (r"printf 'HTTP/2.0 404 Not Found\r\n\r\n{}'; exit 1", Refused),
        ("echo 'gh: Not Found (HTTP 404)' >&2; exit 1", Refused),
        ("echo 'gh: Bad Gateway (HTTP 502)' >&2; exit 1", Unreachable),
        ("echo 'dial tcp: no route' >&2; exit 1", Unreachable),
    ],
)
async def test_what_the_command_says_is_understood(
    tmp_path: Path, answer: str, error: type[HermesError]
) -> None:
    with pytest.raises(error):
        await gh(tmp_path, answer).send(ISSUE, Body(text="hello"), key="k", reply_to=None)


async def test_without_token_and_command_somebody_must_log_in(tmp_path: Path) -> None:
    platform = GithubAdapter(
        AdapterContext(
            settings=PlatformSettings(), find=lambda name: Secret(str(tmp_path)) if name == "PATH" else None
        )
    )
    with pytest.raises(NeedsLogin):
        await platform.send(ISSUE, Body(text="hello"), key="k", reply_to=None)


def test_the_manifest_is_offered() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["hermes.platforms"]["github"].partition(":")
    assert getattr(import_module(module), name) is MANIFEST
    adapter, _, made = MANIFEST.adapter.partition(":")
    assert getattr(import_module(adapter), made) is GithubAdapter
