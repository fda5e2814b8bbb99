"""The offline demo model: what it says and which tools it calls, from the transcript alone.

No AI, no memory, no chance: the same transcript gives the same reply, so a turn that was cut off by a crash
goes on as it would have. It needs no key and no network; its words take the same path as a real model's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import CallOptions
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, Entry, ModelSaid, TextDelta, ToolFinished, UserSaid
from hermes.domain.word import replace

FOOTER = "— Offline demo model, not an AI. For a real one: hermes setup (or start Ollama, then Hermes again)."
HELP = """I follow a few fixed rules and use the real tools. Try:

- `list files` or `what is here`
- `read README.md` or `show notes.txt`
- `write notes.txt: buy milk` or `create notes.txt with buy milk`
- `find TODO` (in the files)
- `run: date`, or `run: rm -rf ~/no-such-folder`, which asks you first
- `ask me` (a question back to you)
- `todo: first, second, third`
- `count to 200` (slowly: interrupt it, or pull the plug and come back)
- `search history for milk` or `what did I say about milk` (in earlier conversations)"""
_MOST_SHOWN = 4000
_MOST_COUNTED = 1000
_MOST_READ = 4


class DemoReply(Struct, frozen=True, kw_only=True):
    """What the model says now. `slow` words are to be seen one by one."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    slow: bool = False


class _DemoCalls(Struct, frozen=True, kw_only=True):
    """A tool the words ask for, and its arguments, once for each call."""

    tool: str
    arguments: tuple[Mapping[str, object], ...]


Wish = _DemoCalls | DemoReply


def _ask_tool(tool: str, **arguments: object) -> _DemoCalls:
    return _DemoCalls(tool=tool, arguments=(arguments,))


def demo_reply(entries: Sequence[Entry], tools: Collection[str]) -> DemoReply:
    """The next reply to a visible transcript, with these tools at hand. It says once in a conversation that
    it is not an AI."""
    reply = _reply(entries, tools)
    records = (entry.record for entry in entries)
    if any(isinstance(record, ModelSaid) and FOOTER in record.text for record in records):
        return replace(reply, text=reply.text.removesuffix(f"\n\n{FOOTER}"))
    return reply


def _reply(entries: Sequence[Entry], tools: Collection[str]) -> DemoReply:
    spoken = [(place, entry) for place, entry in enumerate(entries) if isinstance(entry.record, UserSaid)]
    if not spoken:
        return _final(f"Hello.\n\n{HELP}")
    place, last = spoken[-1]
    results = _results(entries[place + 1 :])
    if results:
        return _final("\n\n".join(_told(call, result) for call, result in results))
    assert isinstance(last.record, UserSaid)
    words = last.record.text.strip()
    for phrase, answer in _RULES:
        match = phrase.match(words)
        if match:
            wish = answer(match)
            return wish if isinstance(wish, DemoReply) else _call(wish, last.seq, tools)
    return _final(
        f"I am Hermes' offline demo model. I only know a few phrases, and this was none of them.\n\n{HELP}"
    )


def _final(text: str, *, slow: bool = False) -> DemoReply:
    return DemoReply(text=f"{text}\n\n{FOOTER}", slow=slow)


# --- what was asked for ----------------------------------------------------------------------------


def _call(wish: _DemoCalls, seq: int, tools: Collection[str]) -> DemoReply:
    if wish.tool not in tools:
        return _final(f"That needs the tool `{wish.tool}`, and this agent does not have it.")
    calls = tuple(
        ToolCall(
            id=CallId(f"demo_{seq}_{place}"),
            name=wish.tool,
            arguments=json.dumps(arguments, ensure_ascii=False),
        )
        for place, arguments in enumerate(wish.arguments)
    )
    return DemoReply(text=_ANNOUNCED.get(wish.tool, ""), calls=calls)


_ANNOUNCED = {
    "read_file": "Let me look.",
    "search_files": "Let me search.",
    "session_search": "Let me look into earlier conversations.",
    "terminal": "Let me run that.",
    "write_file": "Let me write that.",
}


_FILE = r"(?:(?:a|the)\s+)?(?:file\s+)?[`\"']?(?P<path>[^\s`\"':]+)[`\"']?"


def _read(match: re.Match[str]) -> Wish:
    paths = [name.strip("`\"' ") for name in re.split(r",\s*|\s+and\s+", match[1])]
    return _DemoCalls(
        tool="read_file", arguments=tuple({"path": path} for path in paths[:_MOST_READ] if path)
    )


def _find(match: re.Match[str]) -> Wish:
    wanted = match[1].strip("`\"' ")
    if re.fullmatch(r"[\w./-]*[*?][\w.*?/-]*", wanted):
        return _ask_tool("search_files", pattern=wanted, target="files")
    return _ask_tool("search_files", pattern=re.escape(wanted))


def _todo(match: re.Match[str]) -> Wish:
    steps = [step.strip(" -*\t") for step in re.split(r"[,;\n]", match[1])]
    steps = [step for step in steps if step] or ["look around", "do the work", "check it"]
    items = [
        {"text": step, "status": "in_progress" if place == 0 else "pending"}
        for place, step in enumerate(steps[:20])
    ]
    return _ask_tool("todo", items=items)


def _count(match: re.Match[str]) -> Wish:
    last = min(max(int(match[1]), 1), _MOST_COUNTED)
    return _final(" ".join(map(str, range(1, last + 1))), slow=True)


def _write(match: re.Match[str]) -> Wish:
    return _ask_tool("write_file", path=match["path"], content=f"{match['text'].strip()}\n")


_PHRASES: tuple[tuple[str, Callable[[re.Match[str]], Wish]], ...] = (
    (
        r"(help|hi|hello|hey|what can you do|who are you)\W*\Z",
        lambda match: _final(f"Hello, I am Hermes' offline demo model. {HELP}"),
    ),
    (
        r"(?:(?:run|execute)\s*:|run\s|\$\s)\s*(.+)",
        lambda match: _ask_tool("terminal", command=match[1].strip()),
    ),
    (r"count(?:\s+(?:up\s+)?to)?\s+(\d{1,9})\b", _count),
    (rf"(?:write|create|save)\s+{_FILE}\s*(?::|\bwith\b)\s*(?P<text>.+)\Z", _write),
    (rf"(?:write|save)\s+(?P<text>.+?)\s+(?:in)?to\s+{_FILE}\Z", _write),
    (
        r"(?:what(?:\s+files)?(?:\s+is|'s|\s+are)(?:\s+there)?\s+in\s+(?:this|the|my)\s+(?:folder|directory)"
        r"|what\s+files\s+are\s+(?:here|there))\W*\Z",
        lambda match: _ask_tool("read_file", path="."),
    ),
    (
        r"(?:ls|list(?:\s+(?:the\s+|all\s+)?files)?|what\s+is\s+here|what's\s+here)(?:\s+(?:in\s+)?(\S+?))?\W*\Z",
        lambda match: _ask_tool("read_file", path=match[1] or "."),
    ),
    (
        r"(?:search\s+(?:(?:the|my|our)\s+)?history(?:\s+for)?"
        r"|what\s+(?:did|have)\s+(?:I|you|we)\s+(?:say|said|tell\s+you|told\s+you)\s+about)"
        r"[\s:]+(?:the\s+|my\s+)?(.+)",
        lambda match: _ask_tool("session_search", query=match[1].rstrip("?!. ")),
    ),
    (r"(?:read|show|open|cat)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?(.+)\Z", _read),
    (r"(?:find|search|grep)\s+(?:for\s+)?(.+)\Z", _find),
    (
        r"(?:ask\s+me|choose|let\s+me\s+choose)\b",
        lambda match: _ask_tool(
            "clarify", question="Which one do you like best?", options=["red", "green", "blue"]
        ),
    ),
    (r"(?:todo|plan)\s*(?:list)?\s*:?\s*(.*)", _todo),
)
"""What the beginning of a message asks for; the first phrase that fits counts."""
_RULES = [(re.compile(phrase, re.IGNORECASE | re.DOTALL), answer) for phrase, answer in _PHRASES]


# --- what came of it -------------------------------------------------------------------------------


def _results(entries: Sequence[Entry]) -> list[tuple[ToolCall, ToolFinished]]:
    """The calls since the last words, in their order, with what came of each."""
    calls: dict[CallId, ToolCall] = {}
    done: dict[CallId, ToolFinished] = {}
    for entry in entries:
        if isinstance(entry.record, ModelSaid):
            calls |= {call.id: call for call in entry.record.calls}
        elif isinstance(entry.record, ToolFinished):
            done[entry.record.call] = entry.record
    return [(call, done[call.id]) for call in calls.values() if call.id in done]


def _told(call: ToolCall, result: ToolFinished) -> str:
    if result.unknown:
        return f"`{call.name}` was cut off. Whether it happened is unknown, and I did not repeat it."
    if result.failed:
        return f"`{call.name}` did not work: {_cut(result.text)}"
    match call.name:
        case "clarify":
            return f"You answered: {_cut(result.text)}"
        case "write_file":
            return f"Done. {_cut(result.text)}"
        case "todo":
            title = "The plan"
        case "terminal":
            title = f"I ran `{_argument(call, 'command')}`"
        case "session_search":
            title = f"I searched for `{_argument(call, 'query')}`"
        case "read_file":
            title = f"`{_argument(call, 'path')}`"
        case _:
            title = f"This is what {call.name} found"
    return f"{title}:\n\n{_block(result.text)}"


def _argument(call: ToolCall, name: str) -> str:
    found = json.loads(call.arguments).get(name, "")
    return " ".join(str(found).split()).replace("`", "'")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}\n[… the rest is not shown]"


def _block(text: str) -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{_cut(text).rstrip()}\n{fence}"


NAME = "demo"
WORD_SECONDS = 0.02
_SLOWER = 4
_MOST_PIECES = 60
_WORD = re.compile(r"\s*\S+\s*|\s+")


class DemoProvider:
    """The provider port. `delay` is the time of a word; long answers come in larger pieces."""

    def __init__(self, delay: float = WORD_SECONDS) -> None:
        self._delay = delay

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        _check_options(request.options)
        reply = demo_reply(request.entries, {tool.name for tool in request.tools})
        whole = reply.text.removeprefix(request.spoken)
        left, cut = _bounded(whole, request.options)
        pause = self._delay * (_SLOWER if reply.slow else 1)
        for piece in _pieces(reply, left):
            yield TextDelta(text=piece)
            await asyncio.sleep(pause)
        usage = Usage(prompt=_count_words(request), completion=len(left.split()), cost=0.0)
        calls = reply.calls if left == whole else ()
        ending = Ending.LENGTH if cut else Ending.CALLS if calls else Ending.STOP
        yield ModelEnd(calls=calls, ending=ending, usage=usage, model=NAME)


def _check_options(options: CallOptions) -> None:
    """Fixed rules cannot give an answer in a form, or call what they do not know: that is refused."""
    wanted = "JSON" if options.json is not None else "calls of your functions" if options.must_call else ""
    if wanted:
        why = f"the offline demo model cannot give {wanted}; set up a real model"
        raise ModelFault(f"It was refused: {why}.", kind=FaultKind.BAD_REQUEST, quote=why)


def _bounded(text: str, options: CallOptions) -> tuple[str, bool]:
    """The text up to where the client wants it to stop, and whether it is cut for its length. Each word is a
    token here."""
    ends = [place for stop in options.stop if (place := text.find(stop)) >= 0]
    text = text[: min(ends, default=len(text))]
    words = _WORD.findall(text)
    most = len(words) if options.max_tokens is None else options.max_tokens
    return "".join(words[:most]), most < len(words)


def _pieces(reply: DemoReply, text: str) -> Iterator[str]:
    """Words, or handfuls of them; the footer is said at once."""
    body = text.removesuffix(FOOTER)
    words = _WORD.findall(body)
    at_once = 1 if reply.slow else -(-len(words) // _MOST_PIECES) or 1
    for place in range(0, len(words), at_once):
        yield "".join(words[place : place + at_once])
    if text[len(body) :]:
        yield text[len(body) :]


def _count_words(request: ModelRequest) -> int:
    texts = [getattr(entry.record, "text", "") for entry in request.entries]
    texts += [request.system, *(earlier.text for earlier in request.history)]
    return sum(len(text.split()) for text in texts)
