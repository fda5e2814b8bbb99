"""What the loader understands: layers, places, older names, variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import NONE_LISTED, Secret
from hermes.domain.settings.manner import PlatformDisplay
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import HostedAgent, Route, RouteMatch, Settings
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.model_access import key_variable
from hermes.state.settings.names import is_key_like, is_later


def load(home: Path, config: str = "", env: str = "", **environ: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    (home / ".env").write_text(env)
    (home / ".env").chmod(0o600)
    loaded = load_settings(home, environ)
    assert loaded.problems == ()
    return loaded


def test_nothing_said_is_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "not-there", {}).settings == Settings()
    assert load(tmp_path).settings == Settings()
    assert load(tmp_path, "# only a comment\n").settings == Settings()
    assert load(tmp_path, "model:\nagent:\n  max_turns:\nplatforms: ~\nroutes:\n").settings == Settings()


def test_the_environment_beats_the_secrets_file_beats_the_config_file(tmp_path: Path) -> None:
    config = "model: from-yaml\nagent: {max_turns: 1}\ntimezone: UTC\n"
    env = "HERMES_MODEL=from-file\nHERMES_MAX_ITERATIONS=2\n"
    settings = load(tmp_path, config, env, HERMES_MODEL="from-environment", HERMES_TIMEZONE="").settings
    assert settings.model.default == "from-environment"
    assert settings.agent.max_turns == 2
    assert settings.timezone == "UTC"


def test_enabled_false_beats_every_token(tmp_path: Path) -> None:
    config = "telegram: {enabled: false}\ndiscord: {enabled: true}\n"
    loaded = load(
        tmp_path, config, "TELEGRAM_BOT_TOKEN=12345:abc\n", TELEGRAM_ENABLED="true", DISCORD_ENABLED="0"
    )
    assert loaded.settings.platforms["telegram"].enabled is False
    assert loaded.settings.platforms["discord"].enabled is False
    found = loaded.find("telegram", "TELEGRAM_BOT_TOKEN")
    assert found is not None and found.reveal() == "12345:abc"


@pytest.mark.parametrize(
    "config",
    [
        "gateway: {message_timestamps: {enabled: false}}",
        "gateway: {message_timestamps: off}",
        "message_timestamps: {enabled: 0}",
    ],
)
def test_a_switch_may_stand_below_its_name(tmp_path: Path, config: str) -> None:
    assert load(tmp_path, f"{config}\n").settings.gateway.message_timestamps is False


@pytest.mark.parametrize(
    ("written", "transport", "enabled"),
    [
        ("{mode: draft}", "draft", True),
        ("{mode: off}", "off", True),
        ("{mode: auto, transport: edit}", "edit", True),
        ("{mode: auto, enabled: false}", "auto", False),
    ],
)
@pytest.mark.parametrize("place", ["streaming: {}", "gateway: {{streaming: {}}}"])
def test_mode_is_another_name_of_transport(
    tmp_path: Path, place: str, written: str, transport: str, enabled: bool
) -> None:
    loaded = load(tmp_path, place.format(written) + "\n")
    streaming = loaded.settings.streaming
    assert (streaming.transport, streaming.enabled, loaded.problems) == (transport, enabled, ())


def test_the_model_in_all_its_forms(tmp_path: Path) -> None:
    assert load(tmp_path, "model: a/b\n").settings.model.default == "a/b"
    assert load(tmp_path, "model: {model: a}\n").settings.model.default == "a"
    whole = "model: {default: a, model: b, provider: custom, base_url: 'http://h/v1', max_tokens: 8_000}\n"
    model = load(tmp_path, whole).settings.model
    assert (model.default, model.provider, model.base_url, model.max_tokens) == (
        "a",
        "custom",
        "http://h/v1",
        8000,
    )


@pytest.mark.parametrize(
    ("config", "environ", "provider", "key"),
    [
        ("", {"OPENAI_API_KEY": "one"}, "auto", "one"),
        ("model: {api_key: two}", {"OPENAI_API_KEY": "one"}, "auto", "one"),
        ("model: {api_key: two}", {}, "auto", "two"),
        ("", {"OPENROUTER_API_KEY": "three"}, "openrouter", "three"),
        ("", {"OPENROUTER_API_KEY": "three", "OPENAI_BASE_URL": "http://h/v1"}, "auto", ""),
        (
            "",
            {"OPENROUTER_API_KEY": "three", "OPENAI_BASE_URL": "https://openrouter.ai.evil.net/v1"},
            "auto",
            "",
        ),
        (
            "",
            {"OPENROUTER_API_KEY": "3", "OPENAI_API_KEY": "1", "OPENAI_BASE_URL": "http://h/v1"},
            "auto",
            "1",
        ),
        ("model: {provider: anthropic}", {"OPENAI_API_KEY": "1", "ANTHROPIC_API_KEY": "4"}, "anthropic", "4"),
        ("model: {provider: anthropic}", {"OPENAI_API_KEY": "one"}, "anthropic", ""),
        ("", {"OPENAI_API_KEY": "1", "HERMES_INFERENCE_PROVIDER": "deepseek"}, "deepseek", ""),
    ],
)
def test_a_key_goes_only_to_its_own_provider(
    tmp_path: Path, config: str, environ: dict[str, str], provider: str, key: str
) -> None:
    model = load(tmp_path, config, **environ).settings.model
    assert (model.provider, model.api_key.reveal()) == (provider, key)


def test_the_key_variable_of_a_provider() -> None:
    assert key_variable("auto") == key_variable("custom:mine") == "OPENAI_API_KEY"
    assert key_variable("kimi-coding") == key_variable("kimi") == "KIMI_API_KEY"
    assert key_variable("some.service") == "SOME_SERVICE_API_KEY"


@pytest.mark.parametrize(
    ("block", "agents"),
    [
        ("{}", {"site": None}),
        ("{keys: {site: {agents: [main]}}}", {"site": ("main",)}),
        ("{keys: {desk: {agents: [main]}}}", {"site": None, "desk": ("main",)}),
        ("{keys: [site]}", {}),  # its limits cannot be read
    ],
)
def test_a_variable_declares_a_key_of_the_api(
    tmp_path: Path, block: str, agents: dict[str, tuple[str, ...] | None]
) -> None:
    (tmp_path / "config.yaml").write_text(f"platforms: {{api_server: {block}}}\n")
    loaded = load_settings(tmp_path, {"API_SERVER_KEYS_SITE_KEY": "long-enough-to-be-a-key"})
    keys = loaded.settings.platforms["api_server"].keys
    assert {name: key.agents for name, key in keys.items()} == agents
    assert all(key.scopes == ("chat",) for key in keys.values())


def test_gateway_keys_stand_in_two_places_and_top_level_wins(tmp_path: Path) -> None:
    config = """
gateway:
  max_running: 5
  cache_mb: 6
  group_sessions_per_user: false
  allowed_users: [a]
  streaming: {enabled: false, cursor: x}
max_running: 7
streaming: {cursor: y}
"""
    settings = load(tmp_path, config).settings
    assert (settings.gateway.max_running, settings.gateway.cache_mb) == (7, 6)
    assert settings.group_sessions_per_user is False and settings.allowed_users == ("a",)
    assert (settings.streaming.enabled, settings.streaming.cursor) == (False, "y")


def test_platform_blocks_of_three_places_are_merged(tmp_path: Path) -> None:
    config = """
gateway:
  platforms:
    telegram: {enabled: false, require_mention: true, allowed_users: [1]}
platforms:
  telegram: {allowed_users: [2], home_channel: {chat_id: -100, thread_id: 7, platform: telegram, name: x}}
telegram:
  enabled: yes
  extra: {proxy: "http://me:hidden-word@host"}
  free_response_channels: [a, b]
  mention_patterns: ["x{1,2}", y]
  channel_prompts: {"5": short}
  watch_list: ["x{1,2}", y]
  bot_token: "12345:abcdef"
"""
    loaded = load(tmp_path, config)
    block = loaded.settings.platforms["telegram"]
    assert (block.enabled, block.allowed_users) == (True, ("2",))
    assert (block.home_channel, block.home_thread) == ("-100", "7")
    assert block.require_mention is True and block.free_response_channels == ("a", "b")
    assert block.mention_patterns == ("x{1,2}", "y")
    assert block.extra == {"watch_list": "x{1,2}\ny", "channel_prompts.5": "short"}
    assert set(block.secrets) == {"bot_token", "proxy"}
    for word in ("hidden-word", "abcdef"):
        assert word not in repr(loaded)
    assert loaded.secrets.redact("with hidden-word and 12345:abcdef") == "with ‹secret› and ‹secret›"
    watched = loaded.find("telegram", "TELEGRAM_WATCH_LIST")
    assert watched is not None and watched.reveal() == "x{1,2}\ny"
    assert loaded.find("telegram", "TELEGRAM_NOTHING") is None


def test_what_is_nested_in_a_block_keeps_its_shape_and_its_secrets(tmp_path: Path) -> None:
    config = """
webhook:
  extra:
    port: 9000
    routes:
      token-watch:
        secret: ${HOOK_SECRET}
        other: {secret: changeme, proxy: "http://me:hidden-word@host"}
        events: [push, "1", 1, 1.5, true, null, ~, 007]
        filters: [{field: a.b, in: [x, "y,z"]}, {not: {field: c, equals: false}}]
        prompt: ${NOT_SET} {a.b}
"""
    (tmp_path / "config.yaml").write_text(config)
    loaded = load_settings(tmp_path, {"HOOK_SECRET": "open sesame"})
    route = loaded.settings.platforms["webhook"].trees["routes"]["token-watch"]
    assert route == {
        "secret": Secret("open sesame"),
        "other": {"secret": Secret(""), "proxy": Secret("http://me:hidden-word@host")},
        "events": ["push", "1", 1, 1.5, True, None, None, 7],
        "filters": [{"field": "a.b", "in": ["x", "y,z"]}, {"not": {"field": "c", "equals": False}}],
        "prompt": None,
    }
    assert loaded.settings.platforms["webhook"].extra["port"] == "9000"
    assert ["placeholder" in str(problem) for problem in loaded.problems] == [True, False]
    for word in ("open sesame", "hidden-word"):
        assert word not in repr(loaded)


def test_variables_of_platforms_and_their_exceptions(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        TELEGRAM_ALLOWED_USERS="1, 2,,3",
        TELEGRAM_HOME_CHANNEL_THREAD_ID="9",
        SLACK_ALLOW_ALL_USERS="true",
        MATRIX_HOME_ROOM="!room:server",
        EMAIL_HOME_ADDRESS="me@here",
        QQBOT_HOME_CHANNEL="q",
        QQ_ALLOWED_USERS="u",
        WHATSAPP_CLOUD_ALLOWED_USERS="c",
        GATEWAY_ALLOWED_USERS="g",
        GATEWAY_ALLOW_ALL_USERS="yes",
    )
    blocks = loaded.settings.platforms
    assert blocks["telegram"] == PlatformSettings(allowed_users=("1", "2", "3"), home_thread="9")
    assert blocks["slack"].allow_all_users
    assert blocks["matrix"].home_channel == "!room:server"
    assert blocks["email"].home_channel == "me@here"
    assert blocks["qqbot"] == PlatformSettings(home_channel="q", allowed_users=("u",))
    assert blocks["whatsapp_cloud"].allowed_users == ("c",) and "whatsapp" not in blocks
    assert loaded.settings.allowed_users == ("g",) and loaded.settings.allow_all_users


def test_a_plugin_platform_is_known_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "zulip: {site: here}\nroutes:\n- {match: {platform: zulip}, agent: main}\n"
    )
    loaded = load_settings(tmp_path, {"ZULIP_ALLOWED_USERS": "z"}, platforms=["zulip"])
    assert loaded.problems == ()
    assert loaded.settings.platforms["zulip"] == PlatformSettings(
        allowed_users=("z",), extra={"site": "here"}
    )


def test_values_keep_their_spelling_and_words_are_not_switches(tmp_path: Path) -> None:
    config = "approvals: {mode: off}\nallowed_users: [007, -1001234567890123456789, no, 1e3]\nmodel: 3.50\n"
    settings = load(tmp_path, config).settings
    assert settings.approvals.mode == "off" and settings.model.default == "3.50"
    assert settings.allowed_users == ("007", "-1001234567890123456789", "no", "1e3")


def test_references_to_variables(tmp_path: Path) -> None:
    config = """
model:
  default: ${NAME}-x
  base_url: ${URL:-http://here/v1}
  api_key: ${MY_KEY}
agent: {max_turns: "${TURNS}", system_prompt: "keep $${NAME} and $5 and ${}"}
"""
    loaded = load(tmp_path, config, "NAME=file\nTURNS=9\nMY_KEY=abcdefgh\n", NAME="env")
    model = loaded.settings.model
    assert (model.default, model.base_url, model.api_key.reveal()) == ("env-x", "http://here/v1", "abcdefgh")
    assert loaded.settings.agent.max_turns == 9
    assert loaded.settings.agent.system_prompt == "keep ${NAME} and $5 and ${}"
    assert loaded.notes == ()


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    config = "agents:\n  a: &a {model: x, provider: p}\n  b: {<<: *a, model: y}\n"
    agents = load(tmp_path, config).settings.agents
    assert agents == {"a": HostedAgent(model="x", provider="p"), "b": HostedAgent(model="y", provider="p")}


def test_agents_and_routes(tmp_path: Path) -> None:
    config = """
agents:
  work: {model: m, enabled_toolsets: [web, files], disabled_toolsets: "a, b"}
  empty:
default_agent: work
routes:
  - match: {platform: telegram, chat_id: -100, kind: dm}
    agent: work
  - {match: {}, agent: main}
"""
    settings = load(tmp_path, config).settings
    assert settings.agents["work"].enabled_toolsets == ("web", "files")
    assert settings.agents["work"].disabled_toolsets == ("a", "b")
    assert settings.agents["empty"] == HostedAgent() and settings.default_agent == "work"
    assert settings.routes == (
        Route(match=RouteMatch(platform="telegram", chat_id="-100", kind="private"), agent="work"),
        Route(match=RouteMatch(), agent="main"),
    )


def test_an_agent_with_an_unreadable_list_of_toolsets_has_none(tmp_path: Path) -> None:
    for wrong in ("enabled_toolsets: {a: 1}", "enabled_toolset: [web]", "disabled_toolsets: ['${NOT_SET}']"):
        (tmp_path / "config.yaml").write_text(f"agents: {{work: {{{wrong}}}}}\n")
        loaded = load_settings(tmp_path, {})
        assert loaded.problems and loaded.settings.agents["work"].enabled_toolsets == ("none",)


def test_known_names_of_the_existing_product_are_notes(tmp_path: Path) -> None:
    config = """
_config_version: 33
memory: {nudge_interval: 5}
tts: {speed: 2}
terminal: {container_cpu: 2}  # is used
agent: {verify_on_stop: auto}
gateway: {multiplex_profiles: true, stt: {enabled: false}}
display: {skin: mono}
cron: {provider: none}
"""
    loaded = load(tmp_path, config)
    assert [note.line for note in loaded.notes] == [3, 4, 6, 7, 7, 9]
    assert all("not used yet" in note.message for note in loaded.notes)
    assert is_later("terminal.anything.below") and not is_later("agent.max_turns")


def test_resets_and_quick_commands(tmp_path: Path) -> None:
    config = """
gateway: {session_reset: {mode: idle, idle_minutes: 30}}
reset_by_type: {dm: {mode: daily, at_hour: 6}}
reset_by_platform: {telegram: {mode: both}, telegram@work: {mode: none}}
quick_commands:
  disk: {type: exec, command: df -h}
  Big: {type: alias, target: /model big}
"""
    loaded = load(tmp_path, config)
    assert loaded.problems == () and loaded.notes == ()
    settings = loaded.settings
    assert (settings.session_reset.mode, settings.session_reset.idle_minutes) == ("idle", 30)
    assert settings.reset_by_type["private"].at_hour == 6
    assert settings.reset_by_platform["telegram"].mode == "both"
    assert settings.reset_by_platform["telegram@work"].mode == "none"
    assert settings.quick_commands["disk"].command == "df -h"
    assert settings.quick_commands["big"].target == "/model big"


@pytest.mark.parametrize(
    "config",
    [
        "session_reset: {mode: weekly}",
        "reset_by_platform: {telegramm@work: {mode: both}}",
        "reset_by_platform: {telegram@: {mode: both}}",
        "reset_by_type: {private@work: {mode: both}}",
        "session_reset: {at_hour: 24}",
        "session_reset: {idle_minutes: 0}",
        "reset_by_type: {moon: {mode: idle}}",
        "quick_commands: {x: {type: exec}}",
        "quick_commands: {x: {type: alias, command: ls}}",
        "quick_commands: {'a b': {type: exec, command: ls}}",
        "quick_commands: {x: ls}",
    ],
)
def test_wrong_resets_and_quick_commands_count_as_none(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.yaml").write_text(config)
    loaded = load_settings(tmp_path, {})
    assert len(loaded.problems) == 1
    assert loaded.settings.quick_commands == {} and loaded.settings.reset_by_type == {}
    assert loaded.settings.session_reset == type(loaded.settings.session_reset)()


def test_notes_are_no_problems(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("model: x\n")
    (tmp_path / "config.yaml").write_text("model: {api_key: abcdefgh}\n")
    (tmp_path / ".env").write_text("A=1\nA=2\n")
    (tmp_path / ".env").chmod(0o644)
    loaded = load_settings(tmp_path, {})
    assert loaded.problems == ()
    text = "\n".join(map(str, loaded.notes))
    assert "config.yml is not read" in text and "chmod 600" in text
    assert "config.yaml:1: model.api_key is a secret" in text and ".env:2: A was set in line 1" in text


def test_only_a_home_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for home in (file, file / "below", Path("/nul\0byte")):
        with pytest.raises(UserError) as caught:
            load_settings(home, {})
        assert caught.value.hint


def test_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"\xef\xbb\xbfmodel: x\r\nagent:\r\n  max_turns: bad\r\n")
    loaded = load_settings(tmp_path, {})
    assert loaded.settings.model.default == "x" and [problem.line for problem in loaded.problems] == [3]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True), ("apiKey", True), ("token", True), ("client_secret", True),
        ("SUDO_PASSWORD", True), ("FAL_KEY", True), ("AWS_ACCESS_KEY_ID", True), ("record_keys", True),
        ("max_tokens", False), ("KEYBOARD", False), ("PWD", False), ("SSH_AUTH_SOCK", False),
        ("TOKEN_FILE", False), ("", False), ("_", False),
    ],
)  # fmt: skip
def test_key_like_names(name: str, secret: bool) -> None:
    assert is_key_like(name) is secret


def test_who_may_write_is_said_in_blocks_and_in_variables(tmp_path: Path) -> None:
    config = """
gateway: {unauthorized_dm_behavior: ignore}
telegram:
  allow_from: [1]
  allowed_users: [2]
  group_allow_from: 3
  allow_bots: Mentions
  extra: {dm_policy: pairing, mention_patterns: ["^hey{1,2}"], own: x}
signal: {group_allow_from: [g1]}
"""
    variables = {
        "DISCORD_ALLOWED_ROLES": "r1,r2",
        "DISCORD_ALLOWED_CHANNELS": "c1",
        "MATRIX_ALLOWED_ROOMS": "!a:b",
        "LINE_ALLOWED_GROUPS": "g1",
        "LINE_ALLOWED_ROOMS": "r1",
        "TELEGRAM_ALLOWED_TOPICS": "7",
        "TELEGRAM_GROUP_ALLOWED_CHATS": "-100",
        "TELEGRAM_REQUIRE_MENTION": "yes",
        "TELEGRAM_FREE_RESPONSE_CHATS": "-1",
        "TELEGRAM_FREE_RESPONSE_TOPICS": "9",
        "SIGNAL_GROUP_ALLOWED_USERS": "g2",
        "QQ_GROUP_ALLOWED_USERS": "q1",
        "SLACK_STRICT_MENTION": "true",
        "FEISHU_ALLOW_BOTS": "all",
    }
    loaded = load(tmp_path, config, **variables)
    assert loaded.problems == ()
    settings, blocks = loaded.settings, loaded.settings.platforms
    assert settings.unauthorized_dm_behavior == "ignore"
    telegram = blocks["telegram"]
    assert telegram.allowed_users == ("1", "2") and telegram.group_allowed_users == ("3",)
    assert (telegram.allow_bots, telegram.dm_policy) == ("mentions", "pairing")
    assert telegram.mention_patterns == ("^hey{1,2}",) and telegram.extra == {"own": "x"}
    assert telegram.allowed_topics == ("7",) and telegram.group_allowed_chats == ("-100",)
    assert telegram.require_mention and telegram.free_response_channels == ("-1", "9")
    assert blocks["discord"].allowed_roles == ("r1", "r2") and blocks["discord"].allowed_chats == ("c1",)
    assert blocks["matrix"].allowed_chats == ("!a:b",) and set(blocks["line"].allowed_chats) == {"g1", "r1"}
    assert blocks["signal"].allowed_chats == ("g2",) and blocks["signal"].group_allowed_users == ()
    assert blocks["qqbot"].group_allowed_chats == ("q1",) and blocks["slack"].thread_require_mention
    assert blocks["feishu"].allow_bots == "all"


@pytest.mark.parametrize(
    ("said", "name", "counts"),
    [
        ("allowed_chats: [{a: 1}]", "allowed_chats", NONE_LISTED),
        ("allowed_chats: ['${NOT_SET}']", "allowed_chats", NONE_LISTED),
        ("allowed_chats: ${NOT_SET}", "allowed_chats", NONE_LISTED),
        ("allowed_topics: {a: b}", "allowed_topics", NONE_LISTED),
        ("allow_admin_from: {a: b}", "allow_admin_from", NONE_LISTED),
        ("group_allow_admin_from: ['${NOT_SET}']", "group_allow_admin_from", NONE_LISTED),
        ("require_mention: perhaps", "require_mention", True),
        ("thread_require_mention: 3", "thread_require_mention", True),
        ("dm_policy: opne", "dm_policy", "disabled"),
        ("group_policy: everyone", "group_policy", "disabled"),
        ("unauthorized_dm_behavior: shout", "unauthorized_dm_behavior", "ignore"),
        ("allow_bots: sometimes", "allow_bots", "none"),
        ("allowed_users: {a: b}", "allowed_users", ()),
        ("allow_all_users: maybe", "allow_all_users", False),
        ("mention_patterns: ['(']", "mention_patterns", ()),
        ("mention_patterns: '('", "mention_patterns", ()),
        ("mention_patterns: '(?:(?:a{99}){99}){99}'", "mention_patterns", ()),
    ],
)
def test_what_is_said_wrongly_lets_nobody_in(tmp_path: Path, said: str, name: str, counts: object) -> None:
    (tmp_path / "config.yaml").write_text(f"telegram:\n  {said}\n")
    loaded = load_settings(tmp_path, {})
    assert getattr(loaded.settings.platforms["telegram"], name) == counts
    assert loaded.problems and all(problem.line == 2 for problem in loaded.problems)


def test_variables_of_containers_as_a_list_or_by_name(tmp_path: Path) -> None:
    for text in ("[A=1, B=x y]", "{A: 1, B: x y}", "\n    A: 1\n    B: ${WORDS}"):
        (tmp_path / "config.yaml").write_text(f"terminal:\n  docker_env: {text}\n")
        loaded = load_settings(tmp_path, {"WORDS": "x y"})
        assert loaded.settings.terminal.docker_env == ("A=1", "B=x y"), text
        assert not loaded.problems
    (tmp_path / "config.yaml").write_text("terminal: {docker_env: {A: [1]}}\n")
    assert load_settings(tmp_path, {}).problems


def test_manner_is_read_in_short_and_in_full(tmp_path: Path) -> None:
    config = """
human_delay: natural
display:
  runtime_footer: on
  platforms: {telegram: {tool_progress: off, streaming: no}, nowhere: {}}
personalities: {dry: Be dry., odd: {system_prompt: Be odd., tone: flat}}
platform_hints: {slack: Be short., irc: {replace: No colours.}}
agent: {reasoning_overrides: {deep: xhigh, wrong: loud}}
"""
    (tmp_path / "config.yaml").write_text(config)
    loaded = load_settings(tmp_path, {})
    settings = loaded.settings
    assert settings.human_delay.mode == "natural" and settings.display.runtime_footer.enabled
    assert settings.display.platforms == {"telegram": PlatformDisplay(tool_progress="off", streaming=False)}
    assert settings.personalities["dry"].text == "Be dry."
    assert settings.personalities["odd"].text == "Be odd.\nTone: flat"
    assert settings.platform_hints["slack"].append == "Be short."
    assert settings.platform_hints["irc"].replace == "No colours."
    assert settings.agent.reasoning_overrides["deep"].effort == "xhigh"
    assert [problem.line for problem in loaded.problems] == [5, 8]
