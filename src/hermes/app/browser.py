"""The agents' browser, put together: what its pages may reach, whose they are, and whether there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from hermes.app.egress import AppEgress
from hermes.control.chores import Chore
from hermes.control.people.standing import is_trusted
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId
from hermes.domain.ports.browser import BrowserPage
from hermes.domain.settings.browser import BrowserSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import ToolContext

if TYPE_CHECKING:
    from hermes.execution.browser.host import BrowserHost

T = TypeVar("T")
_TEND_SECONDS = 15.0


class AppBrowser:
    """Lives as long as the gateway."""

    def __init__(
        self, environ: Mapping[str, str], settings: Callable[[], Settings], clock: Clock, egress: AppEgress
    ) -> None:
        self._environ, self._clock, self._egress = environ, clock, egress
        self.settings = settings
        self.chore = Chore(name="browser", every=_TEND_SECONDS, run=self._tend)

    @cached_property
    def host(self) -> BrowserHost:
        """Loaded by the first page."""
        from hermes.execution.browser.host import BrowserHost

        ways = (self._egress.browser_door, self._egress.browser_check)
        return BrowserHost(self._environ, lambda: self.settings().browser, self._clock, *ways)

    def of(self, agent: AgentId) -> AgentBrowser | None:
        """None where there is no browser. Looks at files, so it runs in a thread."""
        return AgentBrowser(self, agent) if has_browser(self.settings().browser, self._environ) else None

    async def _tend(self) -> str:
        return await self.host.tend() if "host" in self.__dict__ else ""

    async def close(self) -> None:
        if "host" in self.__dict__:
            await self.host.close()


class AgentBrowser:
    def __init__(self, app: AppBrowser, agent: AgentId) -> None:
        self._app, self._agent = app, agent

    async def use(
        self, context: ToolContext, work: Callable[[BrowserPage], Awaitable[T]], *, opens: bool = False
    ) -> T:
        whose = context.source if context.maker is None else context.maker
        stranger = not is_trusted(whose, self._app.settings())
        key = (self._agent, context.session)
        return await self._app.host.use(key, work, opens=opens, stranger=stranger)

    async def host_of(self, session: str) -> str:
        return urlsplit(await self._app.host.url_of((self._agent, session))).hostname or ""


def has_browser(settings: BrowserSettings, environ: Mapping[str, str]) -> bool:
    from hermes.execution.browser.program import find_browser

    return bool(settings.cdp_url or find_browser(settings.path, environ))
