"""The one browser of a gateway. It is started by the first page, ends with the last one, and shows each
session in a context of its own: cookies and storage are those of one conversation, whoever else the agent
talks to. A context costs one process of Chromium's, and is closed when it was not used for a while."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, UserError, as_user_error
from hermes.domain.ports.browser import BrowserPage
from hermes.domain.ports.world import Boundary
from hermes.domain.settings.browser import BrowserSettings
from hermes.execution.browser.cdp import CdpConnection, SocketLink
from hermes.execution.browser.launch import RunningBrowser, Way, start_best
from hermes.execution.browser.page import ChromiumPage
from hermes.execution.browser.program import HOW_TO_INSTALL, find_browser
from hermes.execution.browser.tabs import PageRules, Tabs, let_go

log = logging.getLogger("hermes.browser")
T = TypeVar("T")
MOST_PAGES = 16
PageKey = tuple[str, str]
"""The agent and the session."""
_OF_NO_TAB = ("shared_worker", "service_worker")
"""Workers whose requests a foreign browser does not always ask about."""
_FOREIGN = Way(name="browser.cdp_url", boundary=Boundary.NONE)


class _Open(Struct, kw_only=True):
    """A page with its life."""

    page: ChromiumPage
    tabs: Tabs
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    used_at: float = 0.0


class BrowserHost:
    """`open_egress` gives the socket of the proxy that everything goes through; `check` judges an address for
    a browser that has a network of its own."""

    def __init__(
        self,
        environ: Mapping[str, str],
        settings: Callable[[], BrowserSettings],
        clock: Clock,
        open_egress: Callable[[], Awaitable[Path]],
        check: Callable[[str], Awaitable[None]],
    ) -> None:
        self._environ, self._settings, self._clock = environ, settings, clock
        self._open_egress, self._check = open_egress, check
        self._browser: RunningBrowser | None = None
        self._pages: dict[PageKey, _Open] = {}
        self._changing = asyncio.Lock()
        self._working: Way | None = None

    async def use(
        self,
        key: PageKey,
        work: Callable[[BrowserPage], Awaitable[T]],
        *,
        opens: bool = False,
        stranger: bool = True,
    ) -> T:
        opened = await self._get(key, opens, stranger)
        try:
            async with opened.alone:
                return await work(opened.page)
        except HermesError as error:
            raise as_user_error(error) from None
        finally:
            opened.used_at = self._clock.monotonic()

    async def url_of(self, key: PageKey) -> str:
        opened = self._pages.get(key)
        try:
            return "" if opened is None else (await opened.page.where())[0]
        except HermesError as error:
            raise as_user_error(error) from None

    async def tend(self) -> str:
        """Close what was not used for a while, and the browser after the last page."""
        limit = self._clock.monotonic() - self._settings().inactivity_timeout
        idle = [key for key, one in self._pages.items() if one.used_at < limit and not one.alone.locked()]
        async with self._changing:
            for key in idle:
                await self._close_page(key)
            if not self._pages:
                await self._end()
        return f"{len(idle)} closed" if idle else ""

    async def close(self) -> None:
        async with self._changing:
            await self._end()

    async def _get(self, key: PageKey, opens: bool, stranger: bool) -> _Open:
        async with self._changing:
            if self._browser is not None and not self._browser.connection.alive:
                await self._end()
            if key not in self._pages and not opens:
                raise UserError(
                    "No page is open: there was none, or it was closed unused.",
                    hint="Open one with browser_navigate.",
                )
            browser = await self._started()
            if stranger and not browser.way.boundary.holds_strangers:
                raise UserError(
                    f"The browser runs with {browser.way.name}, which does not hold pages of strangers in.",
                    hint="`hermes doctor` says what is missing.",
                )
            if key not in self._pages:
                if len(self._pages) >= MOST_PAGES:
                    raise UserError("Too many pages are open.", hint="Try again in a few minutes.")
                self._pages[key] = await self._open_page(browser)
            opened = self._pages[key]
            opened.used_at = self._clock.monotonic()
            return opened

    async def _open_page(self, browser: RunningBrowser) -> _Open:
        connection = browser.connection
        made = await connection.call("Target.createBrowserContext", {"disposeOnDetach": True})
        context = made["browserContextId"]
        with contextlib.ExitStack() as undo:
            undo.callback(connection.post, "Target.disposeBrowserContext", {"browserContextId": context})
            tabs = await self._open_tabs(browser, context)
            undo.pop_all()
        return _Open(page=ChromiumPage(tabs), tabs=tabs)

    async def _open_tabs(self, browser: RunningBrowser, context: str) -> Tabs:
        settings, connection = self._settings(), browser.connection
        denied = {"behavior": "deny", "browserContextId": context, "eventsEnabled": True}
        await connection.call("Browser.setDownloadBehavior", denied)
        rules = PageRules(
            seconds=settings.command_timeout,
            dialog_policy=settings.dialog_policy,
            dialog_seconds=settings.dialog_timeout_s,
            check=self._check,
            foreign=browser.keeper is None,
        )
        tabs = Tabs(connection, context, rules)
        await tabs.open()
        return tabs

    async def _close_page(self, key: PageKey) -> None:
        opened = self._pages.pop(key)
        with contextlib.suppress(HermesError):
            context = {"browserContextId": opened.tabs.context}
            await opened.tabs.connection.call("Target.disposeBrowserContext", context, seconds=5.0)

    async def _started(self) -> RunningBrowser:
        if self._browser is None:
            browser = await self._start()
            async with contextlib.AsyncExitStack() as undo:  # half of this would judge nothing
                undo.push_async_callback(browser.close)
                await self._prepare(browser)
                undo.pop_all()
            self._browser = browser
            log.info("browser.started way=%s", browser.way.name)
        return self._browser

    async def _prepare(self, browser: RunningBrowser) -> None:
        connection, tabs = browser.connection, [{"type": "page"}]
        connection.listeners[""] = partial(self._hear, connection)
        await connection.call("Target.setDiscoverTargets", {"discover": True, "filter": tabs})
        if browser.keeper is None:
            waits = [*tabs, *({"type": kind} for kind in _OF_NO_TAB)]
            options = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
            await connection.call("Target.setAutoAttach", {**options, "filter": waits})

    async def _start(self) -> RunningBrowser:
        settings = self._settings()
        if settings.cdp_url:
            link = await SocketLink.open(settings.cdp_url, settings.command_timeout)
            return RunningBrowser(connection=CdpConnection(link), way=_FOREIGN)
        program = await asyncio.to_thread(find_browser, settings.path, self._environ)
        if not program:
            raise UserError("There is no browser on this machine.", hint=HOW_TO_INSTALL)
        known, self._working = self._working, None  # the machine may be another one next time
        browser = await start_best(program, await self._open_egress(), self._environ, known)
        self._working = browser.way
        return browser

    async def _end(self) -> None:
        self._pages.clear()
        browser, self._browser = self._browser, None
        if browser is not None:
            await browser.close()
            log.info("browser.ended")

    def _hear(self, connection: CdpConnection, method: str, params: dict[str, Any]) -> None:
        """An event of the browser belongs to one context, or to all that know its target."""
        context = params.get("targetInfo", params).get("browserContextId")
        heard = [one.tabs for one in self._pages.values() if context in (None, one.tabs.context)]
        for tabs in heard:
            tabs.hear_browser(method, params)
        if method == "Target.attachedToTarget" and not heard:
            let_go(connection, params)
