"""`hermes agent`, `hermes route`, `hermes config rollback`: on a home that rests, and with a gateway."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from subprocess import DEVNULL

import pytest

from hermes.admin.commands import agent
from hermes.admin.shell.command import CliCommand
from hermes.cli import main
from hermes.domain.errors import UserError
from hermes.execution.sandboxes.kept import kept_file, read_kept
from hermes.state.settings.whole_changes import ConfigChange
from tests import nursery
from tests.cli.command import PATIENCE, Said, environment, gateway, hermes
from tests.cli.test_chat import chat
from tests.cli.test_config_apply import agents_of

CONFIG = """\
# mine
model: demo  # the demo
agents:
  work: {description: the office}   # for money
routes:
  - match: {platform: telegram, chat_id: "-100"}
    agent: work
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def config(home: Path) -> str:
    return (home / "config.yaml").read_text()


def listed(home: Path, *words: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(hermes(home, *words, "--json").out)
    return rows


def refused(said: Said, words: str) -> None:
    assert said.code == 1 and said.clean and words in said.err, said


def test_agents_are_added_listed_and_shown(home: Path) -> None:
    planned = hermes(home, "agent", "add", "play", "--model", "m", "--dry-run")
    assert planned.code == 0 and "+  play:" in planned.out and config(home) == CONFIG
    added = hermes(home, "agent", "add", "play", "--model", "m", "--description", "games")
    assert added.code == 0 and "The agent play is there." in added.out
    assert "# mine" in config(home) and "# for money" in config(home), "remarks stay"
    rows = listed(home, "agent", "list")
    assert [(row["id"], row["description"]) for row in rows] == [
        ("main", ""),
        ("work", "the office"),
        ("play", "games"),
    ]
    assert rows[1]["routes"] == [1] and rows[0]["default"] is True
    shown = hermes(home, "agent", "show", "play")
    assert shown.code == 0 and str(home / "agents" / "play") in shown.out and "m (" in shown.out


def test_an_agent_gets_no_reserved_name_and_no_model_of_nobody(home: Path) -> None:
    refused(hermes(home, "agent", "add", "default"), "not a reserved name (default,")
    refused(hermes(home, "agent", "add", "play", "--model", "nosuch:zzz"), "There is no provider “nosuch”")
    assert config(home) == CONFIG and not (home / "agents").exists()


def test_an_agent_made_like_another_has_its_keys_but_no_bot_token(home: Path) -> None:
    folder = home / "agents" / "work"
    (folder / "skills" / "plan").mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are calm.")
    (folder / "skills" / "plan" / "loop").symlink_to(folder)
    (folder / ".env").write_text("OPENAI_API_KEY=sk-1234567890\nTELEGRAM_BOT_TOKEN=1:a\nSUDO_PASSWORD=x\n")
    assert hermes(home, "agent", "add", "twin", "--from", "work").code == 0
    twin = home / "agents" / "twin"
    assert (twin / "SOUL.md").read_text() == "You are calm."
    assert (twin / ".env").read_text() == "OPENAI_API_KEY=sk-1234567890\n"
    assert (twin / "skills" / "plan" / "loop").is_symlink(), "a circle is not followed"
    assert {row["id"]: row["description"] for row in listed(home, "agent", "list")}["twin"] == "the office"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "work"), "There is an agent “work” already."),
        (("add", "main"), "An agent cannot be called “main”."),
        (("add", "Über"), "An agent cannot be called “Über”."),
        (("add", "root"), "An agent cannot be called “root”."),
        (("add", "x", "--from", "x"), "An agent cannot be made like itself."),
        (("add", "x", "--from", "wrok"), "Did you mean “work”?"),
        (("show", "wrok"), "Did you mean “work”?"),
        (("remove", "main", "--yes"), "The agent main is the gateway's own"),
        (("rename", "main", "x"), "The agent main is the gateway's own"),
        (("rename", "work", "main"), "An agent cannot be called “main”."),
    ],
)
def test_what_cannot_be_is_told_and_changes_nothing(home: Path, words: tuple[str, ...], told: str) -> None:
    refused(hermes(home, "agent", *words), told)
    assert config(home) == CONFIG


def test_a_running_gateway_adopts_agents_and_routes(home: Path) -> None:
    with gateway(home) as running:
        added = hermes(home, "agent", "add", "play")
        assert "The running gateway has adopted it." in added.out, added
        assert agents_of(home) == ["main", "play", "work"]
        routed = hermes(home, "route", "add", "play", "--platform", "telegram", "--user-id", "5", "--at", "1")
        assert routed.code == 0, routed
        assert [row["agent"] for row in listed(home, "route", "list")] == ["play", "work"]
        told = hermes(home, "route", "explain", "telegram:-100", "user=5")
        assert told.out.startswith("telegram:-100 → play\n") and "route 1" in told.out
        refused(hermes(home, "route", "add", "play", "--toolsets", "termnal", "--platform", "irc"), "termnal")
        assert "termnal" not in config(home), "what the gateway refused is taken back"
        removed = hermes(home, "agent", "remove", "play", "--yes")
        assert removed.code == 0 and "Its routes go with it (1)" in removed.err, removed
        assert agents_of(home) == ["main", "work"]
        assert [row["agent"] for row in listed(home, "route", "list")] == ["work"]
        back = hermes(home, "config", "rollback")
        assert back.code == 0 and agents_of(home) == ["main", "play", "work"], back
        assert "Traceback" not in running.err


def test_an_agent_made_like_another_has_its_keys_when_the_gateway_adopts_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "agents" / "work").mkdir(parents=True)
    (home / "agents" / "work" / ".env").write_text("OPENAI_API_KEY=sk-1234567890\n")
    seen: list[str] = []

    def adopt(command: CliCommand, change: ConfigChange) -> bool:
        seen.append((home / "agents" / "twin" / ".env").read_text())
        if len(seen) == 1:
            raise UserError("The gateway refused it.")
        return True

    monkeypatch.setattr(agent, "apply_change", adopt)
    monkeypatch.setenv("HERMES_HOME", str(home))
    words = ["agent", "add", "twin", "--from", "work"]
    assert main(words) == 1 and not (home / "agents" / "twin").exists()
    assert main(words) == 0 and (home / "agents" / "twin" / ".env").exists()
    assert seen == ["OPENAI_API_KEY=sk-1234567890\n"] * 2


def test_webhooks_of_an_agent_that_goes_are_named(home: Path) -> None:
    hooked = hermes(home, "webhook", "subscribe", "orders", "--agent", "work", "--prompt", "look")
    assert hooked.code == 0, hooked
    assert "The webhook orders is for work" in hermes(home, "agent", "remove", "work", "--yes").err


def test_what_names_an_agent_otherwise_keeps_it(home: Path) -> None:
    (home / "config.yaml").write_text(CONFIG + "default_agent: work\n")
    refused(hermes(home, "agent", "remove", "work", "--yes"), "default_agent names the agent “work”")
    assert config(home) == CONFIG + "default_agent: work\n"


def test_an_agent_keeps_its_conversations_when_it_is_renamed(home: Path) -> None:
    assert chat(home, "--agent", "work", "-z", "hello").code == 0
    hermes(home, "cron", "create", "every 1h", "say hi", "--agent", "work", "--deliver", "local")
    hermes(home, "gateway", "stop")
    renamed = hermes(home, "agent", "rename", "work", "job")
    assert renamed.code == 0 and "is called job now" in renamed.out, renamed
    assert {row["agent"] for row in listed(home, "sessions", "list")} == {"job"}
    assert [row["agent"] for row in listed(home, "cron", "list")] == ["job"]
    assert [row["agent"] for row in listed(home, "route", "list")] == ["job"]
    again = chat(home, "--agent", "job", "-c", "-z", "and now?")
    assert again.code == 0 and "and now?" in again.out
    assert len(listed(home, "sessions", "list")) == 1, "the conversation did not go on"
    refused(hermes(home, "agent", "rename", "work", "job"), "There is no agent “work”.")
    refused(hermes(home, "agent", "remove", "--purge", "work", "--yes"), "The agent job lives in")
    assert (home / "agents" / "work").is_dir(), "a live agent lost its folder"
    assert len(listed(home, "sessions", "list")) == 1


def test_an_agent_is_renamed_wherever_it_is_named(home: Path) -> None:
    keys = "platforms: {api_server: {keys: {desk: {key: another long secret 1, agents: 'main, work'}}}}\n"
    (home / "config.yaml").write_text(CONFIG + keys)
    hermes(home, "cron", "create", "every 1h", "say hi", "--agent", "work", "--deliver", "local")
    refused(hermes(home, "agent", "remove", "work", "--yes"), "or take it out here")
    renamed = hermes(home, "agent", "rename", "work", "job")
    assert renamed.code == 0 and "main, job" in config(home), renamed
    (home / "config.yaml").write_text(CONFIG.replace("work", "other"))
    assert "never: the agent job is gone" in hermes(home, "cron", "list").out


def test_a_name_that_is_nobodys_takes_no_rows_along(home: Path) -> None:
    """No rename of it ever began."""
    chat(home, "--agent", "work", "-z", "hello")
    hermes(home, "agent", "add", "play")
    assert hermes(home, "agent", "remove", "work", "--yes").code == 0
    refused(hermes(home, "agent", "rename", "work", "play"), "There is no agent “work”.")
    assert {row["agent"] for row in listed(home, "sessions", "list")} == {"work"}


def test_a_removed_agent_keeps_its_data_until_they_are_purged(home: Path) -> None:
    chat(home, "--agent", "work", "-z", "hello")
    assert hermes(home, "agent", "remove", "work", "--yes").code == 0
    assert len(listed(home, "sessions", "list")) == 1 and (home / "agents" / "work").is_dir()
    assert hermes(home, "agent", "remove", "--purge", "work", "--yes").code == 0
    assert listed(home, "sessions", "list") == [] and not (home / "agents" / "work").exists()
    refused(hermes(home, "agent", "remove", "work", "--yes"), "There is no agent “work”.")


def test_a_purge_of_an_agent_at_work_changes_nothing(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, gateway(home):
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        slow = CONFIG.replace("{description: the office}", "{model: custom:slow:m}")
        (home / "config.yaml").write_text(f"{slow}providers: {{slow: {{base_url: {url}}}}}\n")
        assert hermes(home, "config", "apply").code == 0
        words = [sys.executable, "-P", "-m", "hermes", "--agent", "work", "-z", "hello"]
        process = nursery.Popen(
            words, env=environment(home), cwd="/", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        silent.settimeout(PATIENCE)
        with silent.accept()[0]:
            before = config(home)
            refused(
                hermes(home, "agent", "remove", "--purge", "work", "--yes"), "The agent work is at work now"
            )
            assert config(home) == before
        process.kill()
        process.wait(PATIENCE)


@pytest.mark.parametrize("place", ["renamed", "elsewhere", "linked"])
def test_what_an_agent_left_behind_goes_wherever_its_folder_is(
    home: Path, tmp_path: Path, place: str
) -> None:
    """And nobody who is called like it later has its conversations, memory and jobs."""
    folder = tmp_path / "far" if place == "elsewhere" else home / "agents" / "work"
    if place == "elsewhere":
        (home / "config.yaml").write_text(CONFIG.replace("description: the office", f"home_dir: {folder}"))
    chat(home, "--agent", "work", "-z", "hello")
    hermes(home, "gateway", "stop")
    gone = "job" if place == "renamed" else "work"
    if place == "renamed":
        assert hermes(home, "agent", "rename", "work", "job").code == 0
    if place == "linked":
        folder.rename(tmp_path / "real")
        folder.symlink_to(tmp_path / "real")
    assert hermes(home, "agent", "remove", gone, "--yes").code == 0
    if place != "linked":
        refused(hermes(home, "agent", "add", gone), f"An earlier agent {gone} left something behind.")
    purged = hermes(home, "agent", "remove", "--purge", gone, "--yes")
    assert purged.code == 0 and f"The conversations of {gone} are deleted." in purged.out, purged
    assert listed(home, "sessions", "list") == [] and folder.is_dir(), "somebody's folder went unasked"
    if place != "linked":
        assert hermes(home, "agent", "add", gone).code == 0


def test_a_purge_names_what_it_deletes_and_what_stays(home: Path, tmp_path: Path) -> None:
    """A `home_dir` elsewhere may hold more than the agent, and services keep their sandboxes."""
    folder = tmp_path / "mine"
    (folder / "thesis").mkdir(parents=True)
    kept = kept_file(folder, "daytona", "4711")
    sandbox = read_kept(kept).name
    (home / "config.yaml").write_text(CONFIG.replace("description: the office", f"home_dir: {folder}"))
    told = (
        f"{folder} lies outside the home and stays",
        f"stays at daytona, with its files; delete it there: {sandbox}",
    )
    for way in ("--dry-run", "--yes"):
        removed = hermes(home, "agent", "remove", "work", "--purge", way)
        assert removed.code == 0 and all(words in removed.err for words in told), removed
    assert "The conversations of work are deleted." in removed.out and (folder / "thesis").is_dir()
    assert not (tmp_path / ".removed").exists()
    hermes(home, "agent", "add", "play")
    removed = hermes(home, "agent", "remove", "play", "--purge", "--dry-run")
    assert f"This deletes {home / 'agents' / 'play'} with all that is in it." in removed.err


def test_routes_that_never_count_are_told(home: Path) -> None:
    added = hermes(home, "route", "add", "main", "--platform", "telegram", "--chat-id=-100", "--user-id", "5")
    assert added.code == 0 and "Route 2 never counts: route 1 takes everything that it would." in added.err
    assert "never counts" in hermes(home, "route", "list").err
    refused(hermes(home, "route", "add", "work"), "A route without a match would take everything.")
    refused(hermes(home, "route", "add", "wrok", "--platform", "irc"), "Did you mean “work”?")
    refused(hermes(home, "route", "remove", "3"), "There is no route 3.")
    assert hermes(home, "route", "remove", "2").code == 0
    assert len(listed(home, "route", "list")) == 1


def test_a_number_never_means_another_route_than_the_list_shows(home: Path) -> None:
    wrong = CONFIG.replace("routes:\n", "routes:\n  - {match: {platform: telegran}, agent: work}\n")
    (home / "config.yaml").write_text(wrong)
    assert [row["number"] for row in listed(home, "route", "list")] == [1]
    refused(hermes(home, "route", "remove", "1"), "A route in config.yaml is wrong")
    refused(hermes(home, "route", "add", "work", "--platform", "irc", "--at", "1"), "A route in config.yaml")
    assert config(home) == wrong


def test_an_explanation_names_what_does_not_fit(home: Path) -> None:
    told = json.loads(hermes(home, "route", "explain", "telegram:7", "user=5", "--json").out)
    assert told["agent"] == "main"
    assert [(step["rule"], step["decides"]) for step in told["steps"]] == [
        ("route 1", False),
        ("select_agent hooks", False),
        ("default_agent", True),
    ]
    assert told["steps"][0]["reason"] == "chat_id is “7”, not “-100”"


def test_config_goes_back_and_forth(home: Path) -> None:
    refused(hermes(home, "config", "rollback"), "There is nothing to go back to.")
    hermes(home, "config", "set", "agent.max_turns", "7")
    changed = config(home)
    assert "+++ config.yaml (new)" in hermes(home, "config", "rollback", "--dry-run").out
    assert config(home) == changed
    assert hermes(home, "config", "rollback").code == 0 and config(home) == CONFIG
    assert hermes(home, "config", "rollback").code == 0 and config(home) == changed
    assert len(listed(home, "config", "rollback", "--list")) == 1
    refused(hermes(home, "config", "rollback", "9"), "There is nothing to go back to. There are 1."[:31])


def test_no_rollback_takes_an_agent_away_from_its_conversations(home: Path) -> None:
    chat(home, "--agent", "work", "-z", "hello")
    hermes(home, "gateway", "stop")
    assert hermes(home, "agent", "rename", "work", "job").code == 0
    renamed = config(home)
    undone = hermes(home, "config", "rollback")
    refused(undone, "There the agent job is called work, and its conversations would not go along.")
    assert "hermes agent rename job work" in undone.err and config(home) == renamed
    assert hermes(home, "agent", "rename", "job", "work").code == 0
    assert hermes(home, "config", "rollback", "2").code == 0 and config(home) == CONFIG
    assert [row["agent"] for row in listed(home, "sessions", "list")] == ["work"]


def test_an_agent_whose_home_is_nowhere_is_taken_back_and_stops_no_other(home: Path) -> None:
    assert hermes(home, "agent", "add", "fly").code == 0
    good = config(home)
    wrong = good.replace("fly: {}", "fly: {}\n  lost: {home_dir: ~nobody-of-that-name/x}")
    (home / "config.yaml").write_text(wrong)
    assert hermes(home, "config", "rollback").code == 0 and "lost" not in config(home)
    (home / "config.yaml").write_text(wrong)
    chat(home, "--agent", "fly", "-z", "hello")
    refused(hermes(home, "--agent", "lost", "-z", "hello"), told := "names a user that does not exist")
    assert told in hermes(home, "config", "check").out
    assert "lost" in hermes(home, "agent", "list").out
    assert hermes(home, "agent", "remove", "lost", "-y").code == 0 and "lost" not in config(home)


def test_a_wrong_edit_is_taken_back_to_what_the_gateway_works_with(home: Path) -> None:
    """Also where no command ever changed the file."""
    with gateway(home):
        for _ in range(2):
            good = config(home)
            (home / "config.yaml").write_text(good + "zzz: [1\n")
            assert hermes(home, "config", "apply").code == 1
            assert hermes(home, "config", "rollback").code == 0 and config(home) == good
            hermes(home, "route", "add", "work", "--platform", "telegram", "--chat-id", "5")


def test_a_gateway_keeps_what_was_edited_by_hand(home: Path) -> None:
    with gateway(home):
        (home / "config.yaml").write_text("agents: {fly: {}}\n")
        assert hermes(home, "config", "apply").code == 0 and agents_of(home) == ["fly", "main"]
        assert hermes(home, "config", "rollback").code == 0
        assert config(home) == CONFIG and agents_of(home) == ["main", "work"]


def test_a_rename_that_was_cut_off_is_finished_by_the_same_command(home: Path) -> None:
    """The settings were written, the rows were not."""
    chat(home, "--agent", "work", "-z", "hello")
    hermes(home, "gateway", "stop")
    cut_off = config(home).replace("  work: {", "  job: {home_dir: agents/work, ").replace(": work", ": job")
    (home / "config.yaml").write_text(cut_off)
    (home / "agents" / ".renaming").write_text(json.dumps(["work", "job", "agents/work"]))
    assert {row["agent"] for row in listed(home, "sessions", "list")} == {"work"}
    refused(hermes(home, "agent", "rename", "job", "other"), "The agent work is half renamed.")
    refused(hermes(home, "agent", "rename", "wrok", "job"), "The agent work is half renamed.")
    assert hermes(home, "agent", "rename", "work", "job").code == 0
    assert not (home / "agents" / ".renaming").exists()
    assert {row["agent"] for row in listed(home, "sessions", "list")} == {"job"}
    assert config(home) == cut_off


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("disabled_toolsets: [termnal]", "There is no toolset “termnal”. Did you mean terminal?"),
        ("provider: opnai", "the provider “opnai” is not known. Did you mean openai?"),
    ],
)
def test_an_agent_that_cannot_be_built_is_told_with_its_line_and_to_who_asks_for_it(
    home: Path, entry: str, told: str
) -> None:
    (home / "config.yaml").write_text(
        f"model: demo\nmcp_servers: {{shop: {{command: echo}}}}\nagents:\n  play: {{toolsets: [shop, web]}}\n"
        f"  work:\n    {entry}\n"
    )
    checked = hermes(home, "config", "check")
    assert checked.code == 1 and checked.err == "" and checked.out.count("\n") == 1, checked
    assert f"{home / 'config.yaml'}:6: agents.work." in checked.out and told in checked.out
    asked = hermes(home, "--agent", "work", "-z", "hello")
    assert asked.code == 1 and asked.clean and told in asked.err, asked


def test_what_an_agent_knows_is_seen_also_if_it_cannot_be_built(home: Path, tmp_path: Path) -> None:
    assert hermes(home, "memory", "list", "--agent", "work").code == 0
    (home / "config.yaml").write_text("model: demo\nagents: {work: {disabled_toolsets: [termnal]}}\n")
    with gateway(home):
        refused(hermes(home, "--agent", "work", "-z", "hello"), "cannot be used")
        assert hermes(home, "memory", "list", "--agent", "work").code == 0
        assert hermes(home, "export", str(tmp_path / "out")).code == 0


def test_checks_name_what_keeps_an_agent_out_and_what_keeps_none_apart(home: Path) -> None:
    (home / "agents" / "work").mkdir(parents=True)
    (home / "agents" / "work" / ".env").write_text("TELEGRAM_BOT_TOKEN=1:abc\n")
    token = "work/.env:1: TELEGRAM_BOT_TOKEN does not belong to an agent."
    checked = hermes(home, "config", "check")
    assert checked.code == 1 and token in checked.out
    doctor = hermes(home, "doctor", "--offline")
    assert "TELEGRAM_BOT_TOKEN does not belong to an agent" in doctor.out
    assert "who owns the folders of all agents" in " ".join(doctor.out.split())
    assert "who owns the folders of all agents" in " ".join(hermes(home, "status").out.split())


def test_no_agent_lives_among_the_files_of_the_system(home: Path) -> None:
    (home / "config.yaml").write_text("agents:\n  bee:\n    home_dir: /etc/bee\n")
    checked = hermes(home, "config", "check")
    assert checked.code == 1
    assert "config.yaml:3: The home_dir of the agent bee is /etc/bee, among the files" in checked.out
