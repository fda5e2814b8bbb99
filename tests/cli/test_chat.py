"""`hermes chat` for scripts: one message, pipes, exit codes, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import pytest

from hermes.testing.model_server import FakeModelServer
from tests import nursery
from tests.cli.command import PATIENCE, ROOT, Said, environment, gateway, hermes

CHILD = ROOT / "tests" / "cli" / "chat_child.py"


PICTURE = b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, str(CHILD), str(home), *words]


def surroundings(home: Path, **more: str) -> dict[str, str]:
    return environment(home, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}", HERMES_NO_PROBE="1", **more)


def chat(home: Path, *words: str, given: bytes = b"", **more: str) -> Said:
    done = nursery.run(
        command(home, *words), env=surroundings(home, **more), input=given, capture_output=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    return Said(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def test_one_question(home: Path) -> None:
    assert chat(home, "-q", "hello") == Said(0, "You said: hello \n", "")
    assert chat(home, "-z", "hello") == Said(0, "You said: hello\n", "")
    assert chat(home, "-q", "hello", "-z") == Said(0, "You said: hello\n", "")


def test_a_pipe_is_the_message_or_goes_with_it(home: Path) -> None:
    assert chat(home, given=b"hi\n") == Said(0, "You said: hi\n \n", "")
    assert chat(home, "-z", given=b"hi\n").out == "You said: hi\n"
    assert chat(home, "-z", "-q", "sum up:", given=b"a\nb\n").out == "You said: sum up:\n\na\nb\n"
    assert chat(home, "-z", given=b"\xff\xfe bad").out == "You said: �� bad\n"


def test_tools_are_not_in_the_way_of_a_pipe(home: Path) -> None:
    said = chat(home, "-q", "read notes")
    assert said == Said(0, "The tool said: read did notes \n", "")


def test_verbose_tells_of_tools_beside_a_pipe(home: Path) -> None:
    for way in ("-q", "-z"):
        said = chat(home, way, "read notes", "--verbose")
        assert said.out.strip() == "The tool said: read did notes"
        assert said.err.startswith("hermes: read "), said.err


def test_a_provider_goes_with_its_model(home: Path) -> None:
    alone = chat(home, "-z", "hello", "--provider", "openrouter")
    assert alone.code == 1 and "OPENROUTER_API_KEY" in alone.err and alone.clean
    both = chat(home, "-z", "hello", "--provider", "openrouter", "-m", "some/model")
    assert "openrouter:some/model" in both.out + both.err or both.code == 0
    shown = json.loads(hermes(home, "sessions", "list", "--json").out)
    assert [row["model"] for row in shown] == ["openrouter:some/model"]


def test_quiet_is_the_answer_alone_and_where_it_was_said(home: Path) -> None:
    quiet = chat(home, "-Q", "-q", "hello")
    assert quiet.code == 0 and "hello" in quiet.out
    (session,) = json.loads(hermes(home, "sessions", "list", "--json").out)
    assert quiet.err == f"session_id: {session['id']}\n"
    by_variable = chat(home, "-q", "hello", HERMES_QUIET="1")
    assert by_variable.out == quiet.out and by_variable.err == ""
    assert chat(home, "-q", "hello", HERMES_QUIET="0").code == 0
    assert "cannot be used together" in chat(home, "-Q", "-v", "-q", "hello").err


def test_what_an_answer_took_is_written_for_scripts(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    assert chat(home, "-z", "hello", "--usage-file", str(file)).code == 0
    told = json.loads(file.read_text())
    (session,) = json.loads(hermes(home, "sessions", "list", "--json").out)
    assert told["ok"] is True and told["calls"] == 1 and told["session_id"] == session["id"]
    assert chat(home, "-q", "vanish", "--usage-file", str(file)).code == 1
    assert json.loads(file.read_text())["ok"] is False
    missing = chat(home, "-z", "hello", "--usage-file", str(tmp_path / "no" / "usage.json"))
    assert missing.code == 2 and "usage.json cannot be written" in missing.err and missing.clean
    assert missing.out == "", "the model is not asked"


def test_a_picture_goes_with_the_first_message(home: Path, tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PICTURE)
    said = chat(home, "-q", "what is this?", "--image", str(picture))
    assert (said.code, said.out) == (0, "You said: what is this? \n")
    records = sqlite3.connect(home / "gateway.db").execute("SELECT * FROM journal").fetchall()
    assert sha256(PICTURE).hexdigest() in str(records)
    for path, says in (
        (tmp_path / "no.png", "cannot be read (No such file"),
        (home / "config.yaml", "is no picture"),
    ):
        (home / "config.yaml").write_text("{}\n")
        wrong = chat(home, "-q", "hi", "--image", str(path))
        assert wrong.code == 1 and says in wrong.err and wrong.clean


def test_the_steps_of_an_answer_may_be_limited(home: Path) -> None:
    assert "The tool said" in chat(home, "-q", "read notes", "--max-turns", "2").out
    chat(home, "-q", "read notes", "--max-turns", "1")
    kept = sqlite3.connect(home / "gateway.db").execute("SELECT body FROM guidance").fetchall()
    assert [json.loads(body)["steps"] for (body,) in kept] == [2, 1]
    wrong = chat(home, "-q", "hi", "--max-turns", "none")
    assert wrong.code == 2 and "“none” is not a number from 1 to 1000" in wrong.err


def test_options_of_a_chat_may_stand_without_it(home: Path) -> None:
    for words in (["-v", "-q", "hello"], ["--toolsets", "file", "-q", "hello"], ["-Q", "-q", "hello"]):
        assert hermes(home, *words).code == 0
    unknown = hermes(home, "--provider", "opnrouter", "-q", "hello")
    assert unknown.code == 1 and "Did you mean openrouter?" in unknown.err
    keyless = hermes(home, "--provider", "openrouter", "hello you")
    assert keyless.code == 1 and "OPENROUTER_API_KEY" in keyless.err and keyless.clean


def test_deleting_a_session_deletes_its_log_and_no_other(home: Path) -> None:
    logs = home / "sessions"
    for words in ("elephants", "giraffes"):
        assert hermes(home, "chat", "-z", "-q", words).code == 0
    deleted, kept = sorted(logs.glob("*.jsonl"), key=lambda log: "giraffes" in log.read_text())
    assert "elephants" in deleted.read_text()
    refused = hermes(home, "sessions", "delete", deleted.stem)
    assert refused.code == 1 and deleted.exists()
    assert hermes(home, "sessions", "delete", deleted.stem, "--yes").code == 0
    assert list(logs.glob("*.jsonl")) == [kept] and "giraffes" in kept.read_text()


def test_a_later_chat_finds_what_an_earlier_one_said(home: Path) -> None:
    assert hermes(home, "chat", "-z", "-q", "my cat is called Minka").code == 0
    said = hermes(home, "chat", "-z", "-q", "what did I say about my cat?")
    assert said.code == 0 and "user: my cat is called Minka" in said.out and said.clean


def test_nobody_to_ask_means_no(home: Path) -> None:
    said = chat(home, "-z", "danger zone")
    assert said.code == 0 and said.out.startswith("The tool said: Denied by the user.")
    assert "Nobody can be asked here" in said.err and "May I do zone?" in said.err and said.clean
    assert not (home / "effects").exists()
    said = chat(home, "-z", "choose")
    assert said.code == 0 and "Choose yourself" in said.out and "Which colour?" in said.err


def test_a_failed_turn_is_one_line_and_exit_code_1(home: Path) -> None:
    for words in (("-q", "vanish"), ("-z", "vanish")):
        said = chat(home, *words)
        assert said.code == 1 and said.out == "" and said.err.count("\n") == 1
        assert said.err.startswith("hermes: ") and "There is no model." in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-q"], "expected one argument"),
        (["-q", ""], "Nothing was said"),
        (["-z"], "Nothing was said"),
        ([], "standard input is empty"),
        (["--frobnicate"], "unrecognized arguments"),
        (["-q", "x", "--resume", "a", "--continue"], "cannot be used together"),
        (["-q", "x", "--resume", ""], "--resume needs the id or the title"),
    ],
)
def test_wrong_use(home: Path, words: list[str], says: str) -> None:
    said = chat(home, *words)
    assert said.code == 2 and says in said.err and said.out == "" and said.clean


def test_sessions_go_on(home: Path) -> None:
    assert "There is no session “nosuch”" in chat(home, "-z", "x", "--resume", "nosuch").err
    assert "no conversation to continue" in chat(home, "-z", "x", "--continue").err
    chat(home, "-z", "first")
    chat(home, "-z", "second", "--continue")
    chat(home, "-z", "third")
    listed = hermes(home, "sessions", "list").out.splitlines()[1:]
    assert len(listed) == 2
    older = listed[1].split()[0]
    chat(home, "-z", "fourth", "--resume", older[:-2])
    shown = hermes(home, "sessions", "show", older).out
    assert all(word in shown for word in ("first", "second", "fourth")) and "third" not in shown


def test_the_options_of_chat_stand_without_it(home: Path) -> None:
    for words in (["-z", "hello"], ["chat", "-z", "hello"], ["-p", "default", "-z", "hello"]):
        said = hermes(home, *words, HERMES_NO_PROBE="1")
        assert said.code == 0 and "demo" in said.out and said.err == ""
    assert hermes(home, given="hello\n", HERMES_NO_PROBE="1").code == 0


def test_unknown_toolsets_are_told(home: Path) -> None:
    said = hermes(home, "-z", "list files", "--toolsets", "nosuch", HERMES_NO_PROBE="1")
    assert said.code == 1 and "nosuch" in said.err and said.clean


def test_an_unreachable_model_is_one_sentence(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(
        "model: {default: x, base_url: 'http://127.0.0.1:9/v1'}\nagent: {api_max_retries: 0}\n"
    )
    said = hermes(home, "-z", "hello", HERMES_NO_PROBE="1", OPENAI_API_KEY="k")
    assert said.code == 1 and said.out == "" and said.clean
    assert said.err.startswith("hermes: ") and said.err.count("\n") == 1 and "127.0.0.1" in said.err


def test_a_gateway_that_runs_is_attached_to(home: Path) -> None:
    with gateway(home, HERMES_NO_PROBE="1") as running:
        said = chat(home, "-q", "hello")
        assert said.code == 0 and "demo model" in said.out and said.err == ""
        said = chat(home, "-z", "hello")
        assert said.code == 0 and "demo model" in said.out and said.err == ""
        said = chat(home, "-z", "list files", "--toolsets", "clarify")
        assert said.code == 0 and "this agent does not have it" in said.out, said
        said = chat(home, "-z", "again", "--continue")
        assert said.code == 0
        said = chat(home, "-z", "x", "--resume", "nosuch")
        assert said.code == 1 and "There is no session “nosuch”" in said.err and said.clean
        assert running.stop() == 0
    assert len(hermes(home, "sessions", "list").out.splitlines()) == 4


def test_nobody_reads_the_answer_and_its_turn_is_stopped(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "hold").touch()  # else it might end by itself
    read, write = os.pipe()
    os.close(read)
    done = nursery.run(
        command(home, "-q", "count"), env=surroundings(home), stdin=subprocess.DEVNULL, stdout=write,
        stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""
    (found,) = json.loads(hermes(home, "sessions", "list", "--json").out)
    assert "stopped: interrupted" in hermes(home, "sessions", "show", found["id"]).out


def test_no_stdout_and_no_stdin(home: Path) -> None:
    for closed in (">&-", "<&-"):
        done = nursery.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *command(home, "-q", "hello")],
            env=surroundings(home), capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr and done.returncode in (0, 1), done


def test_ctrl_c_ends_a_one_shot_with_130(home: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "hold").touch()
    process = nursery.Popen(
        command(home, "-q", "count"), env=surroundings(home), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(3) == "1 2"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert "Stopped: interrupted." in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


def test_too_much_is_told(home: Path) -> None:
    said = chat(home, "-z", given=b"x" * 10_485_760)
    assert said.code == 1 and "10,485,760 characters" in said.err and said.clean


def test_an_open_pipe_is_told_of(home: Path) -> None:
    process = nursery.Popen(
        command(home, "-z", "hello"), env=surroundings(home), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "reading standard input" in process.stderr.readline()
    out, _ = process.communicate("more\n", timeout=PATIENCE)
    assert process.returncode == 0 and "more" in out


def test_a_model_that_cannot_be_used_is_refused(home: Path) -> None:
    """The demo model answers nobody who asked for another one by name."""
    said = hermes(home, "--model", "nope/none", "-q", "hi")
    assert said.code == 1 and said.out == "", said
    assert "No model answers: nope/none was asked for, but no key and no address is set" in said.err
    assert hermes(home, "--model", "demo", "-q", "hi").code == 0


def test_a_session_whose_folder_is_gone_says_so(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    assert hermes(home, "-q", "hi", before=["env", "-C", str(folder)]).code == 0
    folder.rmdir()
    said = hermes(home, "--continue", "-q", "list files")
    assert f"The folder {folder} is gone. Name a full path" in said.out, said


def test_a_terminal_of_another_character_set_gets_what_it_can_show(home: Path) -> None:
    """Not bytes of UTF-8, which it shows as other letters, and not a `?` for our own signs."""
    done = nursery.run(
        command(home, "-q", "grüß “dich” 日本"),
        env=surroundings(home, PYTHONIOENCODING="latin-1"),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.decode("latin-1") == 'You said: grüß "dich" ?? \n', done
    wrong = nursery.run(
        command(home, "-q", "x", "--resume", "nichts"),
        env=surroundings(home, PYTHONIOENCODING="latin-1"),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert '"nichts"' in wrong.stderr.decode("latin-1"), wrong


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """A folder that has something to say, as the agent has."""
    for file, words in ((home / "SOUL.md", "I am Ada."), (tmp_path / "p/AGENTS.md", "Tabs, never spaces.")):
        file.parent.mkdir()
        file.write_text(words)
    return tmp_path / "p"


async def test_rules_are_ignored_if_that_is_wanted(home: Path, project: Path) -> None:
    def ask(*words: str, **told: str) -> None:
        line = [sys.executable, "-P", "-m", "hermes", "-z", "hello", *words]
        nursery.run(line, env=environment(home, **told), cwd=project, timeout=PATIENCE, check=True)

    async with FakeModelServer() as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        await asyncio.to_thread(ask, **told)
        await asyncio.to_thread(ask, "--ignore-rules", **told)
        systems = [request.messages[0]["content"] for request in server.requests if request.wire.get("tools")]
    assert [("I am Ada." in system, "Tabs, never" in system) for system in systems] == [
        (True, True),
        (False, False),
    ]
