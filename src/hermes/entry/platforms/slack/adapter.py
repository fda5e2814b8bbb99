"""The Slack adapter: one bot in one workspace, through the Web API over HTTP; what happens comes through a
socket (Socket Mode) or by signed calls (the Events API). Without an SDK: see docs/decisions/0005.

Slack keeps nothing for who is away, so the mark up to which everything is stored is the cursor, and the
conversations are read from there at every connect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from html import escape
from typing import Any

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.files import ANY_MIME, read_file
from hermes.entry.kit.listener import listening
from hermes.entry.kit.payload import Recent, as_dict, as_dicts, as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.slack import api, compose, convert
from hermes.entry.platforms.slack.catch_up import SlackCatchUp, SlackCursor, find_sent
from hermes.entry.platforms.slack.convert import SlackIdentity
from hermes.entry.platforms.slack.manifest import MANIFEST, in_blocks
from hermes.entry.platforms.slack.socket import SlackSocket, socket_url
from hermes.entry.platforms.slack.status import SlackStatus
from hermes.entry.platforms.slack.streams import SlackStreams

log = logging.getLogger("hermes.slack")
API = "https://slack.com/api"
PATH = "/slack/events"
_LOOK_SECONDS = 60.0
_USUAL_PORT = "8446"
_NAME_SECONDS = 0.5
_ASIDE_SECONDS, _REST_SECONDS = 29 * 60.0, 20.0
_SHARED_SECONDS = (0.0, 0.2, 0.4, 0.8, 1.6, 3.2)
_FIND_SECONDS = 26 * 3600.0
_NO_BLOCKS = ("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long")
_CALLED_HINT = (
    "Event Subscriptions, Interactivity and each slash command need that address, and Socket Mode has to be"
    " off: with it on, Slack calls nobody. `hermes platforms manifest slack --url …` describes such an app."
)


class SlackAdapter:
    quiet_seconds = 30.0
    """How long the socket may be silent before we tell that it lives."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        token = context.setting("SLACK_BOT_TOKEN")
        if token.startswith("xoxe"):
            raise NeedsLogin(api.ROTATED)
        if not token.startswith("xoxb-") or not token.isascii() or len(token) < 15:
            raise NeedsLogin("SLACK_BOT_TOKEN is no bot token; one begins with xoxb- (OAuth & Permissions)")
        self._app_token = context.setting("SLACK_APP_TOKEN")
        if self._app_token and not (self._app_token.startswith("xapp-") and self._app_token.isascii()):
            raise NeedsLogin("SLACK_APP_TOKEN is no app token; one begins with xapp- (Basic Information)")
        self._secret = context.setting("SLACK_SIGNING_SECRET")
        if not self._app_token and not self._secret:
            raise NeedsLogin(
                "Slack needs SLACK_APP_TOKEN (Socket Mode), or SLACK_SIGNING_SECRET (the Events API)"
            )
        base = context.setting("SLACK_API_URL", API)
        self.api = api.SlackApi(base, token, proxy_for(context, "SLACK_PROXY", base))
        streams = context.is_on("SLACK_STREAMING")
        self._in_blocks = streams or context.is_on("SLACK_MARKDOWN_BLOCKS")
        self.capabilities = in_blocks(MANIFEST.capabilities) if self._in_blocks else MANIFEST.capabilities
        if streams:
            self.capabilities = replace(self.capabilities, draft_cursor=False)
        self._streams = SlackStreams(self.api) if streams else None
        self._status = SlackStatus(self.api, context.clock)
        self._me: SlackIdentity | None = None
        self._kinds: Recent[str, str] = Recent()
        self._names: Recent[str, str] = Recent()
        self._asides: Recent[str, tuple[str, float]] = Recent()
        self._mark = SlackCursor(since=0.0, highest=0.0, whole=False)
        self._new = True
        self._uncalled = not self._app_token
        """Slack is to call us and has not yet."""

    def notice(self) -> str:
        if not self._uncalled:
            return ""
        way = f"Socket Mode has to be off in the app, and its request URLs have to lead to {PATH} here"
        return f"Slack has not called yet: {way}"

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me, now = await self._who()
            self._mark = SlackCursor.of(cursor, now)
            self._new = self._mark.whole
            if self._app_token:
                await self._socket(accept, me)
            else:
                await self._listen(accept, me)
        finally:
            await self.api.close()

    async def _who(self) -> tuple[SlackIdentity, float]:
        """Who we are, and what time it is at Slack."""
        response = await self.api.ask("auth.test", {})
        answer = response.result
        if not as_text(answer.get("user_id")):
            raise Unreachable("Slack does not say who the bot is")
        api.check_install(answer)
        self._me = SlackIdentity(
            user=answer["user_id"],
            bot=str(answer.get("bot_id") or ""),
            name=str(answer.get("user") or ""),
            team=str(answer.get("team_id") or ""),
            account=self._context.account,
            command=self._context.setting("SLACK_COMMAND", "/hermes"),
            reply_in_thread=not self._context.is_off("SLACK_REPLY_IN_THREAD"),
            kinds=self._kinds,
            names=self._names,
        )
        return self._me, (response.at or self._context.clock.now()).timestamp()

    async def _socket(self, accept: Accept, me: SlackIdentity) -> None:
        socket = SlackSocket(
            self.api,
            self._app_token,
            self._context.clock,
            hear=lambda payload: self._hear(accept, me, payload),
            alive=lambda: accept((), None),
            catch_up=lambda: self._catch_up(accept, me),
        )
        await socket.live(self.quiet_seconds)

    async def _listen(self, accept: Accept, me: SlackIdentity) -> None:
        """The Events API: events, pressed buttons and slash commands come to one address, each signed."""
        clock = self._context.clock
        missed = False  # whether Slack may have given up on something, which it does after a few attempts

        async def answer(request: web.Request) -> web.Response:
            nonlocal missed
            body = await request.read()
            if not api.is_signed(self._secret, request.headers, body, clock.now()):
                return web.Response(status=403)
            self._uncalled = False
            missed = missed or "X-Slack-Retry-Num" in request.headers
            payload = convert.payload_of(body, request.content_type)
            if payload.get("type") == "url_verification":
                return web.Response(text=str(payload.get("challenge", "")))
            if payload.get("type") == "app_rate_limited":
                log.warning("slack.rate_limited: there are more events than Slack brings in an hour")
                missed = True
                return web.Response()
            try:
                await self._hear(accept, me, payload)
            except HermesError:
                missed = True
                raise
            return web.Response()

        async with listening(self._context, PATH, answer, variables="SLACK_WEBHOOK", usual_port=_USUAL_PORT):
            await self._catch_up(accept, me)
            while True:
                await accept((), None)
                await clock.sleep(_LOOK_SECONDS)
                await self.api.call("auth.test")
                if missed:
                    missed = False
                    await self._catch_up(accept, me)

    async def _hear(self, accept: Accept, me: SlackIdentity, payload: Any) -> bool:
        """Store what a payload tells; False if it is told to the app in another workspace."""
        if convert.is_elsewhere(payload, me):
            log.warning(
                "slack.other_workspace: the app is installed in more than one; each wants an app of its own"
            )
            return False
        if convert.is_farewell(payload):
            # It may be an old one; if it is true, the token is refused.
            await self.api.call("auth.test")
        await self._learn(payload)
        items = convert.to_inbounds(payload, me, self._context.clock.now())
        for item in items:
            self._status.heard(item.source.address)
            if (url := convert.aside_of(payload)) and item.ref is not None:
                self._keep_aside(item.ref, url, _ASIDE_SECONDS)
        self._mark.saw(convert.moment_of(payload))
        await accept(items, self._mark.cursor if items else None)
        return True

    async def _catch_up(self, accept: Accept, me: SlackIdentity) -> None:
        """Read what was missed; until that is done the mark stays where it is."""
        mark = self._mark
        if self._new:
            self._new = False
            await accept((), mark.cursor)
            return
        mark.whole = False
        async for events in SlackCatchUp(self.api, self._context.clock, mark.since).events():
            items: list[Inbound] = []
            for event in events:
                await self._learn(event)
                items += convert.to_inbounds(event, me, self._context.clock.now())
                mark.saw(convert.moment_of(event))
            if items:
                await accept(items, None)
        mark.whole = True
        await accept((), mark.cursor)

    async def _learn(self, payload: Any) -> None:
        """The names of people and places, once each; nothing waits long for them, and what did not come in
        time is asked for again another time."""
        channel, user, kind = convert.place_of(payload)
        if name := convert.new_name(payload):
            self._names[channel] = name
        if user and user not in self._names:
            self._names[user] = ""
            person = await self._look_up("users.info", "user", user)
            names = (dig(person, "profile", "display_name"), person.get("real_name"), person.get("name"))
            name = next(filter(None, map(as_text, names)), "")
            if user in self._names:
                self._names[user] = name
        if not channel:
            return
        if kind == "im" or channel.startswith("D"):
            self._kinds[channel] = "im"
        elif channel not in self._names:
            self._names[channel] = ""
            room = await self._look_up("conversations.info", "channel", channel)
            self._kinds[channel] = kind or ("mpim" if room.get("is_mpim") is True else "channel")
            if channel in self._names:
                self._names[channel] = "" if room.get("is_mpim") is True else as_text(room.get("name"))

    async def _look_up(self, method: str, what: str, number: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_NAME_SECONDS):
                return as_dict((await self.api.call(method, **{what: number})).get(what))
        except (TimeoutError, Unreachable) as error:
            log.info("slack.unnamed method=%s why=%s", method, str(error) or "no answer in time")
            self._names.pop(number, None)
        except HermesError as error:
            log.info("slack.unnamed method=%s why=%s", method, error)
        return {}

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        to = await self._reached(to)
        self._status.speak(to)
        if body.attachments:
            return await self._send_files(to, body, key)
        if self._streams is not None and (begun := await self._streams.start(to, body)):
            return begun
        asked: dict[str, Any] = {"channel": to.chat}
        if to.thread is not None:
            asked["thread_ts"] = to.thread
        asked |= {name: value for name, value in self._shown(body).items() if value}
        asked["metadata"] = {"event_type": compose.KEY_EVENT, "event_payload": {"key": key}}
        asked |= {"unfurl_links": False, "unfurl_media": False}
        response = await self._ask("chat.postMessage", asked, body)
        if response.says("thread_not_found", "cannot_reply_to_message") and "thread_ts" in asked:
            # The message on which the thread hung is gone.
            del asked["thread_ts"]
            response = await self._ask("chat.postMessage", asked, body)
        if response.says("channel_not_found", "not_in_channel") and (url := self._aside(to, reply_to)):
            shown = self._shown(replace(body, buttons=()))
            await self.api.respond(url, {name: value for name, value in shown.items() if value})
            return Receipt(to=to, ref="aside")
        ts, channel = response.result.get("ts"), response.result.get("channel")
        if not isinstance(ts, str):
            raise Unreachable("Slack does not say which message it sent", maybe_done=True)
        return Receipt(to=replace(to, chat=channel) if isinstance(channel, str) else to, ref=ts)

    def _shown(self, body: Body) -> dict[str, Any]:
        """A text with its buttons, as parameters of a call."""
        if self._in_blocks and body.text:
            shown = compose.markdown_blocks(body.text, body.buttons)
            return {"text": compose.summary(body.text), "blocks": shown}
        blocks = compose.blocks(body.text, body.buttons) if body.buttons else []
        return {"text": body.text, "blocks": blocks}

    async def _ask(self, method: str, asked: dict[str, Any], body: Body) -> api.SlackResponse:
        """Where Slack does not take Markdown in blocks, the words go as they are."""
        response = await self.api.ask(method, asked)
        if self._in_blocks and response.says(*_NO_BLOCKS):
            log.info("slack.no_blocks why=%s", dig(response.answer, "error"))
            text = escape(body.text, quote=False)
            blocks = compose.blocks(text, body.buttons) if body.buttons else []
            response = await self.api.ask(method, {**asked, "text": text, "blocks": blocks})
        return response

    def _aside(self, to: Address, reply_to: str | None) -> str:
        """Where who gave a slash command is answered, if we are not in that chat: seen by nobody else. Only
        the answer goes there, of which just the first piece says that it is one."""
        for name in (reply_to or "", to.chat):
            url, until = self._asides.get(name, ("", 0.0))
            if self._context.clock.monotonic() < until:
                self._keep_aside(to.chat, url, _REST_SECONDS)
                return url
        return ""

    def _keep_aside(self, name: str, url: str, seconds: float) -> None:
        self._asides[name] = (url, self._context.clock.monotonic() + seconds)

    async def _reached(self, to: Address) -> Address:
        """Where one writes: a person is reached by a direct message."""
        chat = to.chat
        if not (chat.isascii() and chat.isalnum()) or chat[:1] not in "CDGUW" or not chat.isupper():
            raise Refused(f"{one_line(str(to), 80)} is not a chat: an id is wanted, like slack:C0123456789")
        if chat[0] not in "UW":
            return to
        channel = dig(await self.api.call("conversations.open", users=chat), "channel", "id")
        if not isinstance(channel, str):
            raise Unreachable("Slack does not say where that person is reached")
        return replace(to, chat=channel)

    async def _send_files(self, to: Address, body: Body, key: str) -> Receipt:
        files = [await self._upload(file, key) for file in body.attachments]
        if not body.buttons:
            return await self._share(to, files, body.text)
        receipt = await self.send(to, replace(body, attachments=()), key=key, reply_to=None)
        await self._share(to, files, "")
        return receipt

    async def _upload(self, file: Attachment, key: str) -> dict[str, str]:
        """Bring a file to Slack, where nobody sees it yet."""
        data = await read_file(self._context, file)
        if not data:
            raise Refused("The file is empty; Slack takes no empty files")
        name = compose.shown_name(file)
        answer = await self.api.call(
            "files.getUploadURLExternal", filename=compose.tagged(name, key), length=len(data)
        )
        number, url = answer.get("file_id"), answer.get("upload_url")
        if not isinstance(number, str) or not isinstance(url, str):
            raise Unreachable("Slack does not say where the file goes")
        await self.api.upload(url, name, data, file.mime or ANY_MIME)
        return {"id": number, "title": name}

    async def _share(self, to: Address, files: Sequence[dict[str, str]], text: str) -> Receipt:
        asked: dict[str, Any] = {"files": files, "channel_id": to.chat}
        if to.thread is not None:
            asked["thread_ts"] = to.thread
        if text:
            asked["initial_comment"] = text
        await self.api.call("files.completeUploadExternal", **asked)
        return Receipt(to=to, ref=await self._shared(files[0]["id"], to))

    async def _shared(self, number: str, to: Address) -> str:
        """The message in which a file is shown, which comes a little later."""
        for wait in _SHARED_SECONDS:
            if wait:
                await self._context.clock.sleep(wait)
            try:
                file = (await self.api.call("files.info", file=number)).get("file")
            except Unreachable as error:
                raise Unreachable(str(error), after=error.after, maybe_done=True) from None
            for places in as_dict(dig(file, "shares")).values():
                for share in as_dicts(dig(places, to.chat))[:1]:
                    if ts := as_text(share.get("ts")):
                        return ts
        raise Unreachable("Slack does not say in which message it showed the file", maybe_done=True)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        if self._streams is not None and await self._streams.grow(receipt, body):
            return
        shown = {**_message(receipt), **self._shown(body), "parse": "none"}
        response = await self._ask("chat.update", shown, body)
        if response.says("streaming_state_conflict"):
            await SlackStreams(self.api).end(receipt)
            response = await self._ask("chat.update", shown, body)
        _ = response.result
        await self._status.edited(receipt.to)

    async def delete(self, receipt: Receipt) -> None:
        await self.api.call("chat.delete", **_message(receipt))

    async def typing(self, to: Address) -> None:
        await self._status.show(to)

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        if convert.seconds(receipt.ref) is None:
            raise Refused("A slash command is no message that could bear a reaction")
        place = {"channel": receipt.to.chat, "timestamp": receipt.ref}
        steps = (("reactions.add", emoji, "already_reacted"), ("reactions.remove", instead, "no_reaction"))
        for method, name, fine in steps:
            if name:
                response = await self.api.ask(method, {**place, "name": compose.emoji_name(name)})
                if not response.says(fine):
                    _ = response.result

    async def open_thread(self, parent: Address, name: str) -> Address:
        """A thread hangs on a message, so one is written that bears its name."""
        title, chat = one_line(name, 150) or "…", replace(parent, thread=None)
        title = title if self._in_blocks else escape(title, quote=False)
        seed = await self.send(chat, Body(text=title), key=f"thread:{parent}:{title}", reply_to=None)
        return replace(seed.to, thread=seed.ref)

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        me = self._me or (await self._who())[0]
        since = self._context.clock.now().timestamp() - _FIND_SECONDS
        return await find_sent(self.api, me.user, await self._reached(to), key, since)

    async def fetch(self, ref: str, sink: Sink) -> None:
        file = as_dict((await self.api.call("files.info", file=ref)).get("file"))
        if file.get("mode") in ("tombstone", "hidden_by_limit"):
            raise Refused("The file was deleted, or Slack does not keep it any longer")
        if file.get("is_external") is True:
            raise Refused("The file is not in Slack but elsewhere")
        url = file.get("url_private_download") or file.get("url_private")
        if not isinstance(url, str):
            raise Refused("Slack does not say where the file is")
        await self.api.fetch(url, sink, html=file.get("mimetype") == "text/html")

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            response = await self.api.ask("auth.test", {})
            who = response.result
            api.check_install(who)
            text = f"Slack knows the bot as @{who.get('user')} in {who.get('team')} ({who.get('user_id')})."
            findings = [good(one_line(text, 200))]
            findings += api.scope_findings(response.headers.get("X-OAuth-Scopes", ""))
            if self._app_token:
                await socket_url(self.api, self._app_token)
                findings.append(good("Socket Mode is on, and the app token opens it."))
            else:
                port = self._context.setting("SLACK_WEBHOOK_PORT", _USUAL_PORT)
                text = f"Slack's calls are awaited on port {one_line(port, 20)}, at {PATH}."
                findings.append(good(text, _CALLED_HINT))
            return findings
        finally:
            await self.api.close()


def _message(receipt: Receipt) -> dict[str, Any]:
    return {"channel": receipt.to.chat, "ts": receipt.ref}
