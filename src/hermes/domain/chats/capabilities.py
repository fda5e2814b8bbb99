"""What a platform can do, as pure data. Listing platforms imports no SDK."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from hermes.domain.chats.message import MediaKind


class TextUnit(StrEnum):
    """What a platform counts when it limits a text."""

    CHARS = "chars"
    UTF16 = "utf16"
    BYTES = "bytes"

    def measure(self, text: str) -> int:
        if self is TextUnit.CHARS or text.isascii():
            return len(text)
        if self is TextUnit.UTF16:
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        return len(text.encode("utf-8", "replace"))


class Flavour(StrEnum):
    PLAIN = "plain"
    COMMONMARK = "commonmark"
    DISCORD = "discord"
    TELEGRAM_HTML = "telegram_html"
    SLACK_MRKDWN = "slack_mrkdwn"
    WHATSAPP = "whatsapp"
    HTML = "html"


class Grade(StrEnum):
    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class MediaLimit(Struct, frozen=True, kw_only=True):
    """What a platform takes of one kind of file; no mimes means any."""

    mimes: tuple[str, ...] = ()
    max_bytes: int = 20_000_000
    caption: int = 0


class AlbumLimit(Struct, frozen=True, kw_only=True):
    """Kinds of files that may go in one message together: how many, and how large in all."""

    kinds: frozenset[MediaKind]
    most: int = 10
    max_bytes: int = 50_000_000


class MenuLimits(Struct, frozen=True, kw_only=True):
    """What a platform's menu of commands takes; `dash` is how it writes the “-” of a name."""

    most: int = 100
    name: int = 32
    summary: int = 100
    dash: str = "-"


class MenuEntry(Struct, frozen=True, kw_only=True):
    """One command of a menu. `takes_text`: something may follow it; `admin`: not everybody may use it."""

    name: str
    summary: str
    takes_text: bool = False
    admin: bool = False


class Capabilities(Struct, frozen=True, kw_only=True):
    max_text: int = 4096
    unit: TextUnit = TextUnit.CHARS
    flavour: Flavour = Flavour.PLAIN
    edit_interval: float | None = None
    group_edit_interval: float = 0.0
    """The same in groups and channels, where they take fewer."""
    edits_drafts_only: bool = False
    """Only a message that was sent as `growing` can be edited, up to the first edit that is not."""
    preview_seconds: float = 0.0
    """How long a preview (`Previews`, in private chats) may stand before it has to be shown again; 0 = it has
    none."""
    draft_cursor: bool = True
    """An unfinished answer ends with a cursor; not where notifications and clients that show no edits would
    keep it for ever."""
    deletes: bool = False
    threads: Grade = Grade.NONE
    buttons: Grade = Grade.NONE
    media: dict[MediaKind, MediaLimit] = field(default_factory=dict)
    albums: tuple[AlbumLimit, ...] = ()
    """Which files go out together in one message; any other goes alone."""
    fetches: bool = False
    """Whether files that come with messages can be got."""
    typing: bool = False
    reactions: bool = False
    history: bool = False
    dedupe_seconds: float = 0.0
    silence_seconds: float = 0.0
    """How long a healthy connection can be without any sign of life (a poll that came back, a heartbeat that
    was answered: each an `accept`, if only of nothing); longer, and it is rebuilt. 0 = for ever."""
    send_seconds: float = 60.0
    """How long a message without files may take to be sent, before its attempt is given up."""
    send_interval: float = 0.0
    """A chat takes one message in so many seconds, after a burst of `send_burst`; 0 = no limit."""
    send_burst: int = 1
    paces_account: bool = False
    """That goes for all chats of an account together."""
    reply_window: float = 0.0
    """For so many seconds after they wrote, people can be sent anything; later, only what `OutsideWindow` can
    send. 0 = always."""
    replies: int = 0
    """So many messages of ours can answer one of theirs, and none can begin by itself: what is more waits
    until they write again. 0 = any number."""
    command_prefix: str = "/"
    menu: MenuLimits | None = None
    marks_work: bool = False
    """The message that is worked on bears a reaction of ours, unless the operator says otherwise."""
    marks_after: float = 0.0
    """Only if the work takes longer than so many seconds: where few events are taken, a quick answer is the
    better sign."""
    called_by_name: bool = False
    """In groups it is called by its name (`require_mention`), unless the operator says otherwise."""
    knows_people: bool = False
    """It lets nobody through whom the operator has not let in there; no list of ours is asked."""
    answers_strangers: bool = True
    """Whether strangers may be sent a pairing code; not where an address is easily forged (email)."""

    receives: bool = True
    """Whether people write from there; where not, messages are only sent."""

    hint: str = ""
    """A sentence for the model about writing there, where there is more to say than the facts above."""

    @property
    def edits(self) -> bool:
        return self.edit_interval is not None


NO_ABILITIES = Capabilities()


class SettingField(Struct, frozen=True, kw_only=True):
    """One thing an operator must or may tell about a platform."""

    env: str
    title: str
    required: bool = True
    secret: bool = False
    identifies: bool = False
    """Whether it tells two accounts apart although it is not required."""
    hint: str = ""
    """Where to find it, as one sentence."""
    asked: bool = False
    """Asked at setup although one can do without it."""
    unless: str = ""
    """Asked for unless this other variable is set: another way to the same end."""
    choices: tuple[str, ...] = ()
    """The only values it can have; none if there is no such list."""


class PackageExtra(Struct, frozen=True, kw_only=True):
    """Packages that only one platform needs: an extra of this package, installed on request."""

    name: str
    modules: tuple[str, ...]
    """What can be imported once they are installed."""
    purpose: str = ""
    """What they are needed for; empty if the platform cannot do without them."""


class Manifest(Struct, frozen=True, kw_only=True):
    """A platform on paper: its adapter is an import string and is imported only when it is used."""

    name: str
    title: str
    adapter: str
    capabilities: Capabilities
    requires: tuple[str, ...] = ()
    """The packages that its adapter imports."""
    extra: PackageExtra | None = None
    """What has to be installed for it; None if everything always comes along."""
    settings: tuple[SettingField, ...] = ()
    """What may be said; at setup it is asked in this order."""
    login: str = ""
    """Where a person has to let us in by hand: an async function, named like the adapter, that is given a
    context and a way to tell the person what to do, and returns the variables to be kept."""
    app: str = ""
    """Where the vendor wants an app to be described: a function (`DescribeApp`), named like the adapter."""
    people: str = ""
    """What ids of people are there, and where they are found: setup asks who may write with these words."""
    person: str = ""
    """What all of such an id fits, as a regular expression."""
    evidence: str = ""
    """What it was tried against: the grade and one sentence."""

    @property
    def docs(self) -> str:
        return f"docs/platforms/{self.name}.md"
