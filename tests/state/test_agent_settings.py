"""What `agents` and `routes` may say, how it counts for one agent, and what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import Settings
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import fallback_models, model_of

BEE, ANT = AgentId("bee"), AgentId("ant")
WHOLE = """\
timezone: Europe/Vienna
approvals: {deny: [shutdown*], timeout: 60}
budgets: {all: {per: day, calls: 9}}
agents:
  bee:
    description: looks after the garden
    model: honey
    toolsets: [file, todo]
    backend: bubblewrap
    approvals: {mode: smart, deny: [rm*], ask: [mv*], timeout: 5, cron_mode: approve}
    budget: {per: month, dollars: 2}
    timezone: Asia/Tokyo
    mode: primary
    session_workspaces: true
  ant: {mode: subagent}
routes:
  - match: {platform: discord, account: main, kind: group, chat_id: c, thread_id: t, user_id: u,
            user_id_alt: a, guild_id: g, parent_chat_id: p, role: staff}
    agent: bee
    backend: bubblewrap
    toolsets: [file]
"""


def load(home: Path, text: str, **agents: str) -> LoadedSettings:
    (home / "config.yaml").write_text(text)
    for name, secrets in agents.items():
        (home / "agents" / name).mkdir(parents=True)
        (home / "agents" / name / ".env").write_text(secrets)
    return load_settings(home, {})


def test_everything_an_agent_and_a_route_may_say(tmp_path: Path) -> None:
    loaded = load(tmp_path, WHOLE)
    assert not loaded.problems and not loaded.stops
    settings = loaded.settings
    bee = settings.agents["bee"]
    assert bee.enabled_toolsets == ("file", "todo") and bee.session_workspaces and bee.mode == "primary"
    assert settings.routes[0].match.role == "staff" and settings.routes[0].toolsets == ("file",)
    own = settings.of(BEE)
    assert own.terminal.backend == "bubblewrap" and own.timezone == "Asia/Tokyo"
    assert own.approvals.mode == "smart" and own.approvals.deny == ("shutdown*", "rm*")
    assert own.approvals.ask == ("mv*",) and own.approvals.timeout == 5
    assert own.approvals.cron_mode == "approve"
    assert {name: (each.agent, each.per) for name, each in own.budgets.items()} == {
        "all": ("", "day"),
        "agents.bee": ("bee", "month"),
    }


def test_what_one_agent_says_counts_for_no_other(tmp_path: Path) -> None:
    settings = load(tmp_path, WHOLE).settings
    assert settings.of(MAIN_AGENT) is settings
    ant = settings.of(ANT)
    assert (ant.terminal, ant.approvals, ant.timezone, ant.budgets) == (
        settings.terminal,
        settings.approvals,
        settings.timezone,
        settings.budgets,
    )
    assert settings.speaks(BEE) and not settings.speaks(ANT) and settings.speaks(MAIN_AGENT)


def test_live_settings_give_each_agent_its_own_and_forget_old_ones(tmp_path: Path) -> None:
    live = LiveSettings(load(tmp_path, WHOLE).settings)
    own = live.of(BEE)
    assert own.timezone == "Asia/Tokyo" and live.of(BEE) is own, "it is made once"
    live.adopt(Settings())
    assert live.of(BEE).timezone == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "default_agent: gardner\nagents: {gardener: {}}\n",
            r"config\.yaml:1: .*“gardner”.* Did you mean “gardener”\?",
        ),
        ("agents:\n  bee: {mode: subagent}\ndefault_agent: bee\n", r"config\.yaml:3: .*a subagent"),
        ("agents:\n  Bee!: {}\n", r"config\.yaml:2: An agent cannot be called “Bee!”"),
        ("agents:\n  root: {}\n", r"config\.yaml:2: An agent cannot be called “root”.* reserved"),
        ("agents:\n  main: {mode: subagent}\n", r"config\.yaml:2: The agent main cannot be a subagent"),
        ("agents:\n  bee: {timezone: Mars/Sea}\n", r"config\.yaml:2: agents\.bee\.timezone must be"),
        ("agents:\n  bee:\n    budget: {per: day}\n", r"config\.yaml:3: agents\.bee\.budget limits neither"),
        (
            "agents:\n  bee:\n    budget: {agent: ant, calls: 1}\n",
            r"config\.yaml:3: “agents\.bee\.budget\.agent” is not a known setting",
        ),
        ("agents:\n  bee: {}\n  bee: {}\n", r"config\.yaml:3: “bee” stands twice, here and in line 2"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    loaded = load(tmp_path, text)
    told = "\n".join(map(str, (*loaded.problems, *loaded.stops)))
    assert re.search(words, told), told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "routes:\n  - {match: {platform: telegram}, agent: bea}\n",
            r"routes\[0\]\.agent names the agent “bea”",
        ),
        ("agents: {bee: {mode: subagent}}\nroutes:\n  - {match: {}, agent: bee}\n", "a subagent"),
        ("agents:\n  bee: {backend: cloud}\n", "“agents.bee.backend” is a limit that does not hold here"),
        ("agents:\n  bee: {approvals: {denny: [rm]}}\n", "“agents.bee.approvals.denny” is not a known"),
        ("agents:\n  bee: {home_dir: .}\n", "The agents main and bee share one home_dir"),
    ],
)
def test_with_a_lost_limit_nothing_starts(tmp_path: Path, text: str, words: str) -> None:
    stops = load(tmp_path, text).stops
    assert any(re.search(words, str(stop)) and stop.line for stop in stops), stops


def test_a_limit_of_an_agent_that_cannot_be_read_denies(tmp_path: Path) -> None:
    text = "agents:\n  bee: {approvals: {mode: of, deny: {a: b}}, budget: {calls: many}, mode: people}\n"
    bee = load(tmp_path, text).settings.agents["bee"]
    assert bee.approvals.mode == "manual" and bee.approvals.deny == ("*",)
    assert bee.budget.calls == 0 and bee.mode == "subagent"


def test_an_agents_own_key_comes_before_the_gateways_and_is_its_own(tmp_path: Path) -> None:
    text = (
        "model: {default: m, provider: openrouter}\n"
        "fallback_providers: [{provider: anthropic, model: c}]\n"
        "agents: {bee: {}, ant: {provider: anthropic, model: c}, fly: {}}\n"
    )
    (tmp_path / ".env").write_text("OPENROUTER_API_KEY=sk-or-gateway-0123456789\n")
    loaded = load(
        tmp_path,
        text,
        bee="OPENROUTER_API_KEY=sk-or-bee-0123456789ab\nANTHROPIC_API_KEY=sk-ant-bee-0123456789\n",
        ant="ANTHROPIC_API_KEY=sk-ant-ant-0123456789\n",
    )

    def key(agent: str) -> str:
        return model_of(AgentId(agent), loaded).api_key.reveal()

    assert key("main") == key("fly") == "sk-or-gateway-0123456789"
    assert key("bee") == "sk-or-bee-0123456789ab" and key("ant") == "sk-ant-ant-0123456789"
    (behind,) = fallback_models(BEE, loaded)
    assert behind.api_key.reveal() == "sk-ant-bee-0123456789"
    assert not fallback_models(AgentId("fly"), loaded)[0].api_key, "another agent's key was lent"
    assert loaded.of(BEE).variable("ANTHROPIC_API_KEY") and not loaded.variable("ANTHROPIC_API_KEY")
    shown = loaded.secrets.redact("sk-or-bee-0123456789ab sk-ant-ant-0123456789")
    assert shown == "‹secret› ‹secret›", "no sink shows a key of any agent"


@pytest.mark.parametrize("shared", ["key-of-the-gateway-0123", "none"])
def test_an_agents_own_key_comes_first_whatever_it_is_called(tmp_path: Path, shared: str) -> None:
    text = (
        "model: {default: m, provider: custom, base_url: 'http://x.example/v1'}\nagents: {bee: {}, ant: {}}\n"
    )
    (tmp_path / ".env").write_text(f"CUSTOM_API_KEY={shared}\n")
    loaded = load(tmp_path, text, bee="OPENAI_API_KEY=sk-of-bee-0123456789\n")
    assert model_of(BEE, loaded).api_key.reveal() == "sk-of-bee-0123456789"
    assert model_of(ANT, loaded).api_key.reveal() == shared.replace("none", "")
