"""A web browser as a port: one page for each session, apart from those of others. Its words are outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from hermes.domain.tools.tool import ToolContext

T = TypeVar("T")
LONGEST_VIEW = 15_000
"""Characters of a page that a model is shown at once."""


class PageView(Struct, frozen=True, kw_only=True):
    """A page as it is now: its accessibility tree in lines, in which `@e1` names an element. `notes` say what
    else happened: a dialog that waits, a download that was denied, a page that is still loading."""

    url: str
    title: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()


class BrowserPage(Protocol):
    """What cannot be done is a `UserError`. While a dialog of the page is open, only it can be answered."""

    async def navigate(self, url: str) -> PageView: ...

    async def view(self, *, full: bool = False, text: bool = True) -> PageView:
        """Elements and headings alone unless it is to be `full`; without `text`, where the page is."""

    async def act(self, action: str, target: str = "", text: str = "") -> str:
        """`click` and `type` want an element, `scroll` a direction, `press` a key, `accept` and `dismiss` a
        dialog or none; `back`, `images`, `console` (after which `clear` forgets) and `evaluate` are the
        others. Says what came of it."""

    async def picture(self, *, annotate: bool = False) -> bytes:
        """A PNG of what is in view; with the names of elements on it, if wanted."""

    async def ask(self, method: str, params: Mapping[str, Any], target: str, seconds: float) -> Any:
        """A command of the DevTools protocol that concerns this page alone."""


class Browser(Protocol):
    """The browser of one agent."""

    async def use(
        self, context: ToolContext, work: Callable[[BrowserPage], Awaitable[T]], *, opens: bool = False
    ) -> T:
        """Do something with the page of a call's session, alone. Without `opens`, a `UserError` if there is
        none."""

    async def host_of(self, session: str) -> str:
        """Where the page of a session is now; empty if there is none."""
