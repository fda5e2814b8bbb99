"""The weaknesses W1–W38 of the existing product (spec, section 27), each with the tests that show that ours
does better: named here, or written below. A test that is renamed or removed fails this file."""

from __future__ import annotations

import ast
import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from hermes.control.commands.registry import COMMANDS
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.platform import Accept
from hermes.domain.settings.settings import Route, RouteMatch
from hermes.domain.turns.job import JobState
from hermes.domain.word import replace
from hermes.state.settings.loader import load_settings
from hermes.testing.api import ApiWorld
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform import KINDS, PlainFake, fake_platform
from hermes.testing.world import World
from tests.acceptance.telling import comes, deeds, find_test, obeys
from tests.admin.test_status import told as status
from tests.journeys.test_busy import Held
from tests.journeys.test_cron import HOUR, make, pass_time
from tests.journeys.test_cron import journey as with_jobs
from tests.shape.tree import ROOT

SRC = ROOT / "src" / "hermes"
HERE = "tests.acceptance.test_weaknesses"
PROOFS: dict[str, tuple[str, ...]] = {
    "W1": (
        "tests.journeys.test_commands_more.test_forty_messages_behind_a_turn_are_all_answered_after_a_restart",
        "tests.acceptance.test_12_restart.test_a_stop_lets_an_answer_come_to_its_end",
        "tests.journeys.test_restarts.test_a_restart_from_a_chat",
    ),
    "W2": ("tests.crash.test_recovery.test_messages_sent_while_we_were_down_are_answered",),
    "W3": (
        f"{HERE}.test_w3_a_resumed_turn_holds_nobody_up",
        "tests.acceptance.test_04_approvals.test_stopped_at_each_write",
    ),
    "W4": (
        "tests.crash.test_kill_matrix.test_killed_there_nothing_is_lost_and_nothing_happens_twice",
        "tests.crash.test_random_kills.test_killed_at_random_under_load",
    ),
    "W5": (
        "tests.journeys.test_commands_more.test_forty_messages_behind_a_turn_are_all_answered_after_a_restart",
        "tests.journeys.test_busy.test_many_messages_at_once_are_all_answered_in_queue_mode",
        "tests.journeys.test_busy.test_steering_words_that_come_too_late_are_a_turn_of_their_own",
        "tests.journeys.test_commands.test_a_message_over_the_limit_is_refused_in_one_sentence",
    ),
    "W6": (
        "tests.acceptance.test_05_streaming.test_stopped_at_each_write",
        "tests.acceptance.test_06_files.test_stopped_at_each_write",
        "tests.acceptance.test_07_cron.test_stopped_at_each_write",
        "tests.acceptance.test_09_webhooks.test_stopped_at_each_write",
        "tests.crash.test_every_write.test_stopped_at_each_write",
    ),
    "W7": (
        "tests.acceptance.test_05_streaming.test_a_long_answer_in_parts_with_its_code_whole",
        "tests.stream.test_split_properties.test_promises",
    ),
    "W8": (f"{HERE}.test_w8_a_job_changes_nothing_for_chats", f"{HERE}.test_w8_w9_nobody_writes_variables"),
    "W9": (f"{HERE}.test_w8_w9_nobody_writes_variables", "tests.state.test_settings.test_agents_and_routes"),
    "W10": (f"{HERE}.test_w10_keys_are_made_in_one_place", f"{HERE}.test_w10_a_named_agent_is_as_quick"),
    "W11": (
        "tests.journeys.test_commands_more.test_the_model_is_chosen_for_one_session",
        "tests.journeys.test_commands_more.test_the_busy_mode_is_chosen_for_one_session_and_lasts",
        "tests.journeys.test_commands_more.test_yolo_asks_nothing_in_this_session_and_lasts",
    ),
    "W12": (
        "tests.journeys.test_commands.test_reading_a_line_as_a_command",
        f"{HERE}.test_w12_every_command_is_used_in_a_test",
    ),
    "W13": (
        "tests.journeys.test_pairing.test_people_are_the_gateways_whichever_agent_answers",
        "tests.acceptance.test_11_agents.test_jobs_of_each_agent_are_its_own_and_all_are_ticked",
        "tests.entry.test_host.test_it_backs_off_longer_each_time",
        "tests.entry.http.test_jobs.test_who_sees_what",
        "tests.entry.http.test_responses.test_who_may_see_a_response",
    ),
    "W14": (
        "tests.acceptance.test_06_files.test_each_file_as_what_it_is",
        "tests.journeys.test_attachments.test_a_path_alone_attaches_nothing",
        "tests.state.test_outgoing.test_nothing_else_leaves",
    ),
    "W15": (
        "tests.acceptance.test_10_handoff.test_stopped_at_each_write",
        "tests.journeys.test_handoff.test_trouble_is_tried_three_times_then_told_and_can_be_tried_again",
        "tests.journeys.test_handoff.test_one_that_was_cancelled_meanwhile_moves_nothing",
    ),
    "W16": (
        "tests.entry.http.test_runs.test_a_run_outlives_the_client_and_the_gateway",
        "tests.entry.http.test_runs.test_whoever_comes_back_gets_only_the_rest",
        "tests.entry.http.test_idempotency.test_a_repeat_is_the_same_answer_also_after_a_restart",
        "tests.crash.test_http_kills.test_killed_again_and_again",
    ),
    "W17": (
        "tests.entry.http.test_questions.test_an_answer_after_the_whole_conversation_continues_the_run",
        "tests.entry.http.test_responses.test_an_approval_that_is_given_elsewhere_goes_on_as_the_next_response",
        "tests.entry.http.test_sessions.test_a_chat_that_needs_an_approval_says_so",
    ),
    "W18": (
        "tests.entry.http.test_chat.test_a_conversation_of_its_own_keeps_only_what_is_said_now",
        "tests.entry.http.test_chat.test_a_session_of_another_key_or_agent_is_not_entered",
        "tests.entry.http.test_idempotency.test_the_same_key_for_something_else_is_an_error",
    ),
    "W19": (
        "tests.entry.http.test_chat.test_many_streams_on_a_slow_model_all_reach_it",
        "tests.entry.http.test_streams.test_many_watchers_and_some_asleep",
    ),
    "W20": ("tests.entry.http.test_server.test_a_page_of_a_known_origin_may_ask",),
    "W21": (
        "tests.entry.http.test_webhooks.test_the_same_delivery_to_two_routes_is_two_events",
        "tests.entry.http.test_webhooks.test_without_an_id_the_body_counts",
        "tests.entry.http.test_webhooks.test_an_array_a_form_and_a_bare_value_work",
        "tests.entry.http.test_webhooks.test_twenty_replays_after_a_restart_cause_no_turn",
        "tests.crash.test_webhook_kills.test_killed_between_acknowledgement_and_answer",
    ),
    "W22": (
        "tests.journeys.test_cron.test_intervals_do_not_drift",
        "tests.journeys.test_cron.test_a_one_shot_keeps_its_record",
        "tests.journeys.test_cron.test_two_tickers_and_no_slot_twice",
        "tests.control.test_schedule.test_a_calendar",
        "tests.crash.test_jobs.test_stopped_at_each_write",
    ),
    "W23": (
        "tests.journeys.test_places."
        "test_a_dead_target_is_reported_where_home_was_set_and_tried_again_by_the_next_message",
    ),
    "W24": (f"{HERE}.test_w24_a_message_writes_a_row_and_not_the_whole_index",),
    "W25": (
        "tests.stream.test_split_properties.test_promises",
        "tests.stream.test_split.test_a_fence_is_closed_and_reopened_with_its_language",
        "tests.acceptance.test_05_streaming.test_a_draft_with_its_cursor_and_its_pace",
    ),
    "W26": (
        "tests.control.test_hooks.test_telling_waits_for_nobody_and_forgets_what_is_too_much",
        "tests.journeys.test_hooks.test_a_gate_that_hangs_delays_only_what_it_gates",
        "tests.journeys.test_hooks.test_nobody_is_asked_about_who_may_not_speak",
        "tests.execution.test_hook_processes.test_the_loop_goes_on",
    ),
    "W27": (
        "tests.admin.test_gateway.test_one_at_a_time",
        "tests.admin.test_gateway.test_the_lock_ends_with_its_process",
        "tests.admin.test_gateway.test_the_state_file_has_the_newest_state",
        "tests.entry.test_host.test_a_lost_lease_takes_the_adapter_down",
        "tests.cli.test_token_locks.test_two_gateways_on_one_token",
    ),
    "W28": (
        "tests.cli.test_pairing.test_the_same_through_a_gateway_that_runs",
        "tests.crash.test_pairing_writes.test_stopped_at_each_write",
    ),
    "W29": (
        "tests.acceptance.test_04_approvals.test_silence_denies_and_a_late_click_after_a_crash_is_told_so",
        "tests.crash.test_recovery.test_a_hundred_parked_questions_survive_a_kill",
        "tests.journeys.test_confirmations.test_undo_waits_for_a_yes_also_over_a_crash",
    ),
    "W30": (
        "tests.crash.test_every_write.test_stopped_at_each_write",
        "tests.journeys.test_commands_more.test_a_background_task_is_stopped_by_its_name",
    ),
    "W31": (
        "tests.entry.http.test_control.test_the_socket_is_the_owners",
        "tests.cli.test_running.test_the_same_with_and_without_a_gateway",
    ),
    "W32": (f"{HERE}.test_w32_a_platform_that_hangs_holds_no_other_up",),
    "W33": (
        "tests.cli.test_stopping.test_a_stop_in_the_middle_of_a_turn_loses_nothing",
        "tests.acceptance.test_12_restart.test_a_stop_lets_an_answer_come_to_its_end",
    ),
    "W34": (
        "tests.shape.test_sizes.test_nothing_is_too_large",
        "tests.shape.test_broad_except.test_everything_is_caught_only_where_it_may_be",
    ),
    "W35": (
        "tests.shape.test_names.test_every_platform_has_the_same_files",
        "tests.admin.test_plugins.test_platforms_are_listed_without_their_sdk",
        "tests.control.test_access.test_each_row_is_decided_as_it_says",
    ),
    "W36": (f"{HERE}.test_w36_one_default_shown_in_status",),
    "W37": (
        "tests.entry.terminal.test_attached.test_a_conversation_with_a_gateway_that_runs",
        "tests.admin.test_gateway.test_one_at_a_time",
        "tests.cli.test_bad_homes.test_a_second_gateway",
    ),
    "W38": (
        "tests.journeys.test_commands.test_a_stranger_cannot_resume_somebody_elses_session",
        "tests.journeys.test_commands_more.test_only_admins_see_everybodys_sessions",
        f"{HERE}.test_w38_no_word_gets_around_the_check_of_resume",
    ),
}


def test_every_weakness_is_here() -> None:
    assert list(PROOFS) == [f"W{number}" for number in range(1, 39)]


@pytest.mark.parametrize("weakness", PROOFS)
def test_its_proofs_are_there(weakness: str) -> None:
    for path in PROOFS[weakness]:
        find_test(path)


# --- those that had no test elsewhere ---


async def test_w3_a_resumed_turn_holds_nobody_up(tmp_path: Path) -> None:
    chat = Journey(folder=tmp_path, script=Held("first"))
    async with chat:
        chat.world.write("first")
        await chat.until_seen("a long answer")
        await chat.abandon()
    async with replace(chat) as chat:
        await chat.until(lambda: bool(chat.model.requests))
        chat.world.write("hello", chat="2", user="u2")
        await chat.until_seen("You said: hello", chat="2")
        chat.world.write("/status")
        await chat.until_seen(": running, ")
        chat.world.write("/stop")
        await chat.until_seen("topped")
        await chat.until_idle()
        assert not any("▉" in text for text in chat.world.seen())


async def test_w8_a_job_changes_nothing_for_chats(tmp_path: Path) -> None:
    before, clock = dict(os.environ), FakeClock()
    async with with_jobs(tmp_path, clock, script=obeys) as chat:
        await make(chat, "30m", "do nothing")
        await pass_time(chat, clock, HOUR)
        assert (await chat.gateway.jobs(MAIN_AGENT).all())[0].state is JobState.COMPLETED
        assert deeds(chat.world) == []
        chat.world.write("do x")
        await chat.until_seen("May I do x?")
        chat.world.write("yes")
        await chat.until_seen("answer to do x")
        assert deeds(chat.world) == ["x"]
    assert dict(os.environ) == before


def test_w8_w9_nobody_writes_variables() -> None:
    texts = {
        path: path.read_text(encoding="utf-8") for path in SRC.rglob("*.py") if "testing" not in path.parts
    }
    found = [
        f"{path.relative_to(SRC)}:{line}"
        for path, text in texts.items()
        if "os.environ" in text or "env(" in text
        for line in _environment_writes(ast.parse(text))
    ]
    # Keys leave the environment at the start, before anybody else could read it.
    assert {line.partition(":")[0] for line in found} == {"admin/process/hiding.py"}
    planted = ast.parse("import os\nos.environ['X'] = '1'\nos.environ.update(a='b')\nos.putenv('a', 'b')")
    assert len(list(_environment_writes(planted))) == 3


def _environment_writes(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if ast.unparse(node.value) == "os.environ":
                yield node.lineno
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            writes = ("update", "setdefault", "pop", "clear")
            if called in ("os.putenv", "os.unsetenv", *(f"os.environ.{name}" for name in writes)):
                yield node.lineno


def test_w10_keys_are_made_in_one_place() -> None:
    """One function makes them; the store reads them back by their declaration."""
    makers = [
        str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        if "testing" not in path.parts
        and re.search(r"(?<!class )SessionKey\(", path.read_text(encoding="utf-8"))
    ]
    assert makers == ["domain/turns/session.py"]


async def test_w10_a_named_agent_is_as_quick(tmp_path: Path) -> None:
    """A yes, an interruption and /undo find the session of an agent that is not the default."""
    routes = (Route(match=RouteMatch(platform="fake", chat_id="dev"), agent=AgentId("coder")),)
    settings = open_settings(routes=routes)
    async with Journey(folder=tmp_path, script=obeys, settings=settings, agents=("main", "coder")) as chat:
        chat.world.write("do x", chat="dev")
        await chat.until_seen("May I do x?", chat="dev")
        chat.world.write("yes", chat="dev")
        await chat.until_seen("answer to do x", chat="dev")
        chat.world.write("do y", chat="dev")
        await chat.until_seen("May I do y?", chat="dev")
        chat.world.write("never mind", chat="dev")
        await chat.until_seen("answer to never mind", chat="dev")
        await chat.until_idle()
        chat.world.write("/undo", chat="dev")
        await chat.until_seen("Undone: the last turn.", chat="dev")
        assert deeds(chat.world) == ["x"]


def test_w12_every_command_is_used_in_a_test() -> None:
    told = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    unused = [
        one.name
        for one in COMMANDS.values()
        if not any(f"/{word}{end}" in told for word in (one.name, *one.aliases) for end in ('"', " ", "\\n"))
    ]
    assert unused == []


async def test_w24_a_message_writes_a_row_and_not_the_whole_index(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        for number in range(30):
            chat.world.write("hi", chat=f"c{number}", user=f"u{number}")
        await chat.until(lambda: len(chat.world.seen()) == 30)
        await chat.until_idle()
        await asyncio.to_thread(_watch_rows, tmp_path)
        chat.world.write("once more", chat="c7", user="u7")
        await chat.until_seen("You said: once more")
        await chat.until_idle()
    changed = await asyncio.to_thread(_changed_rows, tmp_path)
    assert set(changed) <= {"sessions", "bindings"} and all(count <= 4 for count in changed.values()), changed


def _watch_rows(folder: Path) -> None:
    with apsw.Connection(str(folder / "state.db")) as db:
        db.execute("CREATE TABLE changed (name TEXT)")
        for table in ("sessions", "bindings"):
            for deed in ("INSERT", "UPDATE", "DELETE"):
                db.execute(
                    f"CREATE TRIGGER {table}_{deed} AFTER {deed} ON {table}"
                    f" BEGIN INSERT INTO changed VALUES ('{table}'); END"
                )


def _changed_rows(folder: Path) -> dict[str, int]:
    with apsw.Connection(str(folder / "state.db")) as db:
        return dict(db.execute("SELECT name, count(*) FROM changed GROUP BY name").fetchall())


class Hanging(PlainFake):
    """A platform whose connection never comes about."""

    async def run(self, accept: Accept, cursor: str | None) -> None:
        await asyncio.Event().wait()


class Broken(PlainFake):
    async def run(self, accept: Accept, cursor: str | None) -> None:
        raise Unreachable("no route to it")


async def test_w32_a_platform_that_hangs_holds_no_other_up(tmp_path: Path) -> None:
    world = World()
    accounts = {
        "asleep": Hanging(World(), KINDS["plain"], "asleep"),
        "broken": Broken(World(), KINDS["plain"], "broken"),
        "fake": fake_platform("plain", world),
    }
    config = "platforms: {fake: {allow_all_users: true}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config, accounts=accounts):
        world.write("hello")

        async def answered() -> bool:
            return bool(world.seen())

        await comes(answered)
        assert world.seen() == ["You said: hello"]


def test_w36_one_default_shown_in_status(tmp_path: Path) -> None:
    """A config without the block, with an empty one and with no file at all mean the same."""
    modes = set()
    for number, text in enumerate([None, "{}\n", "approvals: {}\n", "approvals: {timeout: 60}\n"]):
        home = tmp_path / str(number)
        home.mkdir()
        if text is not None:
            (home / "config.yaml").write_text(text)
        modes.add(load_settings(home, {}).settings.approvals.mode)
        assert "a person must approve dangerous actions" in status(home)
    assert modes == {"manual"}
    (home / "config.yaml").write_text("approvals: {mode: off}\n")
    assert "nobody is asked before what is dangerous" in status(home)


@pytest.mark.parametrize("words", ["Secret", "Secret --all", "Secret --cross-room", "--cross-room Secret"])
async def test_w38_no_word_gets_around_the_check_of_resume(tmp_path: Path, words: str) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/title Secret", chat="a", user="ann", kind="group")
        await chat.until_seen("now called “Secret”")
        chat.world.write(f"/resume {words}", chat="b", user="eve", kind="group")
        await chat.until(lambda: bool(chat.world.seen("b")))
        assert not any("Back in" in text for text in chat.world.seen("b"))
        ann = Source(address=Address(platform="fake", chat="a"), kind=SourceKind.GROUP, user="ann")
        bound = await chat.database.read(lambda tx: [tx.bindings.of(one.id) for one in tx.sessions.find("")])
        places = [source.user for one in bound for _, source in one if source.address == ann.address]
        assert places == ["ann"]
