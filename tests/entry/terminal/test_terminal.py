"""A conversation through a real pty: streaming, tools, questions, commands, Ctrl-C, paste, crash."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.entry.terminal.person import HERMES, PATIENCE, Person, at_terminal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def effects(home: Path) -> str:
    file = home / "effects"
    return file.read_text() if file.exists() else ""


def held(home: Path) -> Path:
    """The file that makes counting stand still at ten for as long as it is there."""
    home.mkdir(mode=0o700)
    (home / "hold").touch()
    return home / "hold"


def test_an_answer_is_streamed(home: Path) -> None:
    hold = held(home)
    with at_terminal(home) as person:
        person.until("Hermes", "Model:", "❯ ")
        person.type("hello there")
        person.until("You said: hello there", "❯ ")
        person.type("count")
        person.until("1 2 3")
        assert "done counting" not in person.seen
        hold.unlink()
        person.until("done counting", "❯ ")
        person.type("/quit")
        assert person.ends() == 0
        assert f"HERMES_HOME={home}hermes--resume" in "".join(person.seen.split())
        assert person.mode == person.before and person.blocking


def test_a_tool_is_a_line(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("read notes")
        person.until("· read notes … done", "The tool said: read did notes", "❯ ")


@pytest.mark.parametrize(
    ("answer", "runs"),
    [("yes", True), ("1", True), ("session", True), ("no", False), ("4", False), ("deny too risky", False)],
)
def test_an_approval_is_asked_where_it_comes(home: Path, answer: str, runs: bool) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.until("? May I do zone?", "1. once", "4. deny", "answer ❯ ")
        person.type(answer)
        person.until("The tool said: danger did zone" if runs else "The tool said: Denied", "❯ ")
        assert effects(home) == ("danger zone\n" if runs else "")
        if "risky" in answer:
            assert "Reason: too risky" in person.seen


def test_a_lone_wrong_word_is_asked_again_and_a_sentence_withdraws_the_question(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.until("answer ❯ ")
        person.type("")
        person.type("yess")
        person.until("“yess” is no answer.", "1 once", "answer ❯ ")
        person.type("say something else")
        person.until("stopped", "You said: say something else", "❯ ")
        assert effects(home) == ""


def test_a_clarification_takes_a_number_or_words(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("choose")
        person.until("? Which colour?", "2. green", "answer ❯ ")
        person.type("2")
        person.until("→ green", "The tool said: green", "❯ ")
        person.type("choose")
        person.until("? Which colour?", "answer ❯ ")
        person.type("a very dark blue")
        person.until("The tool said: a very dark blue", "❯ ")


def test_what_was_written_before_a_question_does_not_answer_it(home: Path) -> None:
    """The words that were being written when it came are put aside and come back after the answer."""
    with at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.keys("1")
        person.until("answer ❯ ")
        time.sleep(0.3)
        assert effects(home) == ""
        person.keys("\x15")
        person.type("no")
        person.until("The tool said: Denied", "❯ ")
        assert effects(home) == ""


def test_words_ahead_of_a_question_are_no_answer(home: Path) -> None:
    """Keys in one go: the words, and an answer to a question that nobody has seen yet."""
    with at_terminal(home) as person:
        person.prompt()
        person.keys("danger zone\ryes\r")
        person.until("❯ ")
        time.sleep(1.0)
        assert effects(home) == ""


def test_commands(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("/help")
        person.until("/new [title]", "/whoami", "/quit", "❯ ")
        person.type("remember")
        person.until("You said: remember", "❯ ")
        person.type("/title first one")
        person.until("now called “first one”", "❯ ")
        person.type("/new")
        person.until("New session.", "❯ ")
        person.type("/status")
        person.until("Idle.", "❯ ")
        person.type("/resume first one")
        person.until("Back in “first one”", "❯ ")
        person.type("/retry")
        person.until("You said: remember", "❯ ")
        person.type("/hepl")
        person.until("There is no command /hepl. Did you mean /help?", "❯ ")
        person.keys("/wh\t")
        person.until("❯ /whoami ")
        person.type("")
        person.until("Session key: agent:main:terminal:private:local", "❯ ")
        person.type("/etc/passwd is a path")
        person.until("You said: /etc/passwd is a path", "❯ ")
        person.type("/clear")
        person.type("/exit")
        assert person.ends() == 0 and "\x1b[2J" in person.raw


def _long_talk(person: Person) -> None:
    """More records than the next sessions have."""
    for word in ("one", "two", "three"):
        person.type(f"read {word}")
        person.until(f"The tool said: read did {word}", "❯ ")


@pytest.mark.parametrize("way", ["/new", "/branch", "/resume short"])
def test_after_a_talk_another_session_is_shown_from_its_beginning(home: Path, way: str) -> None:
    """What stands on the screen is counted in its own session: a short one has smaller numbers."""
    with at_terminal(home) as person:
        person.prompt()
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.type("/title short")
        person.until("now called", "❯ ")
        person.type("/new")
        person.until("New session.", "❯ ")
        _long_talk(person)
        person.type(way)
        person.until("❯ ")
        person.type("read notes")
        person.until("· read notes … done", "The tool said: read did notes", "❯ ")
        person.type("refuse")
        person.until("it will not", "❯ ")
        person.type("danger zone")
        person.until("? May I do zone?", "4. deny", "answer ❯ ")
        person.type("no")
        person.until("The tool said: Denied", "❯ ")
        assert effects(home) == "read one\nread two\nread three\nread notes\n"


def test_a_new_session_while_the_old_one_still_runs_or_asks(home: Path) -> None:
    hold = held(home)
    with at_terminal(home) as person:
        person.prompt()
        _long_talk(person)
        person.type("count")
        person.until("1 2 3")
        person.type("/new")
        person.until("New session.")
        hold.unlink()
        person.until("❯ ")
        person.type("danger zone")
        person.until("? May I do zone?", "answer ❯ ")
        person.type("/new")
        person.until("New session.", "❯ ")
        person.type("danger two")
        person.until("? May I do two?", "answer ❯ ")
        person.type("yes")
        person.until("The tool said: danger did two", "❯ ")
        assert "danger zone" not in effects(home)


def test_stop_and_queue_while_it_runs(home: Path) -> None:
    hold = held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.type("/queue and then this")
        person.until("Queued behind 1.")
        hold.unlink()
        person.until("done counting", "You said: and then this", "❯ ")
        hold.touch()
        person.type("count")
        person.until("1 2 3")
        person.type("/stop")
        person.until_all("Stopped.", "— stopped: stopped by the user —")
        person.until("❯ ")
        person.type("/stop")
        person.until("Nothing is running.", "❯ ")


def test_words_while_it_runs_interrupt_it(home: Path) -> None:
    held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.type("rather this")
        person.until("— stopped: interrupted —", "You said: rather this", "❯ ")
        assert "done counting" not in person.seen


def test_the_busy_mode_of_the_settings_counts(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("display: {busy_input_mode: queue}\n")
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.type("later this")
        person.until("done counting", "You said: later this", "❯ ")


@pytest.mark.parametrize(
    ("display", "tools", "thoughts"),
    [("", True, False), ("{tool_progress: off}", False, False), ("{show_reasoning: true}", True, True)],
)
def test_the_settings_say_what_is_shown(home: Path, display: str, tools: bool, thoughts: bool) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"display: {display}\n")
    with at_terminal(home) as person:
        person.prompt()
        person.type("read notes")
        person.until("The tool said: read did notes", "❯ ")
        person.type("ponder this")
        person.until("You said: ponder this", "❯ ")
        assert (("· read notes" in person.seen), ("let me think" in person.seen)) == (tools, thoughts)


def test_ctrl_c_stops_the_turn_and_keeps_what_was_said(home: Path) -> None:
    held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.keys("\x03")
        person.until("— stopped: interrupted —", "❯ ")
        time.sleep(2.1)
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.keys("\x04")
        assert person.ends() == 0


def test_ctrl_c_twice_leaves_with_130(home: Path) -> None:
    held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.keys("\x03")
        person.until("— stopped: interrupted —")
        assert person.leaves() == 130
        assert person.mode == person.before


def test_ctrl_c_at_the_prompt_clears_the_line_and_twice_leaves(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.keys("half a line")
        person.until("half a line")
        person.keys("\x03")
        person.until("❯ ")
        person.keys("another half")
        person.until("another half")
        person.keys("\x03")
        person.until("❯ ")
        person.type("whole")
        person.until("You said: whole", "❯ ")
        assert "once more leaves" not in person.seen
        person.keys("\x03")
        person.until("Ctrl-C once more leaves.")
        assert person.leaves() == 130


def test_ctrl_c_at_a_question_stops_the_turn(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.until("answer ❯ ")
        person.keys("\x03")
        person.until("— stopped: interrupted —", "❯ ")
        assert effects(home) == ""


def test_a_pasted_text_is_one_message(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.paste("one\ntwo\r\nthree\n")
        person.until("one⏎two⏎three")
        person.type("")
        person.until("You said: one\ntwo\nthree", "❯ ")


def test_a_paste_of_ten_megabytes_gets_one_sentence(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.paste("x" * 10_485_760)
        person.type("")
        person.until("✗ Your message has 10,485,760 characters", "Put it into a file", "❯ ")
        person.paste("y" * 1_500_000)
        person.type("")
        person.until("✗ Your message has 1,500,000 characters; 1,000,000 are the most.", "❯ ")
        person.type("short")
        person.until("You said: short", "❯ ")


def test_keys_edit_the_line_and_recall_earlier_ones(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("hallo\x1b[D\x1b[D\x1b[D\x1b[D\x1b[3~e")
        person.until("You said: hello", "❯ ")
        person.type("grüße 😀\x7fworld")
        person.until("You said: grüße world", "❯ ")
    with at_terminal(home) as person:
        person.prompt()
        person.type("\x1b[A\x1b[A")
        person.until("You said: hello", "❯ ")
        person.type("two\\\rlines")
        person.until("You said: two\nlines", "❯ ")


def test_bytes_that_are_no_text_stop_nothing(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.bytes(b"a\xff\xfe\x00\x1b[999zb\r")
        person.until("You said: a\ufffd\ufffdb", "❯ ")


def test_the_plug_is_pulled_and_the_answer_comes_after_all(home: Path) -> None:
    hold = held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.kill()
    hold.unlink()
    with at_terminal(home) as person:
        person.until("Unfinished: “count”.", "1 2 3", "done counting", "❯ ")
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.type("/quit")
        assert person.ends() == 0
    with at_terminal(home) as person:
        person.until("❯ ")
        assert "Unfinished" not in person.seen


def test_an_open_question_survives_the_plug(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("danger zone")
        person.until("answer ❯ ")
        person.kill()
    with at_terminal(home) as person:
        person.until("Unfinished: “danger zone”.", "? May I do zone?", "answer ❯ ")
        person.type("yes")
        person.until("The tool said: danger did zone", "❯ ")
        assert effects(home) == "danger zone\n"


def test_a_tool_that_was_cut_off_is_not_repeated(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("once slowly")
        person.until("· once slowly …")
        while not effects(home):
            time.sleep(0.02)
        person.kill()
    with at_terminal(home) as person:
        person.until("Unfinished: “once slowly”.", "outcome unknown", "The tool said: Interrupted", "❯ ")
        assert effects(home) == "once slowly\n"


def test_a_plug_that_is_pulled_again_and_again(home: Path) -> None:
    """At any moment: what was sent is answered once, in the end."""
    for moment in (0.0, 0.05, 0.1, 0.2, 0.4, 0.8):
        with at_terminal(home) as person:
            person.prompt()
            person.type(f"count for {moment}")
            person.until("❯ count for")
            time.sleep(moment)
            person.kill()
        with at_terminal(home) as person:
            person.until("❯ ")
            person.type(f"again {moment}")
            person.until(f"You said: again {moment}", "❯ ")
            assert ("Unfinished" in person.seen) == ("done counting" in person.seen)
            person.type("/quit")
            assert person.ends() == 0 and "Traceback" not in person.seen


def test_leaving_in_the_middle_lets_it_go_on(home: Path) -> None:
    hold = held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2")
        person.keys("\x04")
        person.until("The answer is not finished; the gateway goes on with it.")
        assert person.ends() == 0
    with at_terminal(home) as person:
        person.until("Unfinished: “count”.")
        hold.unlink()
        person.until("done counting", "❯ ")


def test_escape_swallows_no_key_and_stops_the_turn(home: Path) -> None:
    held(home)
    with at_terminal(home) as person:
        person.prompt()
        person.keys("\x1b")
        time.sleep(0.5)  # longer than a key takes
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.type("count")
        person.until("1 2")
        person.keys("\x1b")
        person.until("stopped: interrupted", "❯ ")


def test_a_window_of_another_width(home: Path) -> None:
    words = " ".join(f"word{number}" for number in range(20))
    with at_terminal(home) as person:
        person.prompt()
        person.keys(words)
        person.until("word19")
        person.resize(200)
        person.until("❯ word0 word1 ", "word19")
        person.resize(40)
        person.until("word19")
        assert "\x1b[J" in person.raw
        person.keys("\r")
        person.until(f"You said: {words}", "❯ ")


def test_a_closed_window_ends_it(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.hang_up()
        assert person.process.wait(PATIENCE) in (0, 1, 128 + signal.SIGHUP)


def test_a_stopped_process_goes_on(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.process.send_signal(signal.SIGSTOP)
        person.process.send_signal(signal.SIGCONT)
        person.until("❯ ")
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.process.send_signal(signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM and person.mode == person.before


def test_a_terminal_that_stands_still_holds_nobody_up(home: Path) -> None:
    with at_terminal(home) as person:
        person.prompt()
        person.type("count")
        person.until("1 2 3")
        person.keys("\x13")
        time.sleep(1.5)
        person.keys("\x11")
        person.until("done counting", "❯ ")
        person.type("/trace")
        person.until("finished", "❯ ")


def test_resume_and_continue(home: Path) -> None:
    with at_terminal(home, "--continue") as person:
        assert person.ends() == 1 and "There is no conversation to continue yet." in person.seen
    with at_terminal(home) as person:
        person.prompt()
        person.type("/title the blue one")
        person.until("now called", "❯ ")
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.keys("\x04")
        person.ends()
    for words in (("--continue",), ("--resume", "the blue one"), ("-c", "the blue one")):
        with at_terminal(home, *words) as person:
            person.until("Back in “the blue one”.", "❯ ")
            person.type("/retry")
            person.until("You said: hello", "❯ ")
    with at_terminal(home, "--resume", "nosuch") as person:
        assert person.ends() == 1 and "There is no session “nosuch”." in person.seen


def test_one_question_at_a_terminal_may_still_be_asked_back(home: Path) -> None:
    with at_terminal(home, "-q", "danger zone") as person:
        person.until("? May I do zone?", "answer ❯ ")
        person.type("yes")
        person.until("The tool said: danger did zone")
        assert person.ends() == 0
    with at_terminal(home, "-z", "choose") as person:
        person.until("Which colour?", "answer>")
        person.type("1")
        person.until("The tool said: red")
        assert person.ends() == 0
    with at_terminal(home, "-q", "vanish") as person:
        assert person.ends() == 1 and "There is no model." in person.seen


def test_a_plain_terminal(home: Path) -> None:
    with at_terminal(home, TERM="dumb") as person:
        person.until("❯ ")
        person.type("hello")
        person.until("You said: hello", "❯ ")
        person.type("danger zone")
        person.until("answer ❯ ")
        person.type("no")
        person.until("The tool said: Denied", "❯ ")
        assert "\x1b" not in person.raw
        person.keys("\x04")
        assert person.ends() == 0


def test_colours_only_where_they_are_wanted(home: Path) -> None:
    def raw(**more: str) -> str:
        with at_terminal(home, **more) as person:
            person.prompt()
            person.type("read it")
            person.until("The tool said", "❯ ")
            return person.raw

    assert "\x1b[2m" in raw() and "\x1b[2m" not in raw(NO_COLOR="1")


def test_the_first_minute_with_the_demo_model(home: Path) -> None:
    """The real command, an empty home, no key: stream, tool, approval, plug, answer."""

    def begin(person: Person) -> None:
        person.until("demo", "❯ ")

    with at_terminal(home, real=HERMES) as person:
        begin(person)
        person.type("list files")
        person.until("· ", "… done", "❯ ")
        person.type("run: rm -rf ~/no-such-folder")
        person.until("answer ❯ ")
        person.type("deny")
        person.until("→ deny", "❯ ")
        person.type("count to 60")
        person.until("1 2 3")
        person.kill()
    with at_terminal(home, real=HERMES) as person:
        person.until("Unfinished: “count to 60”.", "59 60", "❯ ")
        person.keys("\x04")
        assert person.ends() == 0


@pytest.mark.parametrize("words", ["count to 60", "run: rm -rf ~/no-such-folder"])
def test_another_folder_is_not_entered_unasked(home: Path, words: str) -> None:
    """Neither what is unfinished nor an open question takes somebody into the folder of another project."""
    project, here = home.parent / "proj", home.parent / "p2"
    with at_terminal(home, real=HERMES, cwd=project) as person:
        person.until("demo", "❯ ")
        person.type(words)
        person.until("answer ❯ " if words.startswith("run") else "1 2 3")
        person.kill()
    with at_terminal(home, real=HERMES, cwd=here) as person:
        person.until("Unfinished in ~/proj: “", "❯ ")
        assert "hermes --resume 20" in " ".join(person.seen.split())
        person.type("write here.txt: x")
        person.until("… done", "❯ ")
        assert "Back in" not in person.seen
        assert (here / "here.txt").exists() and not (project / "here.txt").exists()
        person.keys("\x04")
        assert person.ends() == 0
    with at_terminal(home, real=HERMES, cwd=project) as person:
        # Its end, or its question, is there for who comes back.
        person.until("Back in", "answer ❯ " if words.startswith("run") else "59 60")


def test_a_home_folder_is_no_free_workspace(home: Path) -> None:
    place = home.parent / "place"
    (place / "Documents").mkdir(parents=True)
    with at_terminal(home, real=HERMES, HOME=str(place)) as person:
        person.until("anything in it.", "❯ ")
        warning = "place is not a project folder. The agent asks before it deletes anything in it."
        assert warning in " ".join(person.seen.split()), person.seen
        person.type("run: rm -rf ~/Documents")
        person.until("? Run: rm -rf ~/Documents", "It deletes outside the workspace", "answer ❯ ")
        person.type("deny")
        person.until("→ deny", "❯ ")
        assert (place / "Documents").is_dir()
    with at_terminal(home, real=HERMES) as person:
        person.prompt()
        assert "whatever the agent deletes" not in person.seen
