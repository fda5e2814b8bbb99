"""What of an unfinished text is shown, and how often a draft is edited."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.settings.settings import StreamingSettings
from hermes.domain.turns.thoughts import ThoughtFilter, without_thoughts
from hermes.stream.fold.directives import is_silence, may_be_silence, read_directives, without_directives
from hermes.stream.fold.draft_pace import DraftPace, draft_pace, draft_text

MANY = settings(
    max_examples=2000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 150,
    deadline=None,
    derandomize=True,
    database=None,
)

THOUGHTS = [
    ("plain words", "plain words"),
    ("<think>a</think>b", "b"),
    ("<THINK>a</think>\n\nb", "b"),
    ("  <Thinking>a\nb</THINKING> c", "  c"),
    ("before\n<thought>x</thought>\nafter", "before\nafter"),
    ("<reasoning>a</think>b</reasoning>c", "c"),
    ("<REASONING_SCRATCHPAD>a</REASONING_SCRATCHPAD>c", "c"),
    ("<think>never closed", ""),
    ("<think>a</thin", ""),
    ("a</think>b", "ab"),
    ("</think>\n\nb", "b"),
    ("a\n</thought>\nb", "a\nb"),
    ("say <think> in a line", "say <think> in a line"),
    ("`<think>` opens and `</think>` closes", "`<think>` opens and `</think>` closes"),
    ("```\n<think>\n</think>\n```\n<think>x</think>y", "```\n<think>\n</think>\n```\ny"),
    ("````\n```\n<think>a\n````\n<think>b</think>c", "````\n```\n<think>a\n````\nc"),
    ("~~~xml\n<think>a\n~~~\n</think>b", "~~~xml\n<think>a\n~~~\nb"),
    ("a < b and c <thin d", "a < b and c <thin d"),
    ("ends in <thin", "ends in <thin"),
    ("ends in ``", "ends in ``"),
    ("\n``", "\n``"),
    ("<think>a</think><think>b</think>c", "c"),
    ("<think>\u017f\u212a</THIN\u212a>x</think>c", "c"),
    ("<thinker>a</thinker>", "<thinker>a</thinker>"),
]


def fed(pieces: list[str]) -> str:
    words = ThoughtFilter()
    return "".join(map(words.feed, pieces)) + words.close()


@pytest.mark.parametrize(("text", "shown"), THOUGHTS)
def test_reasoning_is_removed_wherever_the_words_are_cut(text: str, shown: str) -> None:
    assert without_thoughts(text) == shown
    assert fed(list(text)) == shown
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            assert fed([text[:first], text[first:second], text[second:]]) == shown


def thought(pieces: list[str]) -> str:
    """What a watcher who takes the thoughts as they come has been told of them."""
    words = ThoughtFilter()
    taken = [words.take() for piece in pieces if (words.feed(piece), True)]
    words.close()
    return "".join(taken) + words.take()


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [
        ("<think>\nhm, so\n</think>\n\nc", "hm, so\n"),
        ("<think>a</think><think> b</think>c", "a\n\nb"),
        ("<think> \n</think><think>b</think>c", "b"),
        ("<think>a</thin", "a</thin"),
        ("say <think> in a line", ""),
        ("a</think>b", ""),
    ],
)
def test_what_is_removed_is_handed_out_as_thoughts(text: str, thoughts: str) -> None:
    assert thought([text]) == thought(list(text)) == thoughts


TAGS = "<think> </think> <THOUGHT> </thought> <reasoning </Reasoning> < </ thin king > a"
FENCES = "` `` ``` ```` ~ ~~~"
ODD = "\n", " ", "\t", "\u2003", "\u017f", "\u212a", "\u0130"
PIECES = st.sampled_from([*TAGS.split(), *FENCES.split(), *ODD])


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@MANY
@given(st.lists(PIECES, max_size=24).map("".join), st.lists(st.integers(0, 400), max_size=12))
def test_the_cut_never_changes_what_is_shown(text: str, places: list[int]) -> None:
    whole = fed([text])
    assert fed(cut(text, places)) == whole == fed(list(text))
    assert thought(cut(text, places)) == thought([text]) == thought(list(text))


@MANY
@given(st.text(alphabet=st.characters(exclude_characters="<"), max_size=80), st.lists(st.integers(0, 80)))
def test_text_without_tags_passes_unchanged(text: str, places: list[int]) -> None:
    assert fed(cut(text, places)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Here it is.\nMEDIA:/tmp/a.png\nBye.", "Here it is.\nBye."),
        ("See MEDIA:/tmp/a.png for it", "See for it"),
        ('MEDIA:"/tmp/a b.png" x', " x"),
        ("MEDIA:`~/a.png`", ""),
        ("MEDIA:C:\\a.png", ""),
        ("[[audio_as_voice]]\nMEDIA:/x.ogg", ""),
        ("[[audio_as_voice]] MEDIA:/x.ogg\ntext", "text"),
        ("Use `MEDIA:/x` to send", "Use `MEDIA:/x` to send"),
        ("```\nMEDIA:/x\n```\n", "```\nMEDIA:/x\n```\n"),
        ('{"file": "MEDIA:/x"}', '{"file": "MEDIA:/x"}'),
        ("Look:\nMEDIA:/tmp/My report ü 📄.pdf\nBye.", "Look:\nBye."),
        ("MEDIA:/tmp/a.png and b.txt", " and b.txt"),
        ("SOCIAL MEDIA: many", "SOCIAL MEDIA: many"),
        ("[[1, 2], [3, 4]]", "[[1, 2], [3, 4]]"),
        ("if [[ -f x ]]; then", "if [[ -f x ]]; then"),
        ("a [[Wiki Page]] link", "a [[Wiki Page]] link"),
    ],
)
def test_directives_are_hidden_outside_code(text: str, shown: str) -> None:
    assert without_directives(text) == shown


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("MEDIA:/tmp/My report ü 📄.pdf\n", ["/tmp/My report ü 📄.pdf"]),
        ("MEDIA: ~/x y.tar.gz", ["~/x y.tar.gz"]),
        ("MEDIA:/tmp/v1.2 notes.txt", ["/tmp/v1.2 notes.txt"]),
        ("[[as_document]] MEDIA:/tmp/a b.png", ["/tmp/a b.png"]),
        ("MEDIA:/tmp/a.png MEDIA:/tmp/c d.txt", ["/tmp/a.png", "/tmp/c d.txt"]),
        ("MEDIA:/tmp/a.png see b.txt", ["/tmp/a.png"]),
        ("MEDIA:/tmp/out is the file", ["/tmp/out"]),
        ("See MEDIA:/tmp/out or b.txt", ["/tmp/out"]),
    ],
)
def test_a_path_on_a_line_of_its_own_may_have_blanks(text: str, paths: list[str]) -> None:
    assert list(read_directives(text).paths) == paths


@pytest.mark.parametrize(
    "directive", ["MEDIA:/tmp/a.png", "[[as_document]]", "MEDIA:/tmp/a b c.png", 'MEDIA:"~/a b.png"']
)
def test_a_growing_directive_never_shows(directive: str) -> None:
    for end in range(1, len(directive) + 1):
        assert without_directives("Look:\n" + directive[:end], growing=True).strip() == "Look:"


@pytest.mark.parametrize("text", ["[SILENT]", "SILENT", "NO_REPLY", "NO REPLY", " **NO_REPLY**.\n"])
def test_silence_is_known_from_its_first_letter(text: str) -> None:
    assert is_silence(text)
    assert all(may_be_silence(text[:end]) for end in range(len(text) + 1))


@pytest.mark.parametrize(
    "text", ["Silent night", "NO REPLYING", "SILENT but deadly", "SILENT" + "." * 70, "No"]
)
def test_other_words_are_not_silence(text: str) -> None:
    assert not is_silence(text)
    assert not may_be_silence(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc", "abc ▉"),
        ("abc \n", "abc ▉"),
        ("", ""),
        (" \n", ""),
        ("```\ncode\n```", "```\ncode\n```\n▉"),
        ("```\ncode", "```\ncode ▉"),
    ],
)
def test_the_cursor_stands_at_the_end(text: str, shown: str) -> None:
    assert draft_text(text, " ▉") == shown


def test_no_cursor_no_mark() -> None:
    assert draft_text("abc", "") == "abc"


def test_first_post_waits_for_four_visible_characters() -> None:
    pace = DraftPace()
    assert [pace.wait(0, text) for text in ("", "a", "a b\n c", "a b c d")] == [None, None, None, 0]


def test_edits_come_at_the_interval_and_small_changes_one_later() -> None:
    pace = DraftPace(0.8, 24, "")
    pace.shown(10.0, "Hello")
    assert pace.wait(10.5, "Hello") is None
    assert pace.wait(10.5, "Hello \n") is None
    assert pace.wait(10.5, "Hello" + "x" * 24) == pytest.approx(0.3)
    assert pace.wait(10.5, "Hello you") == pytest.approx(1.1)
    assert pace.wait(10.5, "Changed") == pytest.approx(0.3)
    assert pace.wait(12.0, "Hello you") == 0


def test_floods_double_the_interval_and_the_third_ends_the_draft() -> None:
    pace = DraftPace(4.0, 0, "")
    pace.shown(0.0, "Hello")
    pace.flooded(1.0, None)
    assert (pace.interval, pace.wait(1.0, "Hello you")) == (8.0, 8.0)
    pace.flooded(9.0, 60.0)
    assert (pace.interval, pace.wait(9.0, "Hello you"), pace.given_up) == (10.0, 60.0, False)
    pace.flooded(70.0, 1.0)
    assert (pace.given_up, pace.wait(1000.0, "Hello you")) == (True, None)


def test_the_platform_sets_the_floor() -> None:
    wishes = StreamingSettings()
    slow = draft_pace(wishes, Capabilities(edit_interval=1.5), SourceKind.PRIVATE)
    fast = draft_pace(wishes, Capabilities(edit_interval=0.1), SourceKind.PRIVATE)
    assert slow is not None and fast is not None
    assert (slow.interval, fast.interval, fast.threshold, fast.cursor) == (1.5, 0.8, 24, " ▉")
    bare = draft_pace(wishes, Capabilities(edit_interval=1.0, draft_cursor=False), SourceKind.GROUP)
    assert bare is not None and bare.cursor == ""
    crowd = Capabilities(edit_interval=1.0, group_edit_interval=3.0)
    paces = [
        draft_pace(wishes, crowd, kind) for kind in (SourceKind.PRIVATE, SourceKind.GROUP, SourceKind.THREAD)
    ]
    assert [pace.interval for pace in paces if pace is not None] == [1.0, 3.0, 3.0]
    assert draft_pace(wishes, Capabilities(), SourceKind.PRIVATE) is None
    for quiet in (StreamingSettings(enabled=False), StreamingSettings(transport="off")):
        assert draft_pace(quiet, Capabilities(edit_interval=1.0), SourceKind.PRIVATE) is None


def test_a_preview_is_kept_in_private_chats_where_it_is_wanted() -> None:
    able = Capabilities(edit_interval=1.0, preview_seconds=20.0)
    kept = {
        (transport, kind): pace.keep
        for transport in ("edit", "draft", "auto")
        for kind in (SourceKind.PRIVATE, SourceKind.GROUP)
        if (pace := draft_pace(StreamingSettings(transport=transport), able, kind)) is not None
    }
    assert [where for where, keep in kept.items() if keep] == [
        ("draft", SourceKind.PRIVATE),
        ("auto", SourceKind.PRIVATE),
    ]
    pace = DraftPace(1.0, 1, "", 20.0)
    pace.shown(5.0, "Hello")
    assert (pace.wait(6.0, "Hello"), pace.wait(6.0, "Hello you")) == (19.0, 0.0)
    pace.keep = 0.0
    assert pace.wait(6.0, "Hello") is None


GROWTH = st.lists(
    st.tuples(st.floats(0.0, 2.0), st.text(alphabet="ab \n", min_size=1, max_size=40)), max_size=30
)


@MANY
@given(GROWTH, st.floats(0.1, 3.0), st.integers(0, 60), st.sets(st.integers(0, 30), max_size=2))
def test_never_faster_than_the_interval_and_the_last_text_is_shown(
    growth: list[tuple[float, str]], interval: float, threshold: int, floods: set[int]
) -> None:
    pace = DraftPace(interval, threshold, "")
    now, text, tries = 0.0, "", 0
    posts: list[tuple[float, str]] = []
    for pause, words in [*growth, (1000.0, "")]:
        until = now + pause
        text += words
        while (wait := pace.wait(now, text)) is not None and now + wait <= until:
            now += wait
            if tries in floods:
                pace.flooded(now, None)
            else:
                pace.shown(now, text)
                posts.append((now, text.rstrip()))
            tries += 1
        now = until
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(posts)]
    assert all(gap >= interval - 1e-9 for gap in gaps)
    assert all(one != other for (_, one), (_, other) in itertools.pairwise(posts))
    if len("".join(text.split())) >= 4:
        assert posts[-1][1] == text.rstrip()
