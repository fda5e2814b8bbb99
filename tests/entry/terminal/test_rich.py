"""The rich chat through a real pty, judged by the screen and the scrollback of a terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import textwrap
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from hermes.entry.terminal.chat.flow import Flow
from hermes.entry.terminal.chat.guard import AnswerGuard
from hermes.entry.terminal.chat.stage import Look, Stage
from hermes.entry.terminal.chat.theme import Theme
from tests.cli.chat_child import REAL_TOOLS
from tests.cli.command import ROOT, end_gateway, environment
from tests.cli.test_chat import PICTURE
from tests.entry.terminal.glass import READY, Glass
from tests.entry.terminal.person import CHILD, HERMES, PATIENCE, at_terminal

ANSWER = """# Sorting

Use `sorted()` for a **new list**; see [the docs](https://docs.python.org/3/).

```python
def by_age(people):
    return sorted(people, key=age)
```

| Function | In place |
|---|---|
| `sorted` | no |

1. one
2. two
"""
ALL = ("Hermes", "/help lists", "❯")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "answer.md").write_text(ANSWER)
    return folder


@contextmanager
def chat(
    home: Path, *words: str, columns: int = 80, rows: int = 24, background: str = "", **more: str
) -> Iterator[Glass]:
    with at_terminal(home, *words, rich=True, **more) as person:
        glass = Glass(person, columns=columns, rows=rows, background=background)
        try:
            yield glass
        finally:
            if person.process.poll() is None:
                person.kill()


def effects(home: Path) -> str:
    file = home / "effects"
    return file.read_text() if file.exists() else ""


def hold(home: Path) -> Path:
    (home / "hold").touch()
    return home / "hold"


# --- scenes ---


def test_the_first_run(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        assert glass.rest().splitlines()[1:] == [
            "╭─ ⚕ Hermes 0.1.0 ─────────────────────────────────────────────────────────╮",
            "│ Model   a model, given by the program that runs Hermes                   │",
            "│ Folder  ~/place                                                          │",
            "│ Tools   5: core                                                          │",
            "│ Skills  12: creative, data, development, hermes, operations, research,   │",
            "│         work, writing                                                    │",
            "│                                                                          │",
            "│ /help lists the commands, Ctrl-C stops the agent, Ctrl-D leaves.         │",
            "╰──────────────────────────────────────────────────────────────────────────╯",
            "",
            "❯",
            "a model",
        ]


def test_an_answer_with_markup_is_drawn(home: Path) -> None:
    with chat(home, rows=40) as glass:
        glass.until(*ALL)
        glass.person.type("show")
        glass.until("2. two", "❯")
        shown = glass.rest().splitlines()
        assert shown[shown.index("❯ show") + 1 : -2] == [
            "",
            "Sorting",
            "",
            "Use sorted() for a new list; see the docs (https://docs.python.org/3/).",
            "",
            "╌╌ python",
            "def by_age(people):",
            "    return sorted(people, key=age)",
            "",
            "Function   In place",
            "───────────────────",
            "sorted     no",
            "",
            "1. one",
            "2. two",
            "",
        ]
        assert "\x1b]8;" in glass.person.raw and "https://docs.python.org/3/\x1b\\" in glass.person.raw
        glass.person.type("/copy")
        glass.until("in the clipboard")
        import base64

        copied = re.search(r"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", glass.person.raw)
        assert copied is not None and base64.b64decode(copied[1]).decode() == ANSWER.strip()


def test_words_stream_and_the_prompt_says_that_it_works(home: Path) -> None:
    going_on = hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("1 2 3 4 5 6 7 8 9 10", "⚕ ❯")
        assert re.search(r"\(.+\) [a-z ]+\.+", glass.text) or "…" in glass.text
        going_on.unlink()
        glass.until("done counting", gone="⚕ ❯")
        assert glass.text.count("1 2 3 4 5") == 1


def test_a_tool_is_a_line_with_its_time(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("read notes")
        glass.until("The tool said: read did notes")
        assert re.search(r"^┊ 📖 read +notes +\d+\.\ds$", glass.text, re.MULTILINE)


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ("1", True),
        ("\r", False),
        ("4", False),
        ("\x1b[B\r", True),
        ("\x1b[A\x1b[B\r", False),
        ("\x1b", False),
        ("yes\r", True),
        ("deny too risky\r", False),
    ],
)
def test_an_approval_is_answered_with_arrows_numbers_or_words(home: Path, keys: str, runs: bool) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("danger zone")
        glass.until("⚠ May I do zone?", "1. once", "❯ 4. deny", READY, "⚠ ❯")
        glass.person.keys(keys)
        glass.until("The tool said: danger did zone" if runs else "The tool said: Denied", gone="1. once")
        assert effects(home) == ("danger zone\n" if runs else "")
        assert ("Reason: too risky" in glass.text) == ("risky" in keys)


def test_a_clarification_takes_a_choice_or_words(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("choose")
        glass.until("? Which colour?", "1. red", "2. green", "? ❯")
        glass.person.keys("\x1b[B\r")
        glass.until("→ green", "The tool said: green")
        glass.person.type("choose")
        glass.until("The tool said: green", "? Which colour?", "? ❯")
        glass.person.type("a very dark blue")
        glass.until("The tool said: a very dark blue")


def test_what_was_written_before_a_question_is_no_answer_and_comes_back(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.keys("danger zone\rhalf a sen")
        glass.until("your message is put aside", "⚠ ❯")
        glass.rest()
        assert effects(home) == "" and "half a sen" not in glass.rows[-2]
        glass.person.keys("1\r")
        glass.until("your message is put aside", "⚠ ❯ 1")
        glass.person.keys("\x7f\r")
        glass.rest()
        assert effects(home) == "" and "4. deny" in glass.text
        glass.person.keys("\x1b[A\x1b[B")
        glass.until(READY)
        glass.person.keys("4")
        glass.until("The tool said: Denied", "❯ half a sen")


class HandTimers:
    """Timers that somebody fires by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def __call__(self, seconds: float, do: Callable[[], None]) -> HandTimers:
        self.due = [do]
        return self

    def cancel(self) -> None:
        self.due = []

    def pass_by(self) -> None:
        due, self.due = self.due, []
        for do in due:
            do()


def test_keys_of_a_message_never_answer_an_approval() -> None:
    timers, told = HandTimers(), list[str]()
    guard = AnswerGuard(lambda: told.append("settled"), timers)
    assert guard.takes() and not timers.due
    guard.begin(aside=False)
    first = list(timers.due)
    guard.press()
    assert not guard.takes() and not guard.takes("yes") and timers.due and told == []
    assert first and timers.due is not first
    timers.pass_by()
    assert guard.takes() and guard.takes("yes") and told == ["settled"]
    guard.begin(aside=True)
    guard.move()
    timers.pass_by()
    assert not guard.takes() and not guard.takes(" 1 ") and guard.takes("deny, it is wrong")
    guard.move()
    assert guard.takes()
    guard.begin(aside=True)
    guard.end()
    assert guard.takes() and not timers.due


def test_nothing_of_a_question_is_cut(home: Path) -> None:
    line = "x =    1" + " " * 90 + "; import os; os.remove('everything')"
    options = ["a colour " + "so very " * 15 + "bright", "b"]
    with chat(home, columns=60, rows=40, **{REAL_TOOLS: "1"}) as glass:
        glass.until(*ALL)
        glass.person.type("call write_file " + json.dumps({"path": "/etc/none-such", "content": line}))
        glass.until("⚠ Write /etc/none-such", READY, "⚠ ❯")
        shown = glass.text.split("⚠ Write /etc/none-such")[1].split("1. once")[0]
        rows = [row.removeprefix("  ").ljust(57) for row in shown.splitlines()]
        assert f"+{line}" in "".join(rows)
        glass.person.keys("4")
        glass.until("→ deny")
        glass.person.type("call clarify " + json.dumps({"question": "Which one?", "options": options}))
        glass.until("? Which one?", "1. a colour", "bright", "❯ 1. a colour", "2. b", "? ❯")


def test_stopping_leaves_what_waits_and_stop_drops_it(home: Path) -> None:
    hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("9 10")
        glass.person.type("/queue later")
        glass.until("1 waiting")
        glass.person.keys("\x1b")
        glass.until("— stopped", "You said: later")
        assert "“later” is next" in glass.text
        glass.person.type("count")
        glass.until("You said: later", "9 10")
        glass.person.type("/queue never this")
        glass.until("1 waiting")
        glass.person.type("/stop")
        glass.until("Stopped and 1 waiting.", "“never this”")
        glass.until("— stopped: dropped before it began —")
        glass.person.type("instead")
        glass.until("You said: instead")
        assert "You said: never" not in glass.text
        heard = str(sqlite3.connect(home / "gateway.db").execute("SELECT * FROM journal").fetchall())
        assert "instead" in heard and "never this" not in heard


def test_an_interrupted_answer_keeps_what_was_said(home: Path) -> None:
    hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("9 10")
        glass.person.keys("draft\x03")
        glass.until("— stopped", "❯ draft")
        assert "8 9 10" in glass.text


def test_words_while_it_works_interrupt_queue_and_steer(home: Path) -> None:
    going_on = hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("9 10")
        glass.person.type("/queue later")
        glass.until("1 waiting")
        going_on.unlink()
        glass.until("done counting", "You said: later")
        hold(home)
        glass.person.type("count")
        glass.until("You said: later", "9 10")
        glass.person.type("instead")
        glass.until("— stopped", "You said: instead")


def test_what_a_session_hides_another_shows(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("/verbose off")
        glass.until("/verbose off", "off", gone="⚕ ❯")
        glass.person.type("read first")
        assert "┊" not in glass.until("The tool said: read did first")
        glass.person.type("/new")
        glass.until("New session")
        glass.person.type("read second")
        glass.until("┊", "The tool said: read did second")


def test_a_quiet_chat_shows_no_tools(home: Path) -> None:
    with chat(home, "-Q") as glass:
        glass.until("❯")
        glass.person.type("read first")
        assert "┊" not in glass.until("The tool said: read did first")


def test_the_bell_rings_for_a_question_too(home: Path) -> None:
    (home / "config.yaml").write_text("display: {bell_on_complete: true}\n")
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("danger zone")
        glass.until(READY)
        assert "\a\x1b]9;Hermes asks something\x07" in glass.person.raw


def test_a_background_task_asks_and_answers_in_the_chat(home: Path) -> None:
    with chat(home, rows=40) as glass:
        glass.until(*ALL)
        going_on = hold(home)
        glass.person.type("/background count")
        glass.until("It answers here.", "1 in background")
        glass.person.type("hello")
        glass.until("You said: hello")
        going_on.unlink()
        glass.until("The background task “count” is done:", "30 done counting", gone="in background")
        glass.person.type("/background danger thing")
        glass.until("The background task “danger thing” asks:", "/approve allows it")
        glass.person.type("/approve")
        glass.until("Approved.")  # before the result or behind it: so short a task may be quicker
        glass.until("“danger thing” is done:", "The tool said")
        assert effects(home) == "danger thing\n"
        glass.person.type("/background choose")
        asked = glass.until("Which colour?", "To answer: /resume bg_")
        glass.person.type(f"/resume {asked.rpartition('/resume ')[2].split()[0]}")
        glass.until("? ❯")
        glass.person.keys("2")
        glass.until("The tool said: green")
        assert glass.rest().count("The tool said: green") == 1


def test_whoever_leaves_is_told_of_background_tasks(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        hold(home)
        glass.person.type("/background count")
        glass.until("1 in background")
        glass.person.keys("\x04")
        assert glass.person.ends() == 0
        glass.look()
        words = " ".join(glass.text.split())
        assert "A background task goes on:" in words and "hermes --resume bg_" in words


def test_a_search_shows_what_it_looks_for_and_what_it_found(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("hello apple")
        glass.until("You said: hello apple")
        glass.person.keys("hello a")
        glass.until("You said: hello apple", "❯ hello apple")
        glass.person.keys("\x15\x12app")
        glass.until("You said: hello apple", "❯ hello apple", "search: app")
        glass.person.keys("\r\r")
        glass.until("You said: hello apple", "You said: hello apple", gone="search:")


def test_a_long_paste_is_folded_and_unfolded(home: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(50))
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.paste(text)
        glass.until("❯ [pasted #1: 50 lines]")
        glass.person.keys("\x0f")
        glass.until("line 49", gone="[pasted")
        glass.person.keys("\x03")
        glass.until("❯", gone="line 49")
        glass.person.paste(f"{text}\n")
        glass.person.type("")
        glass.until("❯ [pasted #2: 50 lines]", "You said: line 0", "line 49")


def test_pictures_are_dropped_named_and_pasted(home: Path, tmp_path: Path) -> None:
    dot, other = tmp_path / "a dot.png", tmp_path / "other.png"
    dot.write_bytes(PICTURE)
    other.write_bytes(OTHER_PICTURE := PICTURE + b"other")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "wl-paste").write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$*\" >{tmp_path}/asked\ncat {tmp_path}/clip\n"
    )
    (tools / "wl-paste").chmod(0o755)
    with chat(home, PATH=f"{tools}:{os.environ['PATH']}") as glass:
        glass.until(*ALL)
        glass.person.paste(f"'{dot}'")
        glass.until("❯ [picture #1: a dot.png]")
        glass.person.paste(str(tmp_path / "missing.png"))
        glass.until("missing.png")
        glass.person.keys("\x15")
        glass.person.type(f"/image {other}")
        glass.until("❯ [picture #2: other.png]", gone="missing")
        glass.person.type("what is this?")
        glass.until("You said: [picture #2: other.png] what is this?")
        assert kept_pictures(home) == {sha256(OTHER_PICTURE).hexdigest()}
        glass.person.type("/image /no/such.png")
        glass.until("✗ /no/such.png cannot be read (No such file")
        glass.person.paste("")
        glass.until("There is no picture in the clipboard.")
        (tmp_path / "clip").write_bytes(PICTURE)
        glass.person.keys("\x16")
        glass.until("❯ [picture #3: clipboard.png]")
        glass.person.type("")
        glass.until("You said: [picture #3")
        assert kept_pictures(home) >= {sha256(PICTURE).hexdigest()}
        assert (tmp_path / "asked").read_text() == "--type image/png\n"


def test_commands_of_hermes_are_run_in_the_chat(home: Path) -> None:
    place = home.parent / "place"
    with chat(home, rows=40) as glass:
        glass.until(*ALL)
        glass.person.type("/history")
        glass.until("✗ Nothing has been said yet.")
        glass.person.type("hello")
        glass.until("You said: hello")
        glass.person.type("/history")
        glass.until("user:", "hello", "agent:", "You said: hello")
        glass.person.type("/save told.md")
        glass.until("messages are in told.md")
        assert "You said: hello" in (place / "told.md").read_text()
        glass.person.type("/browser connect")
        glass.until("browser.cdp_url")
        assert "9222" in (home / "config.yaml").read_text()
        glass.person.type("/config")
        glass.until("http://127.0.0.1:9222", "config.yaml:")
        glass.person.type("/plugins disable nosuch")
        glass.until("There is no plugin “nosuch”.")
        glass.person.type("/config get 'x")
        glass.until("✗ A quotation mark is missing.")
        glass.person.type("/reload")
        glass.until("❯ /reload", "Adopted: browser.cdp_url.")


def kept_pictures(home: Path) -> set[str]:
    with sqlite3.connect(home / "gateway.db") as database:
        records = str(database.execute("SELECT * FROM journal").fetchall())
    return set(re.findall(r"[0-9a-f]{64}", records))


def test_a_paste_of_ten_megabytes_gets_one_sentence(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.paste("x" * 10_000_000)
        glass.until("[pasted #1: 10,000,000 characters]")
        glass.person.type("")
        glass.until("✗ Your message has 10,000,000 characters", "Put it into a file")
        glass.person.type("hello")
        glass.until("You said: hello")


def test_resume_picks_searches_and_deletes(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        for word in ("apple", "banana", "cherry"):
            glass.person.type(f"hello {word}")
            glass.until(f"You said: hello {word}")
            glass.person.type("/new")
            glass.until(f"You said: hello {word}", "New session")
        glass.person.type("/resume")
        glass.until("hello cherry", "hello banana", "hello apple", "type to search")
        glass.person.keys("ban")
        glass.until("❯ ban", gone="  hello apple")
        glass.person.keys("\x15")
        glass.person.keys("\x1b[B")
        glass.rest()
        glass.person.keys("\x04")
        glass.until("Ctrl-D once more deletes “hello banana”")
        assert "Deleted" not in glass.text
        glass.person.keys("\x04")
        glass.until("Deleted: hello banana")
        glass.person.keys("apple\r")
        glass.until("Deleted", "Back in", "› hello apple", "You said: hello apple", gone="type to search")


def test_a_narrow_window(home: Path) -> None:
    with chat(home, columns=30, rows=20) as glass:
        glass.until("⚕ Hermes", "❯")
        glass.person.type("show")
        glass.until("2. two")
        assert all(len(row) <= 30 for row in glass.text.splitlines())
        assert "Function" in glass.text and "Use sorted() for a new list;" in glass.text


def test_no_colour_and_a_light_background(home: Path) -> None:
    with chat(home, NO_COLOR="1") as glass:
        glass.until(*ALL)
        glass.person.type("show")
        glass.until("2. two")
        glass.person.keys("sh")
        glass.until("2. two", "❯ sh")
        assert "❯ show" not in glass.rest().partition("2. two")[2], "it would look like what was typed"
        assert "Use `sorted()` for a new list" in glass.text
        assert not re.search(r"\x1b\[[\d;]*(?:3[0-8]|4[0-8]|9[0-7])[;m]", glass.person.raw)
    with chat(home, background="ffff/ffff/ffff") as glass:
        glass.until(*ALL)
        glass.person.type("hello")
        glass.until("You said: hello")
        glass.rest()
        assert "38;2;138;90;0" in glass.person.raw and "38;2;224;175;104" not in glass.person.raw
        assert "rgb:" not in glass.text


# --- the terminal ---


def test_each_line_is_in_the_history_once_after_twenty_resizes(home: Path) -> None:
    going_on = hold(home)
    with chat(home, columns=50) as glass:  # `pyte` forgets what no longer fits
        glass.until(*ALL)
        glass.person.type("flood 400")
        glass.until("w399", "over", gone="⚕ ❯")
        glass.person.type("count")
        glass.until("9 10")
        for number in range(20):
            glass.resize(60 + 7 * (number % 5), 24)
            glass.rest(0.1)
        going_on.unlink()
        glass.until("counting", gone="⚕ ❯")
        glass.rest()
        words = " ".join(glass.text.split())
        assert all(words.count(f" w{n} ") == 1 for n in range(1, 400)) and words.count("done counting") == 1
        assert words.count("❯ count") == 1 and glass.text.count("words\n") <= 1


def test_two_thousand_words_a_second_are_few_writes(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.rest()
        before, began = len(glass.person.raw.split("\x1b[?2026h")), time.monotonic()
        glass.person.type("flood 8000")
        glass.until("w7999", "over", gone="⚕ ❯")
        frames = len(glass.person.raw.split("\x1b[?2026h")) - before
        # Each write is one frame. The spinner, the echo and the end are frames too.
        assert frames <= 20 * (time.monotonic() - began) + 10
        assert frames < 1000, "far fewer than words, however slow the machine is"


@pytest.mark.parametrize("moment", ["at once", "idle", "typing", "working", "asked"])
def test_leaving_at_every_point_leaves_the_terminal_clean(home: Path, moment: str) -> None:
    hold(home)
    with chat(home) as glass:
        person = glass.person
        glass.until(*(["❯"] if moment == "at once" else ALL))
        if moment == "typing":
            person.keys("some words")
            glass.until("some words")
        if moment == "working":
            person.type("count")
            glass.until("9 10")
        if moment == "asked":
            person.type("danger zone")
            glass.until("⚠ ❯")
        for _ in range(3):  # a busy machine may take the second for another wish
            for press in range(2):
                person.keys("\x03")
                glass.rest(0.3 + 3 * press)
            if person.process.poll() is not None:
                break
        assert person.ends() == 130
        glass.look()
        assert person.mode == person.before and person.blocking
        assert "the gateway goes on with it" not in glass.text or moment == "asked"
        assert "Traceback" not in glass.text and person.raw.rfind("\x1b[?2004l") > person.raw.rfind(
            "\x1b[?2004h"
        )
        assert effects(home) == ""


def test_the_end_of_input_and_quit(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("hello")
        glass.until("You said: hello")
        glass.person.keys("\x04")
        assert glass.person.ends() == 0
        glass.look()
        assert "⚕ ❯" not in glass.text
        last = glass.person.raw.rpartition("To come back: ")[2]
        assert re.match(r"HERMES_HOME=\S+ hermes --resume \w+", last), "it is copied as one line"
    with chat(home, "--continue") as glass:
        glass.until("Session", "› hello", "You said: hello", "❯")
        glass.person.type("/copy")
        glass.until("in the clipboard")
        assert f"\x1b]52;c;{b64encode(b'You said: hello').decode()}\x07" in glass.person.raw
        glass.person.type("/quit")
        assert glass.person.ends() == 0


def test_a_closed_window_ends_it_and_the_session_goes_on(home: Path) -> None:
    going_on = hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("9 10")
        glass.person.hang_up()
        assert glass.person.process.wait(60) in (129, -signal.SIGHUP)
        going_on.unlink()
    with chat(home) as glass:
        glass.until("Unfinished: “count”", "done counting", "❯")


def test_a_stopped_process_goes_on(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.keys("half")
        glass.until("❯ half")
        pid = glass.person.process.pid
        os.kill(pid, signal.SIGSTOP)
        mode = termios.tcgetattr(glass.person._follower)
        mode[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(glass.person._follower, termios.TCSANOW, mode)
        os.kill(pid, signal.SIGCONT)
        glass.rest()
        glass.person.keys(" a line\r")
        glass.until("You said: half a line")


def test_a_window_of_one_cell(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.resize(1, 1)
        glass.person.type("hello")
        glass.rest()
        glass.resize(80, 24)
        glass.person.type("again")
        glass.until("You said: again")
        assert glass.person.process.poll() is None


def test_a_gateway_that_is_killed_comes_back_with_the_answer(home: Path) -> None:
    going_on = hold(home)
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("count")
        glass.until("9 10")
        end_gateway(home)
        glass.until("The gateway is gone", "It is back.")
        going_on.unlink()
        glass.until("done counting", gone="⚕ ❯")
        glass.rest()
        assert " ".join(glass.text.split()).count("1 2 3 4 5 6") == 1


def test_another_character_set(home: Path) -> None:
    with chat(home, LC_ALL="C", LANG="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as glass:
        glass.until("Hermes", "/help lists", ">")
        glass.person.type("hello")
        glass.until("You said: hello")
        assert all(char < "\x7f" for char in glass.person.raw)


def test_keys_edit_complete_and_recall(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("first words")
        glass.until("You said: first words")
        glass.person.keys("/wh")
        glass.until("/whoami", "how this gateway sees you")
        glass.person.keys("\t")
        glass.until("❯ /whoami")
        glass.person.keys("\x15")
        glass.rest()
        glass.person.keys("\x1b[A")
        glass.until("You said: first words", "❯ first words")
        glass.person.keys("\x1b[B\x12")
        glass.rest()
        glass.person.keys("irst\r")
        glass.rest()
        glass.person.keys("\r")
        glass.until("You said: first words", "You said: first words")
        glass.person.keys("one\x1b\rtwo\\\rthree\r")
        glass.until("You said: one", "two", "three")


def test_an_editor_writes_the_line_and_settings_say_how_answers_look(home: Path) -> None:
    editor = home / "editor"
    editor.write_text("#!/bin/sh\necho from an editor > $1\n")
    editor.chmod(0o755)
    (home / "config.yaml").write_text(
        "display: {final_response_markdown: raw, timestamps: true, calm: true,"
        " enter_key: newline, bell_on_complete: true}\n"
    )
    (home / "config.yaml").chmod(0o600)
    with chat(home, EDITOR=str(editor), VISUAL="") as glass:
        glass.until(*ALL)
        glass.person.keys("\x07")
        glass.until("❯ from an editor")
        glass.person.keys("\r")
        glass.rest()
        glass.person.keys("more\x1b\r")
        glass.until("❯ from an editor", "more", "You said: from an editor", "more")
        assert re.search(r"^\d\d:\d\d ❯ from an editor", glass.text, re.MULTILINE)
        glass.person.keys("show\x1b\r")
        glass.until("# Sorting", "**new list**", "| `sorted` | no |")
        glass.rest()
        assert "\a" in glass.person.raw


def test_thoughts_are_folded_and_unfolded(home: Path) -> None:
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("ponder this")
        glass.until("💭 thought", "You said: ponder this")
        assert "let me think" not in glass.text
        glass.person.keys("\x0f")
        glass.until("let me think")


def test_the_demo_model_in_the_first_minute(home: Path) -> None:
    with at_terminal(home, real=HERMES, rich=True) as person:
        glass = Glass(person)
        glass.until("demo", "/help lists", "❯")
        person.type("run: rm -rf ~/no-such-folder")
        glass.until("⚠ Run: rm -rf ~/no-such-folder", "❯ 4. deny", READY, "⚠ ❯")
        person.keys("4")
        glass.until("→ deny", gone="1. once")
        person.kill()


@pytest.mark.parametrize(
    ("words", "settings", "code", "sentence"),
    [
        (["--resume", "nosuch"], "", 1, "There is no session “nosuch”."),
        ([], "model: [", 78, "config.yaml:1: A bracket is opened here and never"),
        (["-t", "nosuch"], "", 1, "There is no toolset “nosuch”."),
        (["--plan"], "", 2, "Did you mean"),
    ],
)
def test_what_keeps_it_from_starting_is_one_sentence(
    home: Path, words: list[str], settings: str, code: int, sentence: str
) -> None:
    if settings:
        (home / "config.yaml").write_text(settings)
        (home / "config.yaml").chmod(0o600)
    with at_terminal(home, *words, real=HERMES, rich=True) as person:
        glass = Glass(person)
        assert person.ends() == code
        glass.look()
        shown = "".join(glass.text.split())  # a long path before it wraps anywhere
        assert "".join(sentence.split()) in shown and "❯" not in shown and person.mode == person.before
        end_gateway(home)


def test_changes_of_files_and_exit_codes_are_shown(home: Path) -> None:
    place = home.parent / "place"
    place.mkdir()
    (place / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    with chat(home, rows=40, **{REAL_TOOLS: "1"}) as glass:
        glass.until(*ALL)
        glass.person.type('call patch {"path": "calc.py", "old": "a - b", "new": "a + b"}')
        glass.until("🔧 patch", "  -    return a - b", "  +    return a + b", "The tool said")
        glass.person.type('call write_file {"path": "list.txt", "content": "bread\\nmilk\\n"}')
        glass.until("📝 write", "  +bread", "  +milk")
        glass.person.type('call write_file {"path": "list.txt", "content": "bread\\ncheese\\n"}')
        glass.until("  -milk", "  +cheese")
        glass.person.type('call write_file {"path": "/etc/none-such", "content": "one line"}')
        glass.until("⚠ Write /etc/none-such", "  +one line", READY, "⚠ ❯")
        glass.person.keys("4")
        glass.until("→ deny", "[denied]")
        glass.person.type('call terminal {"command": "exit 3"}')
        glass.until("exit 3 ", "[exit 3]")


def test_the_menu_offers_arguments_and_files(home: Path) -> None:
    place = home.parent / "place"
    (place / "src").mkdir(parents=True)
    (place / "src" / "main_window.py").touch()
    with chat(home) as glass:
        glass.until(*ALL)
        glass.person.type("hello")
        glass.until("You said: hello")
        for typed, offered in (
            ("/busy ", "interrupt"),
            ("look at @", "file:"),
            ("look at @mnwin", "src/main_window.py"),
            ("look at @file:sr", "src/"),
            ("/ski", "choose the colours"),
            ("/skin pos", "poseidon"),
        ):
            glass.person.keys(typed)
            glass.until("You said: hello", offered)
            glass.person.keys("\x03")
            glass.until("❯", gone=typed)
            glass.rest(2.1)  # another Ctrl-C within two seconds would leave


class Tmux:
    """The chat in a terminal that wraps its rows anew, in a shell that can suspend it."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._folder = folder
        more = {"TERM": "xterm-256color", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HERMES_NO_PROBE": "1"}
        self._env = environment(home, **more)

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._folder / "tmux"), "-f", os.devnull, *words]
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, check=False, timeout=60, cwd=self._folder
        )
        return done.stdout

    def type(self, line: str) -> None:
        self("send-keys", "-l", line)
        self("send-keys", "Enter")

    def until(self, *wanted: str) -> str:
        end = time.monotonic() + PATIENCE
        while not all(text in (seen := self("capture-pane", "-p", "-J", "-S", "-500")) for text in wanted):
            assert time.monotonic() < end, f"not seen: {wanted}\n{seen}"
            time.sleep(0.1)
        return seen


@pytest.fixture
def tmux(home: Path, tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None or shutil.which("bash") is None:
        pytest.skip("tmux is not installed")
    terminal = Tmux(home, tmp_path)
    (tmp_path / "run").write_text(f"exec {sys.executable} {CHILD} {home}\n")
    terminal("new-session", "-d", "-x", "100", "-y", "24", "bash --norc --noprofile -i")
    try:
        terminal.type("PS1='shell> '; clear")
        terminal.until("shell>")
        terminal.type("bash ./run")
        terminal.until("/help lists", "❯")
        yield terminal
    finally:
        terminal("kill-server")
        end_gateway(home)


def test_a_terminal_that_wraps_rows_anew_keeps_each_line_once(home: Path, tmux: Tmux) -> None:
    going_on = hold(home)
    tmux.type("flood 200")
    tmux.until("over")
    tmux.type("count")
    tmux.until("9 10", "⚕ ❯")
    for number in range(20):
        tmux("resize-window", "-x", str(30 + 17 * number % 80), "-y", "24")
        tmux("send-keys", "x")
        time.sleep(0.1)
    tmux("resize-window", "-x", "100", "-y", "24")
    tmux.until("❯ xxxxxxxxxxxxxxxxxxxx")
    going_on.unlink()
    words = tmux.until("done counting").split()
    assert all(words.count(f"w{number}") == 1 for number in range(1, 201))
    assert words.count("30") == 1 and words.count("counting") == 1 and words.count("⚕") <= 2


def test_an_answer_that_streams_while_the_window_changes_is_there_once(home: Path, tmux: Tmux) -> None:
    tmux.type("count 200")
    tmux.until("9 10", "⚕ ❯")
    for number in range(12):
        tmux("resize-window", "-x", str(40 + 37 * number % 80), "-y", "24")
        time.sleep(0.4)  # it is drawn again, and goes on
    tmux("resize-window", "-x", "100", "-y", "24")
    words = tmux.until("done counting").rpartition("❯ count 200")[2].split()
    wanted = [str(number) for number in range(1, 201)]
    assert [word for word in words if word.isdigit()] == wanted


def test_what_is_printed_of_a_block_at_one_width_goes_on_at_another() -> None:
    def rendered(columns: int) -> Callable[[str], list[str]]:
        return lambda text: ["\x1b[1m" + row for row in textwrap.wrap(text, columns)]

    flow, numbers = Flow(), [str(number) for number in range(100, 200)]
    flow.feed(" ".join(numbers))
    printed, _ = flow.tail(rendered(40), 5)
    more, _ = flow.tail(rendered(90), 1)
    rest = flow.end(rendered(33))[0]
    assert more[0].startswith("\x1b[1m") and rest[0].startswith("\x1b[1m")
    assert " ".join([*printed, *more, *rest]).replace("\x1b[1m", "").split() == numbers


@pytest.mark.parametrize("count", range(20, 200, 30))
@pytest.mark.parametrize("head", ["### Title\n", "## Title\n\n", "Before.\n\n### Title\n", ""])
def test_an_answer_that_arrives_in_pieces_is_printed_as_in_one(head: str, count: int) -> None:
    """Of a long line under a heading much is printed before it is whole, and so before the heading is."""
    words = [f"w{number}" for number in range(count)]
    answer = f"{head}{' '.join(words)}\n\n{' '.join(words)}\n\n- one\n- two\n\nThe end.\n"

    def printed(size: int) -> str:
        stage, shown = Stage(Look(theme=Theme())), ""
        for at in range(0, len(answer), size):
            stage.words(answer[at : at + size])
            shown += stage.take()
        stage.end_words()
        return shown + stage.take()

    assert printed(7) == printed(len(answer))


def test_a_shell_suspends_it_and_brings_it_back(home: Path, tmux: Tmux) -> None:
    """Typing, working and asked; nothing that was drawn stays."""
    going_on = hold(home)
    scenes = (("half", "❯ half", "❯ half"), ("count", "9 10", "⚕"), ("danger zone", "⚠ ❯", "1. once"))
    for line, shown, drawn in scenes:
        tmux("send-keys", "-l", line)
        if line != "half":
            tmux("send-keys", "Enter")
        tmux.until(shown)
        tmux("send-keys", "C-z")
        stopped = tmux.until("Stopped").rpartition("Stopped")[0]
        assert drawn not in stopped.replace("⚕ Hermes", "")
        tmux.type("clear; fg")
        if line == "half":
            tmux.until("❯ half")
            tmux.type(" a line")
            tmux.until("You said: half a line")
        elif line == "count":
            going_on.unlink()
            tmux.until("done counting")
    tmux.until("⚠ ❯", READY)
    tmux("send-keys", "4")
    tmux.until("The tool said: Denied")
    tmux("send-keys", "C-d")
    tmux.until("hermes --resume", "shell>")
    assert effects(home) == ""
