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
