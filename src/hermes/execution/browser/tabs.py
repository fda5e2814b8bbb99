"""The tabs of one session in a browser context of its own: cookies, storage and windows of no other session.

The newest tab is the one that is shown; a popup becomes it and, when it closes, gives it back. What happens
in tabs is heard here: loading, dialogs, frames of other sites, messages of the console, downloads, which are
denied."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from hermes.domain.errors import HermesError, UserError
from hermes.domain.text import one_line
from hermes.execution.browser.cdp import CdpConnection

MOST_TABS = 5
_MOST_MESSAGES = 200
_MOST_NOTES = 10
_BLANK = "about:blank"


class PageRules(Struct, frozen=True, kw_only=True):
    """How long a step may take, what becomes of dialogs, and which addresses may be reached: a browser that
    is not led through our proxy (`foreign`) is asked about each request."""

    seconds: float = 30.0
    dialog_policy: str = "must_respond"
    dialog_seconds: float = 300.0
    check: Callable[[str], Awaitable[None]]
    foreign: bool = False


class DialogOpened(HermesError):
    """A dialog keeps the page from answering."""


class OpenDialog(Struct, frozen=True, kw_only=True):
    id: str
    session: str
    words: str

    def __str__(self) -> str:
        return f"Dialog {self.id} is open and must be answered with browser_dialog: {self.words}"


class Tab(Struct, kw_only=True):
    """`frames` are the sessions of its frames that run in other processes, by their ids."""

    target: str
    session: str
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    frames: dict[str, str] = field(default_factory=dict)
    broken: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        return (self.session, *self.frames.values())


class Tabs:
    def __init__(self, connection: CdpConnection, context: str, rules: PageRules) -> None:
        self.connection, self.context, self.rules = connection, context, rules
        self.dialogs: dict[str, OpenDialog] = {}
        self.messages: deque[str] = deque(maxlen=_MOST_MESSAGES)
        self.notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._tabs: list[Tab] = []
        self._arriving: set[str] = set()
        self._opening = False
        self._last_dialog = 0
        self._changed = asyncio.Event()

    @property
    def shown(self) -> Tab:
        if not self._tabs:
            raise UserError("The page has been closed.", hint="Open one with browser_navigate.")
        return self._tabs[-1]

    async def open(self) -> Tab:
        """A new tab; those before are closed."""
        before, self._tabs, self._opening = self._tabs, [], True
        self.dialogs.clear()
        try:
            made = await self.connection.call(
                "Target.createTarget", {"url": _BLANK, "browserContextId": self.context}
            )
            return await self._attach(made["targetId"])
        finally:
            self._opening = False
            for tab in before:
                self.connection.post("Target.closeTarget", {"targetId": tab.target})

    async def settle(self, pause: float, seconds: float) -> None:
        """Wait until what was begun, a popup too, has loaded or this time is up."""
        await asyncio.sleep(pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tabs and not self.dialogs and not self.shown.broken:
                    self._changed.clear()
                    if self.shown.idle.is_set() and not self._arriving:
                        return
                    await self._changed.wait()

    def check_dialogs(self) -> None:
        for dialog in self.dialogs.values():
            raise DialogOpened(str(dialog))

    async def answer_dialog(self, dialog: str, accept: bool, text: str) -> str:
        known = self.dialogs.get(dialog) if dialog else next(iter(self.dialogs.values()), None)
        if known is None:
            raise UserError("No such dialog is open.", hint="browser_snapshot shows those that are.")
        self.dialogs.pop(known.id)
        answer: dict[str, Any] = {"accept": accept, **({"promptText": text} if text else {})}
        with contextlib.suppress(DialogOpened):  # the next one came at once
            await self.connection.call("Page.handleJavaScriptDialog", answer, session=known.session)
        return known.words

    # --- what happens in the browser ---

    def hear_browser(self, method: str, params: Mapping[str, Any]) -> None:
        """An event about the browser context."""
        info = params.get("targetInfo", {})
        target = info.get("targetId", params.get("targetId"))
        arrives = "Target.attachedToTarget" if self.rules.foreign else "Target.targetCreated"
        if method == arrives and info.get("type") == "page":
            session = params.get("sessionId", "")
            if not self._opening and len(self._tabs) + len(self._arriving) >= MOST_TABS:
                self.notes.append("A further popup was closed.")
                self.connection.post("Target.closeTarget", {"targetId": target})
            elif not self._opening and self._tabs and all(tab.target != target for tab in self._tabs):
                self._arriving.add(target)
                self.connection.begin(self._welcome(target, session))
            else:
                let_go(self.connection, params)
        elif method == arrives:  # a worker of no tab: its requests are not always asked about
            self.connection.post("Target.closeTarget", {"targetId": target})
        elif method == "Target.detachedFromTarget":
            self.connection.listeners.pop(params["sessionId"], None)
        elif method == "Target.targetDestroyed":
            self._tabs = [tab for tab in self._tabs if tab.target != target]
            self._changed.set()
        elif method == "Browser.downloadWillBegin":
            name = one_line(str(params.get("suggestedFilename", "")), 100)
            self.notes.append(f"A download was denied: {name} from {one_line(str(params.get('url')), 300)}")

    async def _welcome(self, target: str, session: str) -> None:
        try:
            await self._attach(target, session)
            self.notes.append("A popup opened and is shown now.")
        except HermesError:  # it is closed already, or else nobody would judge what it asks for
            self.connection.post("Target.closeTarget", {"targetId": target})
        finally:
            self._arriving.discard(target)
            self._changed.set()

    async def _attach(self, target: str, session: str = "") -> Tab:
        if not session:
            attaching = {"targetId": target, "flatten": True}
            session = (await self.connection.call("Target.attachToTarget", attaching))["sessionId"]
        tab = Tab(target=target, session=session)
        tab.idle.set()
        self.connection.listeners[tab.session] = partial(self._hear, tab, tab.session)
        with contextlib.suppress(DialogOpened):  # it begins with one
            await self._watch(tab.session, "Page.enable", "Log.enable")
        self._tabs.append(tab)
        return tab

    async def _watch_frame(self, session: str) -> None:
        with contextlib.suppress(HermesError):  # it is gone, or else it waits and loads nothing
            await self._watch(session)

    async def _watch(self, session: str, *calls: str) -> None:
        """What a tab or a frame of its own says, and the frames in it. In a foreign browser these wait until
        their requests are judged; while one waits, it answers nothing else."""
        foreign = self.rules.foreign
        if foreign:
            await self.connection.call("Fetch.enable", session=session)
        options = {"autoAttach": True, "waitForDebuggerOnStart": foreign, "flatten": True}
        calls += ("Runtime.enable", *(("Runtime.runIfWaitingForDebugger",) if foreign else ()))
        await asyncio.gather(
            self.connection.call("Target.setAutoAttach", options, session=session),
            *(self.connection.call(method, session=session) for method in calls),
        )

    def _hear(self, tab: Tab, session: str, method: str, params: dict[str, Any]) -> None:
        self._changed.set()
        match method:
            case "Page.frameStartedLoading" if params["frameId"] == tab.target:
                tab.idle.clear()
            case "Page.frameStoppedLoading" if params["frameId"] == tab.target:
                tab.idle.set()
            case "Page.javascriptDialogOpening":
                self._meet_dialog(tab, session, params)
            case "Page.javascriptDialogClosed":
                self.dialogs = {key: one for key, one in self.dialogs.items() if one.session != session}
            case "Runtime.consoleAPICalled":
                words = " ".join(str(one.get("value", one.get("description", ""))) for one in params["args"])
                self._note_message(params["type"], words)
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self._note_message("exception", details.get("exception", details).get("description", ""))
            case "Log.entryAdded" if params["entry"]["level"] != "verbose":
                self._note_message(params["entry"]["level"], params["entry"]["text"])
            case "Inspector.targetCrashed":
                tab.broken = True
                gone = UserError("The page has crashed.", hint="Open it again with browser_navigate.")
                self.connection.interrupt(tab.sessions, gone)
            case "Target.attachedToTarget" if params["targetInfo"]["type"] != "iframe":
                let_go(self.connection, params, session)  # a worker, whose requests are the tab's
            case "Target.attachedToTarget":
                frame = params["sessionId"]
                tab.frames[params["targetInfo"]["targetId"]] = frame
                self.connection.listeners[frame] = partial(self._hear, tab, frame)
                self.connection.begin(self._watch_frame(frame))
            case "Target.detachedFromTarget":
                tab.frames = {key: one for key, one in tab.frames.items() if one != params["sessionId"]}
                self.connection.listeners.pop(params["sessionId"], None)
            case "Fetch.requestPaused":
                self.connection.begin(self._judge(session, params))

    def _note_message(self, kind: str, words: str) -> None:
        self.messages.append(f"[{kind}] {one_line(words, 500)}")

    def _meet_dialog(self, tab: Tab, session: str, params: Mapping[str, Any]) -> None:
        kind, policy = str(params["type"]), self.rules.dialog_policy
        if kind == "beforeunload" or policy != "must_respond":
            answer = {"accept": kind == "beforeunload" or policy == "auto_accept"}
            self.connection.post("Page.handleJavaScriptDialog", answer, session=session)
            if kind != "beforeunload":
                self.notes.append(f"A dialog was answered: {kind} “{one_line(params['message'], 200)}”")
            return
        self._last_dialog += 1
        default = one_line(str(params.get("defaultPrompt", "")), 100)
        words = f"{kind} “{one_line(params['message'], 500)}”" + (f", default “{default}”" if default else "")
        dialog = OpenDialog(id=f"d{self._last_dialog}", session=session, words=words)
        self.dialogs[dialog.id] = dialog
        self.connection.interrupt(tab.sessions, DialogOpened(str(dialog)))
        asyncio.get_running_loop().call_later(self.rules.dialog_seconds, self._forget, dialog)

    def _forget(self, dialog: OpenDialog) -> None:
        if self.dialogs.pop(dialog.id, None) is not None and self.connection.alive:
            self.notes.append(f"A dialog was dismissed after a while: {dialog.words}")
            refusal = {"accept": False}
            self.connection.post("Page.handleJavaScriptDialog", refusal, session=dialog.session)

    async def _judge(self, session: str, params: Mapping[str, Any]) -> None:
        """Whether a browser with a network of its own may send a request; each redirect comes here, too."""
        request, url = {"requestId": params["requestId"]}, str(params["request"]["url"])
        try:
            if not url.startswith(("data:", "blob:", "about:")):
                await self.rules.check(url)
        except HermesError as error:
            self.notes.append(f"Not fetched: {one_line(url, 200)}. {error}")
            refusal = {**request, "errorReason": "BlockedByClient"}
            self.connection.post("Fetch.failRequest", refusal, session=session)
        else:
            self.connection.post("Fetch.continueRequest", request, session=session)


def let_go(connection: CdpConnection, params: Mapping[str, Any], parent: str = "") -> None:
    """Let go what waits for us and is not ours, or was come to in another way."""
    if params.get("waitingForDebugger"):
        connection.post("Runtime.runIfWaitingForDebugger", session=params["sessionId"])
        connection.post("Target.detachFromTarget", {"sessionId": params["sessionId"]}, session=parent)
