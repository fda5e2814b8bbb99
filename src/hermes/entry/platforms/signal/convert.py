"""From signal-cli's words to ours: envelopes to `Inbound`s, errors to our errors. Pure functions; an envelope
that cannot be read gives nothing. Both dialects have the same envelopes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address, Source, SourceKind
from hermes.domain.chats.message import (
    Attachment,
    Inbound,
    InboundKind,
    MediaKind,
    ReplyTo,
    deletion,
    media_kind,
)
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.text import one_line, storable
from hermes.domain.word import replace
from hermes.entry.kit.payload import (
    Recent,
    as_dict,
    as_dicts,
    as_text,
    attachment,
    dig,
    flat,
    inbounds,
    integer,
    moment,
    name_of,
    shaped,
)

NAME = "signal"
GROUP = "group."
"""Before the id of a group, where an address has its chat."""
NUMBER = re.compile(r"\+[0-9]{5,15}", re.ASCII)
PERSON = re.compile(r"\+[0-9]{5,15}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_GROUP_ID = re.compile(r"[A-Za-z0-9+/=_-]{16,128}", re.ASCII)
_FILE_ID = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)
_REF = re.compile(r"([0-9]{1,16})@(.+)", re.ASCII)
_OWN_FAULT = re.compile(r"(?<!the )\buser (\S+ )?is not registered|authorization failed", re.IGNORECASE)
_UNREGISTERED = re.compile(r"is not registered|unregistered_failure", re.IGNORECASE)
_NO_CAUSE = re.compile(r"Failed to send message|.*\(\w+Exception\)", re.DOTALL)
"""What the wrapper tells, with one status for all, of faults of the network or of Signal."""
_SLOT = "\ufffc"
"""What stands in a text where somebody is mentioned."""


class SignalIdentity(Struct, frozen=True, kw_only=True):
    """Our number, and our Signal id if it is known; `account` is how the operator calls it. `revised` has for
    each edit, by its ref, when its message was first sent."""

    number: str
    id: str = ""
    account: str = DEFAULT_ACCOUNT
    revised: Recent[str, int] = field(default_factory=Recent)

    def ref(self, timestamp: Any, author: str) -> str:
        """A message is known by when it was first sent. A second edit names the first one (Signal-Desktop,
        util/editHelpers `getTargetOfThisEditTimestamp`; NousResearch/hermes-agent #34561)."""
        named = message_ref(integer(timestamp), author)
        return message_ref(self.revised.get(named, integer(timestamp)), author)

    def is_named(self, *names: Any) -> bool:
        return any(name and name in (self.number, self.id) for name in names)


def message_ref(timestamp: int, author: str) -> str:
    """A message is known by when it was sent and by whom."""
    return f"{timestamp}@{author}"


def read_ref(ref: str) -> tuple[int, str] | None:
    fits = _REF.fullmatch(ref)
    return (int(fits[1]), fits[2]) if fits and PERSON.fullmatch(fits[2]) else None


@inbounds
def to_inbounds(event: Any, me: SignalIdentity) -> Inbound | None:
    """What an event means. What we write ourselves is none, unless it is a note to ourselves."""
    if dig(event, "account") not in (None, me.number):
        return None
    envelope = event["envelope"]
    if isinstance(sent := dig(envelope, "syncMessage", "sentMessage"), dict):
        own = sent.get("destinationNumber") == me.number and "groupInfo" not in sent
        edited = as_dict(sent.get("editMessage"))
        return _read(envelope, edited or None, sent, me) if own else None
    edited = as_dict(envelope.get("editMessage"))
    data = edited.get("dataMessage") if edited else envelope.get("dataMessage")
    return _read(envelope, edited or None, data, me) if isinstance(data, dict) else None


def _read(
    envelope: Mapping[str, Any], edited: Mapping[str, Any] | None, data: Mapping[str, Any], me: SignalIdentity
) -> Inbound | None:
    if edited is not None:
        data = edited["dataMessage"]
    source, sent = _source(envelope, data, me), integer(data["timestamp"])
    author, chat = source.user or "", source.address.chat
    at = moment(sent, per_second=1000)
    item = Inbound(
        delivery=DeliveryId(f"message:{chat}:{author}:{sent}"),
        source=source,
        at=at,
        ref=message_ref(sent, author),
        reply_to=_reply(data, me),
    )
    if isinstance(gone := data.get("remoteDelete"), dict):
        return deletion(source, me.ref(gone["timestamp"], author), at)
    if isinstance(reaction := data.get("reaction"), dict):
        return _reaction(item, reaction, me)
    if edited is not None:
        ref = me.ref(edited["targetSentTimestamp"], author)
        me.revised[message_ref(sent, author)] = int(ref.partition("@")[0])
        text, mine = _words(data, me)
        return replace(item, what=InboundKind.EDIT, ref=ref, text=text, mentions_me=mine)
    text, mine = _words(data, me)
    files = tuple(_attachments(data, chat, author))
    if not (text or files):
        return None
    return replace(item, text=text, mentions_me=mine, attachments=files)


def _source(envelope: Mapping[str, Any], data: Mapping[str, Any], me: SignalIdentity) -> Source:
    number, uuid = as_text(envelope.get("sourceNumber")), as_text(envelope.get("sourceUuid"))
    user = number if NUMBER.fullmatch(number) else uuid
    if not PERSON.fullmatch(user):
        raise ValueError("nobody wrote it")
    group = data.get("groupInfo")
    # Lists of groups may name it as signal-cli does, too.
    named = None if group is None else shaped(group["groupId"], _GROUP_ID)
    chat = user if named is None else GROUP + named
    return Source(
        address=Address(platform=NAME, account=me.account, chat=chat),
        kind=SourceKind.PRIVATE if group is None else SourceKind.GROUP,
        user=user,
        user_alt=uuid if PERSON.fullmatch(uuid) else None,
        user_name=name_of(envelope.get("sourceName")),
        chat_name=None if group is None else name_of(group.get("groupName")),
        parent_chat=named,
    )


def _reaction(item: Inbound, reaction: Mapping[str, Any], me: SignalIdentity) -> Inbound:
    author = as_text(reaction.get("targetAuthorNumber")) or as_text(reaction.get("targetAuthorUuid"))
    ref = me.ref(reaction["targetSentTimestamp"], shaped(author, PERSON))
    emoji = "" if reaction.get("isRemove") is True else storable(as_text(reaction.get("emoji")))
    return replace(item, what=InboundKind.REACTION, ref=ref, text=emoji)


def _reply(data: Mapping[str, Any], me: SignalIdentity) -> ReplyTo | None:
    quote = data.get("quote")
    if not isinstance(quote, dict):
        return None
    author = as_text(quote.get("authorNumber")) or as_text(quote.get("authorUuid"))
    return ReplyTo(
        ref=me.ref(quote["id"], shaped(author, PERSON)),
        text=storable(as_text(quote.get("text"))),
        author=author,
        mine=me.is_named(author, quote.get("authorUuid")),
    )


def _attachments(data: Mapping[str, Any], chat: str, author: str) -> Iterator[Attachment]:
    """A file is got by its id and by who sent it, or the group it was sent in."""
    for file in as_dicts(data.get("attachments")):
        mime, name = as_text(file.get("contentType")), file.get("filename")
        kind = media_kind(mime)
        # What is recorded in the app has no name; older versions do not tell more of it.
        if kind is MediaKind.AUDIO and file.get("isVoiceNote", not as_text(name)) is True:
            kind = MediaKind.VOICE
        place = chat if chat.startswith(GROUP) else author
        yield attachment(f"{shaped(file['id'], _FILE_ID)} {place}", kind, name, mime, file.get("size"))


def _words(data: Mapping[str, Any], me: SignalIdentity) -> tuple[str, bool]:
    """What was said, with names where people are mentioned; and whether we are. Places count in UTF-16."""
    raw, mine = as_text(data.get("message")).encode("utf-16-le", "surrogatepass"), False
    for mention in sorted(
        as_dicts(data.get("mentions")), key=lambda mention: integer(mention["start"]), reverse=True
    ):
        start = integer(mention["start"]) * 2
        end = start + max(integer(mention.get("length", 1)), 0) * 2
        ours = me.is_named(mention.get("number"), mention.get("uuid"))
        mine = mine or ours
        name = "" if ours and start == 0 else f"@{one_line(as_text(mention.get('name')), 60)}"
        raw = raw[:start] + name.encode("utf-16-le", "replace") + raw[end:]
    text = raw.decode("utf-16-le", "replace").replace(_SLOT, "@")
    return (text.lstrip(" ,:\n") if mine else text) or _described(data), mine


def _described(data: Mapping[str, Any]) -> str:
    """What is neither text nor a file, in words."""
    if isinstance(data.get("sticker"), dict):
        return "[Sticker]"
    if cards := as_dicts(data.get("contacts")):
        names = (flat(dig(card, "name", "display") or dig(card, "name", "given")) for card in cards)
        phones = (flat(phone.get("value")) for card in cards for phone in as_dicts(card.get("phone")))
        return f"[Contact: {', '.join(filter(None, (*names, *phones)))}]"
    if isinstance(poll := data.get("pollCreate"), dict):
        options = poll.get("options") if isinstance(poll.get("options"), list) else []
        return f"[Poll: {flat(poll.get('question'), 200)} ({', '.join(flat(one) for one in options or [])})]"
    return ""


def error_for(code: int, message: str, after: float | None = None) -> HermesError:
    """What an error of signal-cli's means; the numbers are those of its JSON-RPC."""
    why = one_line(message, 200)
    lowered = message.lower()
    if code == -32602 and "account" in lowered:
        return NeedsLogin(f"signal-cli does not have the account of SIGNAL_ACCOUNT ({why})")
    if _OWN_FAULT.search(message):
        return NeedsLogin(f"Signal does not know the account any more: register or link it again ({why})")
    if "captcha" in lowered:
        return NeedsLogin(f"Signal wants a captcha: see signal-cli submitRateLimitChallenge ({why})")
    if _UNREGISTERED.search(message):
        return Refused(f"They are not on Signal ({why})")
    match -3 if code == -1 and _NO_CAUSE.fullmatch(message) else code:
        case -5:
            return Unreachable(f"Signal wants us to be slower ({why})", after=after or 60.0)
        case -3 | -32603 | -2:
            return Unreachable(f"signal-cli could not do it ({why})", maybe_done=True)
        case -4:
            return Refused(f"Their safety number has changed: look, then signal-cli trust … ({why})")
        case _:
            return Refused(f"signal-cli refuses it ({why})")
