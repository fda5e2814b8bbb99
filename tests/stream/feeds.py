"""Generated feeds: turns as a watcher sees them, whole or joined in the middle, with all kinds of items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.sse import SseEvent, SseParser
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Reset,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Undone,
    Usage,
    UserSaid,
    Verdict,
)

START = datetime(2026, 1, 2, tzinfo=UTC)
_WORDS = (
    *("Hello", " ", "there", "\n", "\n\n", "é😀", "`a`", "<think>x</think>", "<thi", "nk>", "</think>"),
    *("\x1b[31m", "\u202e", "MEDIA:/tmp/a.png", "NO_REPLY", "```\ncode\n```", " 1 < 2 ", "\r\n"),
)
_ARGUMENTS = (
    '{"command": "ls -l"}',
    '{"path": "notes.txt", "n": 1}',
    "{}",
    "",
    "not { json",
    '{"n": "é\\n"}',
)
_OWN = ("terminal", "read_file", "_plan", "web_search")
_BROUGHT = ("weather", "stocks")
_APPROVED = (Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS)


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq=seq, turn=TurnId("turn_1"), at=START + timedelta(seconds=seq), record=record)


def parse(chunks: Iterable[bytes]) -> list[SseEvent]:
    """The server-sent events of a stream."""
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def records(feed: list[FeedItem]) -> list[Entry]:
    return [item for item in feed if isinstance(item, Entry)]


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes one turn down as it happens."""

    random: Random
    seq: int
    feed: list[FeedItem] = field(default_factory=list)
    questions: int = 0

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def add(self, record: Record) -> None:
        self.seq += 1 if self.chance(0.9) else 2
        self.feed.append(entry(self.seq, record))

    def text(self, most: int = 6) -> str:
        return "".join(self.random.choice(_WORDS) for _ in range(self.random.randrange(most)))

    def cut(self, text: str) -> list[str]:
        pieces = []
        while text:
            size = self.random.randrange(1, 12)
            pieces.append(text[:size])
            text = text[size:]
        return pieces

    def speak(self, text: str) -> None:
        """The model call that says this, live: perhaps begun anew, perhaps heard in part."""
        if self.chance(0.2):
            self.feed.append(Retrying(reason="busy", after=2.0))
        if self.chance(0.3):
            self.feed += [ThoughtDelta(text=piece) for piece in self.cut(self.text() or "hm")]
        if self.chance(0.25):
            self.feed += [TextDelta(text=piece) for piece in self.cut(self.text())]
            self.feed.append(Reset())
        pieces = self.cut(text)
        if self.chance(0.25):
            pieces = pieces[: self.random.randrange(len(pieces) + 1)]
        if pieces and self.chance(0.25):
            joined = self.random.randrange(len(pieces))
            self.feed += [TextDelta(text=piece) for piece in pieces[: self.random.randrange(joined + 1)]]
            self.feed.append(Snapshot(text="".join(pieces[: joined + 1])))
            pieces = pieces[joined + 1 :]
        self.feed += [TextDelta(text=piece) for piece in pieces]

    def reply(self, calls: tuple[ToolCall, ...]) -> None:
        text = self.text()
        self.speak(text)
        ending = Ending.CALLS if calls else self.random.choice([Ending.STOP, Ending.STOP, *Ending])
        said = ModelSaid(
            text=text if self.chance(0.85) else self.text(),
            calls=calls,
            thought=self.text(3) if self.chance(0.3) else "",
            ending=ending,
            partial=ending is Ending.BROKEN and self.chance(0.5),
            usage=Usage(prompt=self.random.randrange(90), completion=self.random.randrange(9), cached=3),
        )
        self.add(said)

    def ask(self, kind: QuestionKind, call: CallId | None, *, verdict: Verdict, text: str = "") -> None:
        """A question, asked and answered."""
        self.put(kind, call)
        self.answer(QuestionId(f"q_{self.questions}"), verdict, text)

    def put(self, kind: QuestionKind, call: CallId | None) -> None:
        self.questions += 1
        options = ("a", "b") if kind is QuestionKind.CLARIFY and self.chance(0.5) else ()
        question = QuestionId(f"q_{self.questions}")
        text = "" if kind is QuestionKind.CLIENT_TOOL else "Shall I,\nor not?"
        self.add(Asked(question=question, kind=kind, text=text, call=call, options=options))

    def answer(self, question: QuestionId, verdict: Verdict, text: str = "") -> None:
        self.add(Answered(question=question, verdict=verdict, text=text))

    def start(self, call: ToolCall) -> None:
        self.add(ToolStarted(call=call.id, name=call.name, effect=Effect.ONCE, key="k"))
        if self.chance(0.3):
            self.feed.append(ToolOutput(call=call.id, text="half"))

    def finish(self, call: ToolCall, text: str = "out") -> None:
        self.add(ToolFinished(call=call.id, text=text, failed=self.chance(0.2), unknown=self.chance(0.1)))

    def own(self, calls: list[ToolCall]) -> None:
        """The agent's own tools: approved, denied, refused, run side by side, run again after a crash."""
        running = []
        for call in calls:
            way = self.random.randrange(8)
            if way == 0:
                self.ask(QuestionKind.APPROVAL, call.id, verdict=Verdict.DENY)
            elif way == 1:
                self.ask(QuestionKind.CLARIFY, call.id, verdict=Verdict.REPLY, text="a")
            elif way == 2:
                self.ask(QuestionKind.CHILD, call.id, verdict=Verdict.REPLY, text="child")
            elif way > 3:
                if way == 4:
                    self.ask(QuestionKind.APPROVAL, call.id, verdict=self.random.choice(_APPROVED))
                self.start(call)
                if self.chance(0.1):
                    self.start(call)
                running.append(call)
                continue
            self.finish(call)
        self.random.shuffle(running)
        for call in running:
            self.finish(call)

    def clients(self, calls: list[ToolCall]) -> None:
        """Functions of the client: asked for together, when all else is settled."""
        first = self.questions + 1
        for call in calls:
            self.put(QuestionKind.CLIENT_TOOL, call.id)
        for place, call in enumerate(calls):
            self.answer(QuestionId(f"q_{first + place}"), Verdict.REPLY, "rain")
            self.finish(call, "rain")

    def round(self, number: int) -> None:
        names = [self.random.choice(_OWN + _BROUGHT) for _ in range(self.random.randrange(4))]
        same = self.chance(0.3)
        calls = tuple(
            ToolCall(
                id=CallId(f"c{place}" if same else f"c{number}_{place}"),
                name=name,
                arguments=self.random.choice(_ARGUMENTS),
            )
            for place, name in enumerate(names)
        )
        self.reply(calls)
        self.own([call for call in calls if call.name in _OWN])
        self.clients([call for call in calls if call.name in _BROUGHT])
        if self.chance(0.1):
            self.ask(QuestionKind.CONFIRM, None, verdict=self.random.choice(list(Verdict)), text="b")
        if self.chance(0.1):
            self.add(UserSaid(text="also", steering=True))
        if self.chance(0.05):
            self.add(Summarised(upto=1, text="s"))
        if self.chance(0.05):
            self.add(Undone(since=self.seq))


def turn(random: Random) -> list[FeedItem]:
    """A turn that is watched from its beginning; it may still run, or wait."""
    writer = _Writer(random=random, seq=random.randrange(30))
    writer.add(UserSaid(text="hi"))
    for number in range(random.randrange(4)):
        writer.round(number)
    if writer.chance(0.7):
        writer.reply(())
    if writer.chance(0.15):
        writer.speak(writer.text())
    if writer.chance(0.1):
        writer.put(random.choice([QuestionKind.APPROVAL, QuestionKind.CLARIFY]), None)
    end: Record = random.choice(
        [
            Finished(),
            Finished(note="a note"),
            Failed(reason="It\nbroke."),
            Stopped(reason="enough"),
            Stopped(),
        ]
    )
    if writer.chance(0.85):
        writer.add(end)
    return writer.feed


def joined(random: Random, feed: list[FeedItem]) -> list[FeedItem]:
    """The same turn for a watcher who comes in the middle: records, the open call's text, and the rest."""
    place = random.randrange(len(feed) + 1)
    before, rest = feed[:place], feed[place:]
    open_text = ""
    for item in before:
        match item:
            case TextDelta(text=text):
                open_text += text
            case Snapshot(text=text):
                open_text = text
            case Reset() | Entry():
                open_text = ""
            case _:
                pass
    snapshot: list[FeedItem] = [Snapshot(text=open_text)] if open_text else []
    return [*records(before), *snapshot, *rest]


def replayed(random: Random, feed: list[FeedItem]) -> list[FeedItem]:
    """The same feed, with records that come once more."""
    seen: list[FeedItem] = []
    for item in feed:
        seen.append(item)
        if random.random() < 0.1:
            seen += random.sample(records(seen), k=min(1, len(records(seen))))
    return seen


def any_feed(random: Random) -> list[FeedItem]:
    feed = turn(random)
    if random.random() < 0.4:
        feed = joined(random, feed)
    return replayed(random, feed) if random.random() < 0.3 else feed
