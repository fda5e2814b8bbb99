"""A turn's end as rows: the answer cut into messages with its files, and the questions a turn waits for.

The rows are made from the turn's records before the commit that ends or parks it, and written by that commit.
The lane sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hermes.control.outbound.question_messages import close_question, question_rows
from hermes.domain.chats.address import LOCAL_DOOR, Address
from hermes.domain.chats.capabilities import AlbumLimit, Capabilities
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.chats.rows import OutboxRow, OutState, outbox_rows
from hermes.domain.chats.voice_modes import VoiceMode, voice_mode
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line, size_told
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Failed,
    Finished,
    QuestionKind,
    Stopped,
    ToolFinished,
    Verdict,
)
from hermes.domain.turns.transcript import view_turn
from hermes.domain.turns.turn import CLIENT_GONE, Answer, Question, ReplyPlace, Turn
from hermes.domain.word import replace
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.directives import is_silence, may_be_silence, read_directives, without_directives
from hermes.stream.fold.display import display_for
from hermes.stream.fold.draft_pace import is_streamed
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.turn_fold import Fold

STOPPED_HERE = "⏹ (stopped here)"
REPEAT_MARK = "↻ (this may be a repeat)"
PARTS_PER_SEGMENT = 1000
CONFIRM_SECONDS = 300
_MARK_ROOM = 2 * len(REPEAT_MARK)
_CAPTION_ROOM = _MARK_ROOM + 200
"""Room in a caption for the mark of a repeat, and for a word on files that could not go after all."""
_QUIET_STOPS = (CLIENT_GONE,)
MOST_FILES = 10
_MOST_SPOKEN = 20_000
SPEECH = "speech:"
"""How the keys of rows begin that ask for speech, which `spoken.py` makes."""
_SOUNDS = (MediaKind.VOICE, MediaKind.AUDIO)
_AS_VOICE = "audio_as_voice"
_AS_DOCUMENT = "as_document"
_SHOWN = 120


class SpeechRequest(Struct, frozen=True, kw_only=True):
    """An answer that is spoken if its chat wants that. `heard`: it answers a voice message."""

    to: Address
    row: Callable[[], OutboxRow]
    heard: bool
    settings: Settings

    def write(self, tx: Tx) -> bool:
        mode = voice_mode(tx, self.to, self.settings)
        wanted = mode is VoiceMode.ALL or (mode is VoiceMode.VOICE_ONLY and self.heard)
        if wanted:
            tx.outbox.add(self.row())
        return wanted


class ClosingRows(Struct, frozen=True, kw_only=True):
    """Rows for the commit that ends or parks a turn."""

    rows: tuple[OutboxRow, ...] = ()
    over_draft: tuple[OutboxRow, ...] = ()
    """What takes the place of a draft, perhaps of an earlier life, where there are no words to do so."""
    prompts: tuple[OutboxRow, ...] = ()
    questions: tuple[Question, ...] = ()
    withdraw: TurnId | None = None
    speech: SpeechRequest | None = None

    def write(self, tx: Tx, now: datetime) -> bool:
        """Whether the answer is to be spoken, too."""
        if self.withdraw is not None:
            for question in tx.questions.of_turn(self.withdraw):
                close_question(tx, Answer(question=question.id, verdict=Verdict.WITHDRAWN), now)
        for question in self.questions:
            tx.questions.add(question)
        answer = self.rows or tuple(row for row in self.over_draft if _has_draft(tx, row))
        for row in answer + self.prompts:
            tx.outbox.add(row)
        return self.speech is not None and self.speech.write(tx)


class AnswerWriter(Struct, frozen=True, kw_only=True):
    live: LiveSettings
    clock: Clock
    capabilities: Callable[[Address], Capabilities]

    def write(self, tx: Tx, turn: Turn, entries: Sequence[Entry], new: int) -> None:
        self.of(turn, entries, new).write(tx, self.clock.now())

    def of(self, turn: Turn, entries: Sequence[Entry], new: int, answer: Body | None = None) -> ClosingRows:
        """`entries` are the turn's records up to the one that ends or parks it, of which the last `new` are
        of this commit; `answer` is the closing text with its files, if somebody has collected them."""
        open_now = _asked_last(entries[-new:])
        if open_now:
            before = entries[: -len(open_now)]
            said = self._said_before(turn, before) if any(map(for_people, open_now)) else ClosingRows()
            return replace(
                said,
                prompts=tuple(row for asked in open_now for row in self._prompts(turn, asked)),
                questions=tuple(self._question(turn, asked) for asked in open_now),
            )
        asked = _segment(entries)
        rows: tuple[OutboxRow, ...] = ()
        over_draft: tuple[OutboxRow, ...] = ()
        speech = None if answer is None else self._speech(turn, answer, entries)
        if turn.reply is not None:
            answer = answer or Body(text=closing_words(entries, turn.id))
            rows = self.parts(turn.reply, answer, turn=turn.id, segment=asked)
            if isinstance(entries[-1].record, Stopped):
                over_draft = self.parts(turn.reply, Body(text=STOPPED_HERE), turn=turn.id, segment=asked)
            else:
                over_draft = (self._nothing(turn.reply, turn=turn.id, segment=asked),)
        withdraw = turn.id if any(isinstance(entry.record, Asked) for entry in entries) else None
        return ClosingRows(rows=rows, withdraw=withdraw, over_draft=over_draft, speech=speech)

    def _speech(self, turn: Turn, answer: Body, entries: Sequence[Entry]) -> SpeechRequest | None:
        """What is said of an answer where people want to hear it; nothing if it has a sound already, or
        nowhere to go."""
        reply = turn.reply
        sounds = any(file.kind in _SOUNDS for file in answer.attachments)
        if reply is None or not answer.text or sounds:
            return None
        if {*_SOUNDS, MediaKind.FILE}.isdisjoint(self.capabilities(reply.to).media):
            return None

        def row() -> OutboxRow:
            words = without_directives(answer_text(entries, footer=False)).strip()[:_MOST_SPOKEN]
            asked = Attachment(kind=MediaKind.VOICE, ref=turn.agent, text=words, pending=True)
            return OutboxRow(
                key=f"{SPEECH}{turn.id}",
                to=reply.to,
                body=Body(attachments=(asked,)),
                created_at=self.clock.now(),
                reply_to=reply.ref,
                state=OutState.UNSPOKEN,
            )

        heard = any(file.kind is MediaKind.VOICE for file in turn.input.attachments)
        return SpeechRequest(to=reply.to, row=row, heard=heard, settings=self.live.now)

    def _said_before(self, turn: Turn, entries: Sequence[Entry]) -> ClosingRows:
        """What was said since the last question stays above the next one, without a draft's cursor."""
        if turn.reply is None:
            return ClosingRows()
        places = [n for n, entry in enumerate(entries) if _asks_people(entry)]
        fold = Fold()
        for entry in entries[places[-1] + 1 if places else 0 :]:
            fold.see(entry)
        shown = display_for(self.live.now, turn.reply.to)
        rows, over_draft = (
            self.parts(turn.reply, Body(text=text), turn=turn.id, segment=len(places))
            for text in (fold.text, fold.draft(shown.progress, shown.preview, interim=shown.interim))
        )
        return ClosingRows(rows=rows, over_draft=over_draft)

    def parts(
        self, reply: ReplyPlace, answer: Body, *, turn: TurnId, segment: int = 0
    ) -> tuple[OutboxRow, ...]:
        """An answer as rows: the text in pieces that fit, and then the files."""
        able = self.capabilities(reply.to)
        streaming = display_for(self.live.now, reply.to).streaming
        # Words that were shown as a draft stay where they are.
        bodies = cut_body(answer, able, captioned=not is_streamed(streaming, able))
        now, first = self.clock.now(), segment * PARTS_PER_SEGMENT
        return outbox_rows(bodies, key=turn, to=reply.to, now=now, reply_to=reply.ref, turn=turn, first=first)

    def _nothing(self, reply: ReplyPlace, *, turn: TurnId, segment: int) -> OutboxRow:
        """A row that says nothing: with it, what was shown of the turn is removed."""
        part, now = segment * PARTS_PER_SEGMENT, self.clock.now()
        return OutboxRow(key=f"{turn}:{part}", to=reply.to, body=Body(), created_at=now, turn=turn, part=part)

    def _prompts(self, turn: Turn, asked: Asked) -> tuple[OutboxRow, ...]:
        if turn.reply is None or not for_people(asked):
            return ()
        return question_rows(asked, turn.reply, self.capabilities(turn.reply.to), self.clock.now())

    def _question(self, turn: Turn, asked: Asked) -> Question:
        person = None if turn.source is None else turn.source.person
        is_below = turn.input.guidance.parent is not None
        return Question(
            id=asked.question,
            turn=turn.id,
            session=turn.session,
            kind=asked.kind,
            text=asked.text,
            options=asked.options,
            call=asked.call,
            digest=asked.digest,
            may_answer=() if person is None or is_below or asked.kind is QuestionKind.CHILD else (person,),
            expires_at=self._expiry(turn, asked),
            relays=asked.relays,
        )

    def _expiry(self, turn: Turn, asked: Asked) -> datetime | None:
        """Each kind has a time of its own. In the terminal somebody sits who may take their time, and a child
        answers by itself when it ends, unless it was given a time. What a child asks is open as long as its
        parent's question."""
        kind = asked.kind
        if kind is QuestionKind.CHILD:
            seconds = 0.0 if asked.child is None else asked.child.seconds
            return self.clock.now() + timedelta(seconds=seconds) if seconds else None
        if turn.input.guidance.parent is not None:
            return None
        if turn.source is not None and turn.source.address.platform == LOCAL_DOOR:
            return None
        settings = self.live.of(turn.agent)
        times = {
            QuestionKind.CONFIRM: CONFIRM_SECONDS,
            QuestionKind.APPROVAL: settings.approvals.timeout,
            QuestionKind.CLARIFY: settings.agent.clarify_timeout,
            QuestionKind.CLIENT_TOOL: settings.agent.client_tool_timeout,
        }
        return self.clock.now() + timedelta(seconds=times[kind])


def cut_body(answer: Body, able: Capabilities, *, captioned: bool) -> list[Body]:
    """An answer as messages of a platform: its text in pieces, and each file in a message of its own, so that
    one that fails or is repeated affects no other. Files share a message only where the platform has albums;
    `captioned`, the text stands under the first of them if it fits there."""
    from hermes.stream.text.split import MIN_LIMIT, split_bodies

    room = max(able.max_text - _MARK_ROOM, able.max_text // 2)  # for the mark of a repeat
    if not answer.attachments:
        return split_bodies(answer.text, able, room)
    fitted = fit_files(answer, able)
    files = [Body(attachments=group) for group in group_files(fitted.attachments, able)]
    if captioned and files:
        limit = able.media[files[0].attachments[0].kind].caption - _CAPTION_ROOM
        caption = split_bodies(fitted.text, able, limit) if limit >= MIN_LIMIT else []
        if len(caption) == 1:
            return [replace(caption[0], attachments=files[0].attachments), *files[1:]]
    return split_bodies(fitted.text, able, room) + files


def _has_draft(tx: Tx, row: OutboxRow) -> bool:
    assert row.turn is not None
    segment = row.part // PARTS_PER_SEGMENT
    return any(one.draft and one.part // PARTS_PER_SEGMENT == segment for one in tx.outbox.of_turn(row.turn))


def _asks_people(entry: Entry) -> bool:
    return isinstance(entry.record, Asked) and for_people(entry.record)


def _segment(entries: Sequence[Entry]) -> int:
    """The part of an answer that follows: each question to people begins a new one below it."""
    return sum(map(_asks_people, entries))


def _asked_last(entries: Sequence[Entry]) -> list[Asked]:
    """The questions that the turn is parked with: what it asked in one commit stands together at its end."""
    asked: list[Asked] = []
    for entry in reversed(entries):
        if not isinstance(entry.record, Asked):
            break
        asked.insert(0, entry.record)
    return asked


def closing_words(entries: Sequence[Entry], turn: TurnId) -> str:
    """What a person is sent at the end of a turn; empty if there is nothing to say."""
    last = entries[-1].record
    if isinstance(last, Finished):
        text = answer_text(entries)
        return "" if is_silence(text) else text
    assert isinstance(last, Failed | Stopped)
    if isinstance(last, Stopped) and last.reason in _QUIET_STOPS:
        return ""
    view = view_turn(entries, turn)
    # Words that people have read stay where they are.
    partial = view.last is not None and view.last.partial
    heard = without_directives(answer_text(entries, footer=False), growing=True).strip() if partial else ""
    words = [heard] if heard and not may_be_silence(heard) else []
    if isinstance(last, Failed):
        return "\n\n".join([*words, f"⚠️ {last.reason}"])
    words += [STOPPED_HERE] if partial else []
    if view.unknown:
        names = ", ".join(dict.fromkeys(view.unknown))
        words.append(f"⚠️ Stopped while it ran, so it may or may not have happened: {names}.")
    return "\n\n".join(words)


def made_files(entries: Sequence[Entry]) -> list[Attachment]:
    """What tools made in a turn for the person, each once."""
    made = [entry.record.attachments for entry in entries if isinstance(entry.record, ToolFinished)]
    files = [replace(file, outgoing=False) for attached in made for file in attached if file.outgoing]
    if files and is_silence(answer_text(entries)):
        return []
    return list({file.sha256: file for file in files}.values())[:MOST_FILES]


async def collect_files(
    text: str,
    take: Callable[[str], Awaitable[Attachment]] | None,
    made: Sequence[Attachment] = (),
) -> Body:
    """The text without its directives, with the files that they name and those that were made. What may
    not go is said in it."""
    directives = read_directives(text)
    files = [*made]
    if not directives.paths and directives.text == text:
        return Body(text=text, attachments=tuple(files))
    refused: list[str] = []
    for path in directives.paths:
        try:
            if take is None:
                raise UserError("this agent sends no files")
            if len(files) >= MOST_FILES:
                raise UserError(f"at most {MOST_FILES} files go with one message")
            file = _as_asked(await take(path), directives.flags)
            files += [] if any(file.sha256 == other.sha256 for other in made) else [file]
        except UserError as error:
            refused.append(f"⚠️ Not attached: {shown_path(path)} ({error.message.rstrip('.')}).")
    return Body(text=join_lines(directives.text, refused), attachments=tuple(files))


def _as_asked(file: Attachment, flags: frozenset[str]) -> Attachment:
    if _AS_DOCUMENT in flags:
        return replace(file, kind=MediaKind.FILE)
    if _AS_VOICE in flags and file.kind is MediaKind.AUDIO:
        return replace(file, kind=MediaKind.VOICE)
    return file


# --- files as a platform takes them ------------------------------------------------------------------


def fit_files(body: Body, able: Capabilities) -> Body:
    """The body as a platform can take it; what it does not take is named in the text."""
    if not body.attachments:
        return body
    fitting = [fitted(file, able) for file in body.attachments]
    left = [
        f"📎 {_named(file)}: {why_not(file, able)}."
        for file, fits in zip(body.attachments, fitting, strict=True)
        if fits is None
    ]
    kept = tuple(file for file in fitting if file is not None)
    return replace(body, text=join_lines(body.text, left), attachments=kept)


def group_files(files: Sequence[Attachment], able: Capabilities) -> list[tuple[Attachment, ...]]:
    """Files as messages: neighbours that may stand together do."""
    groups: list[list[Attachment]] = []
    for file in files:
        if groups and _joins(groups[-1], file, able.albums):
            groups[-1].append(file)
        else:
            groups.append([file])
    return [tuple(group) for group in groups]


def _joins(group: list[Attachment], file: Attachment, albums: Sequence[AlbumLimit]) -> bool:
    together = [*group, file]
    kinds, size = {one.kind for one in together}, sum(one.size or 0 for one in together)
    return any(
        kinds <= album.kinds and len(together) <= album.most and size <= album.max_bytes for album in albums
    )


def fitted(file: Attachment, able: Capabilities) -> Attachment | None:
    """As what it is, or else as a plain file; None if the platform takes it neither way."""
    plainer = (MediaKind.AUDIO,) if file.kind is MediaKind.VOICE else ()
    for kind in dict.fromkeys((file.kind, *plainer, MediaKind.FILE)):
        limit = able.media.get(kind)
        if limit is None or (file.size or 0) > limit.max_bytes:
            continue
        if not limit.mimes or file.mime in limit.mimes:
            return replace(file, kind=kind)
    return None


def why_not(file: Attachment, able: Capabilities) -> str:
    """Why a chat does not take a file, in words."""
    most = max((limit.max_bytes for limit in able.media.values()), default=0)
    if able.media and (file.size or 0) > most:
        return f"this chat takes files of up to {size_told(most)}"
    return "this chat takes no such file"


def name_files(files: Sequence[Attachment]) -> str:
    return ", ".join(map(_named, files))


def _named(file: Attachment) -> str:
    size = "" if file.size is None else f" ({size_told(file.size)})"
    return f"{shown_path(file.name or file.ref)}{size}"


def shown_path(path: str) -> str:
    return one_line(path, _SHOWN)


def join_lines(text: str, lines: list[str]) -> str:
    return "\n\n".join(part for part in (text.strip("\n"), "\n".join(lines)) if part.strip())
