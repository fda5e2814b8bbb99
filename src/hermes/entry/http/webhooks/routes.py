"""Routes: what is to be done with events that come in under a name. From the settings, or from the file that
`hermes webhook subscribe` writes; of two with one name the settings' counts.

A route that cannot be read keeps its name and refuses everything; its problem is a sentence for the operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from hermes.domain.chats.address import Address, read_platform
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line
from hermes.entry.http.webhooks.filters import BadRoute, Filter, read_filter
from hermes.entry.http.webhooks.incoming import EventFacts
from hermes.entry.http.webhooks.signatures import SCHEMES, SignatureScheme
from hermes.entry.http.webhooks.template import fill

LOG = "log"
LOCAL = "local"
_SEVERAL = ("all", "origin")
GITHUB_COMMENT = "github_comment"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NOTES = ("description", "created_at")
"""Keys for people."""
_EXTRA = ("repo", "pr_number", "chat_id", "thread_id", "message_thread_id")
_THREADS = ("thread_id", "message_thread_id")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_REPO = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


class WebhookRoute(Struct, frozen=True, kw_only=True):
    """One name under which events come in, with what may be said of it (`_READERS`); `problem` says why it
    takes nothing."""

    name: str
    agent: str = ""
    """The only agent that its events go to; empty: the address, the routes or a hook decide."""
    secret: Secret = field(default_factory=lambda: Secret(""))
    scheme: SignatureScheme | None = None
    """The only one that its senders may sign in; None: that of the first event."""
    enabled: bool = True
    events: tuple[str, ...] = ()
    filters: Filter | None = None
    script: str = ""
    prompt: str = ""
    skills: tuple[str, ...] = ()
    toolsets: tuple[str, ...] = ()
    """The only ones of the agent that its turns may use; none named: all."""
    deliver: str = LOG
    deliver_extra: Mapping[str, str] = field(default_factory=dict)
    deliver_only: bool = False
    problem: str = ""

    @property
    def platform(self) -> str:
        """The platform account that its answers go to; empty: none."""
        if self.deliver in (LOG, LOCAL):
            return ""
        return "github" if self.deliver == GITHUB_COMMENT else self.deliver.partition(":")[0]

    def wants(self, event: str) -> bool:
        return not self.events or event in self.events


def is_route_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def read_routes(tree: Any, fallback: Secret) -> dict[str, WebhookRoute]:
    """Routes by name from the mapping that stands for them; `fallback` is the secret of those without one."""
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        return {
            "": WebhookRoute(name="", enabled=False, problem="routes must be a mapping of names to routes.")
        }
    return {str(name): _route(str(name), facts, fallback) for name, facts in tree.items()}


def _route(name: str, tree: Any, fallback: Secret) -> WebhookRoute:
    try:
        return _read(name, tree, fallback)
    except BadRoute as error:
        return WebhookRoute(name=name, enabled=False, problem=str(error))


def _read(name: str, tree: Any, fallback: Secret) -> WebhookRoute:
    if not is_route_name(name):
        raise BadRoute("a name has letters, digits, “-”, “_” and “.”, at most 64.")
    if not isinstance(tree, Mapping):
        raise BadRoute("it must hold `name: value` lines.")
    for key in tree:
        if key not in ("secret", *_READERS, *_NOTES):
            raise BadRoute(f"“{one_line(str(key), 40)}” is not a key of a route.")
    secret = tree.get("secret", fallback)
    secret = Secret(secret) if isinstance(secret, str) else secret
    if not isinstance(secret, Secret) or not secret.reveal().strip():
        raise BadRoute("it has no secret, and there is no secret for all.")
    values = {key: read(key, tree[key]) for key, read in _READERS.items() if key in tree}
    route = WebhookRoute(name=name, secret=secret, **values)
    _check_delivery(route)
    return route


def _check_delivery(route: WebhookRoute) -> None:
    if route.deliver_only and route.deliver in (LOG, LOCAL):
        raise BadRoute("deliver_only needs a deliver that is not log.")
    if route.deliver == GITHUB_COMMENT and not {"repo", "pr_number"} <= route.deliver_extra.keys():
        raise BadRoute("github_comment needs deliver_extra.repo and deliver_extra.pr_number.")
    if "," in route.deliver or route.deliver in _SEVERAL:
        raise BadRoute("deliver names one place: a platform, platform:chat[:thread] or platform:#name.")
    if ":" in route.deliver:
        try:
            Address.parse(route.deliver)
        except UserError as error:
            raise BadRoute(str(error)) from error


def _flag(key: str, value: Any) -> bool:
    value = _WORDS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise BadRoute(f"{key} must be true or false.")
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadRoute(f"{key} must be a text.")
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise BadRoute(f"{key} must be a list of texts.")
    named = tuple(item for item in items if item)
    if items and not named:
        raise BadRoute(f"{key} names nothing; remove it if everything is meant.")
    return named


def _scheme(key: str, value: Any) -> SignatureScheme:
    if value not in SCHEMES:
        raise BadRoute(f"{key} must be one of {', '.join(SCHEMES)}.")
    return SignatureScheme(value)


def _extra(_: str, tree: Any) -> dict[str, str]:
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise BadRoute("deliver_extra must hold `name: value` lines.")
    for key, value in tree.items():
        if key not in _EXTRA:
            raise BadRoute(
                f"deliver_extra has no key “{one_line(str(key), 40)}”; there are {', '.join(_EXTRA)}."
            )
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise BadRoute(f"deliver_extra.{key} must be a text.")
    return {key: str(value) for key, value in tree.items()}


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "agent": _text,
    "scheme": _scheme,
    "enabled": _flag,
    "events": _texts,
    "filters": lambda _, tree: read_filter(tree),
    "script": _text,
    "prompt": _text,
    "skills": _texts,
    "toolsets": _texts,
    "deliver": lambda key, value: _text(key, value) or LOG,
    "deliver_extra": _extra,
    "deliver_only": _flag,
}
"""What each key of a route holds, beside its secret."""


class NamedTarget(Struct, frozen=True, kw_only=True):
    """A target that the gateway's directory knows: a home channel, a chat by its name; `thread` in it."""

    target: str
    thread: str | None = None


def target(route: WebhookRoute, facts: EventFacts) -> Address | NamedTarget | None:
    """The place that a route's answers go to, None for the log; `BadRoute` if there is none to be had."""
    if route.deliver in (LOG, LOCAL):
        return None
    extra = {key: _filled(key, value, facts) for key, value in route.deliver_extra.items()}
    if route.deliver == GITHUB_COMMENT:
        return _issue(extra)
    thread = next((extra[key] for key in _THREADS if extra.get(key)), None)
    chat = extra.get("chat_id", "")
    if ":" in route.deliver or not chat:
        return NamedTarget(target=route.deliver, thread=thread)
    address = _address(route.deliver, chat, thread)
    return NamedTarget(target=f"{route.deliver}:{chat}", thread=thread) if chat.startswith("#") else address


def _filled(key: str, template: str, facts: EventFacts) -> str:
    """A templated part of an address; nothing is sent to a place that the event did not name."""
    text = fill(template, facts).strip()
    if "{" in text:
        raise BadRoute(f"the event has nothing for deliver_extra.{key}.")
    return text


def _issue(extra: Mapping[str, str]) -> Address:
    repo, number = extra.get("repo", ""), extra.get("pr_number", "")
    if not _REPO.fullmatch(repo) or ".." in repo:
        raise BadRoute(f"“{one_line(repo, 80)}” is not a repository like owner/name.")
    if not _NUMBER.fullmatch(number):
        raise BadRoute(f"“{one_line(number, 40)}” is not the number of an issue or pull request.")
    return Address(platform="github", chat=repo, thread=number)


def _address(named: str, chat: str, thread: str | None) -> Address:
    if not chat.isprintable() or len(chat) > 200 or (thread is not None and not thread.isprintable()):
        raise BadRoute("the chat that was filled in is not one.")
    platform, account = read_platform(named)
    return Address(platform=platform, account=account, chat=chat, thread=thread)


ReadTree = Callable[[], Mapping[str, Any]]
"""What the file of subscriptions holds now; blocking."""


class RouteTable:
    """All routes. Those of the file are read again when it gives another tree."""

    def __init__(self, static: Mapping[str, WebhookRoute], read: ReadTree, fallback: Secret) -> None:
        self._static = static
        self._read = read
        self._fallback = fallback
        self._tree: Mapping[str, Any] = {}
        self._dynamic: dict[str, WebhookRoute] = {}

    def find(self, name: str) -> WebhookRoute | None:
        """May read the file of subscriptions: call it off the loop."""
        return self._static.get(name) or self.dynamic().get(name)

    def dynamic(self) -> Mapping[str, WebhookRoute]:
        tree = self._read()
        if tree is not self._tree:
            self._tree, self._dynamic = tree, read_routes(tree, self._fallback)
        return self._dynamic
