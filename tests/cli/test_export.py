"""Everything in open formats, while a gateway runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import gateway, hermes


def test_everything_is_written_in_open_formats(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    (home / "skills/knots").mkdir(parents=True)
    (home / "skills/knots/SKILL.md").write_text("---\nname: knots\ndescription: ties\n---\nTie.")
    (home / "config.yaml").write_text("model: demo\nbackup:\n  passphrase: in the config\n")
    (home / ".env").write_text("SLACK_BOT_TOKEN=xoxb-secret-of-mine\n")
    (home / "media/ab").mkdir(parents=True)
    (home / "media/ab/picture").write_bytes(b"\x89PNG")
    (home / "memories").mkdir()
    (home / "memories/MEMORY.md").write_text("The cat is called Tea.\n")
    with gateway(home, SLACK_ENABLED="false"):
        for words in (
            ["-q", "the milk is in the fridge"],
            ["cron", "create", "every 2h", "look", "--name", "Stove"],
        ):
            assert hermes(home, *words).code == 0
        said = hermes(home, "export", str(out), "--json")
        assert said.code == 0 and said.clean, said
    assert json.loads(said.out) == {"sessions": 1, "jobs": 1, "folder": str(out)}
    (session,) = json.loads((out / "sessions.json").read_text())
    lines = (out / f"sessions/main/{session['id']}.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["content"] == "the milk is in the fridge"
    assert json.loads((out / "jobs.json").read_text())[0]["name"] == "Stove"
    assert json.loads((out / "memory/main.json").read_text())[0]["text"] == "The cat is called Tea."
    assert json.loads((out / "people.json").read_text()) == []
    assert (out / "skills/knots/SKILL.md").exists() and (out / "media/ab/picture").read_bytes() == b"\x89PNG"
    everything = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert b"xoxb" not in everything and b"in the config" not in everything
    again = hermes(home, "export", str(out))
    assert again.code == 1 and "not empty" in again.err and again.clean


def test_agents_that_live_elsewhere_or_are_removed_are_not_forgotten(tmp_path: Path) -> None:
    home, out, ext = tmp_path / "home", tmp_path / "out", tmp_path / "ext"
    home.mkdir()
    (home / "config.yaml").write_text(f"model: demo\nagents:\n  ext: {{home_dir: {ext}}}\n  gone: {{}}\n")
    for place, text in ((ext, "The dog is called Coffee.\n"), (home / "agents/gone", "The bird is Juice.\n")):
        (place / "memories").mkdir(parents=True)
        (place / "memories/MEMORY.md").write_text(text)
    (ext / "SOUL.md").write_text("You are elsewhere.")
    with gateway(home):
        for words in (
            ["--agent", "ext", "-q", "hello"],
            ["--agent", "gone", "-q", "hello from the past"],
            ["agent", "remove", "gone", "-y"],
        ):
            said = hermes(home, *words)
            assert said.code == 0, said
        sessions = json.loads(hermes(home, "sessions", "list", "--json").out)
        (of_ext,) = [session["id"] for session in sessions if session["agent"] == "ext"]
        assert hermes(home, "sessions", "delete", of_ext, "-y").code == 0
        said = hermes(home, "export", str(out), "--json")
        assert said.code == 0 and said.clean and json.loads(said.out)["sessions"] == 1, said
    assert json.loads((out / "memory/ext.json").read_text())[0]["text"] == "The dog is called Coffee."
    assert json.loads((out / "memory/gone.json").read_text())[0]["text"] == "The bird is Juice."
    assert (out / "agents/ext/SOUL.md").read_text() == "You are elsewhere."
    (log,) = (out / "sessions/gone").iterdir()
    assert "hello from the past" in log.read_text()
