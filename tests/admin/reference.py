"""Reference pages made from the code, so that they cannot tell anything else than it does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, get_args

from hermes import plugins
from hermes.admin.shell.examples import EXAMPLES
from hermes.admin.shell.tree import command_tree
from hermes.domain.chats.capabilities import Grade, Manifest
from hermes.domain.models.providers import PROVIDERS, ProviderAuth, ProviderSpec
from hermes.domain.settings.agents import AgentApprovals
from hermes.domain.settings.budgets import AgentBudget, Budget
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.egress import BrokeredSecret, WebsiteBlocklist
from hermes.domain.settings.fallback import FallbackEntry, PoolSettings
from hermes.domain.settings.manner import (
    Personality,
    PlatformDisplay,
    PlatformHint,
    ReasoningOverride,
    RuntimeFooter,
)
from hermes.domain.settings.mcp import McpOAuth, McpSampling, McpServer, McpToolFilter
from hermes.domain.settings.media import LocalStt, SttEndpoint, SttProgram, TtsEndpoint, TtsProgram, TtsVoice
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.settings.providers import ProviderModel, ProviderSettings
from hermes.domain.settings.settings import (
    AuxiliaryModel,
    HostedAgent,
    ModelFactSettings,
    PlatformToolsets,
    PluginOptions,
    QuickCommand,
    ResetSettings,
    RouteMatch,
    Settings,
)
from hermes.domain.settings.skills import PlatformSkills
from hermes.domain.settings.tool_limits import LoopStops, LoopWarnings
from hermes.domain.system.hooks import EVENTS
from hermes.domain.turns.event import Live, Record
from hermes.domain.turns.gateway_event import GatewayEvent
from hermes.domain.word import field_names
from hermes.state.settings.key_places import ALSO_UNDER_GATEWAY
from hermes.state.settings.names import LATER, PLATFORMS, platform_variables
from hermes.state.settings.unsupported_limits import (
    NARROWING,
    OF_ONE,
    SECURITY_KNOWN,
    VARIABLES,
    UnsupportedLimit,
)
from hermes.state.settings.values import SettingSpec, expected, knobs, sections

_HEAD = "| Key | Holds | Default | Variable | Meaning |\n|---|---|---|---|---|\n"
_INTRODUCTION = """# Settings

This page is made from `src/hermes/domain/settings/settings.py` by `tests/admin/reference.py`.

`config.yaml` holds the settings, `.env` the secrets. The environment beats `.env`, and `.env` beats
`config.yaml`; only `enabled: false` of a platform in `config.yaml` beats every variable.
`hermes config check` tells what is wrong, with file and line; `hermes config schema` prints a JSON Schema for
editors. `_config_version` says which program wrote the file: `hermes config migrate` brings an older one up
to date.
How to change settings: [the guide](../guides/settings.md).
"""


def settings_page() -> str:
    """The page `docs/reference/settings.md`."""
    parts = [_INTRODUCTION, "\n## Top level\n\n", _table(Settings, "")]
    for name, section in sections(Settings).items():
        parts += [f"\n## {name}\n\n{_told(section)}\n\n", _table(section, f"{name}.")]
        if name == "gateway":
            names = ", ".join(f"`{key}`" for key in ALSO_UNDER_GATEWAY)
            parts.append(
                f"\nThese may stand at top level too, and {names} under `gateway:`; top level wins.\n"
            )
    parts += [
        f"\n## agents\n\n{_told(HostedAgent)}\n\n",
        _table(HostedAgent, "agents.<name>."),
        f"\n## agents.<name>.approvals\n\n{_told(AgentApprovals)}\n\n",
        _table(AgentApprovals, "agents.<name>.approvals."),
        f"\n## agents.<name>.budget\n\n{_told(AgentBudget)}\n\n",
        _table(AgentBudget, "agents.<name>.budget."),
        "\n## routes\n\nA list of `{match: {…}, agent: <name>}`, tried in order; the first match counts,\n"
        "and `routes[].agent` says who answers. `routes[].toolsets` are the only toolsets for what comes\n"
        "from there: not set are the agent's, written and empty is none. `routes[].backend` is where its\n"
        "commands run: not set is `terminal.backend`; one that is not installed stops the agent.\n"
        "`routes[].network` is what they reach, also those of strangers: `open`, `none` or a list of hosts;\n"
        "not set is `terminal.network`, and nothing for strangers.\n"
        "With a mistake in a route the gateway does not start.\n\n",
        _table(RouteMatch, "routes[].match."),
        f"\n## platform_toolsets\n\n{_told(PlatformToolsets)} In short: `telegram: [file, todo]`.\n\n",
        _table(PlatformToolsets, "platform_toolsets.<name>."),
        f"\n## plugins.entries\n\n{_told(PluginOptions)} What stands below the name of an entry is its "
        "`plugins.entries.<name>.values`.\n",
        f"\n## security.website_blocklist\n\n{_told(WebsiteBlocklist)}\n\n",
        _table(WebsiteBlocklist, "security.website_blocklist."),
        f"\n## skills.platform_disabled\n\n{_told(PlatformSkills)} In short: `telegram: [plan]`.\n\n",
        _table(PlatformSkills, "skills.platform_disabled.<name>."),
        f"\n## security.broker\n\n{_told(BrokeredSecret)}\n\n",
        _table(BrokeredSecret, "security.broker.<name>."),
        f"\n## agent.reasoning_overrides\n\n{_told(ReasoningOverride)}\n\n",
        _table(ReasoningOverride, "agent.reasoning_overrides.<name>."),
        f"\n## display.runtime_footer\n\n{_told(RuntimeFooter)}\n\n",
        _table(RuntimeFooter, "display.runtime_footer."),
        f"\n## display.platforms\n\n{_told(PlatformDisplay)}\n\n",
        _table(PlatformDisplay, "display.platforms.<name>."),
        *_inside("stt", local=LocalStt, openai=SttEndpoint, providers=SttProgram),
        *_inside("tts", edge=TtsVoice, piper=TtsVoice, openai=TtsEndpoint, providers=TtsProgram),
        *_inside("tool_loop_guardrails", warn_after=LoopWarnings, hard_stop_after=LoopStops),
        f"\n## personalities\n\n{_told(Personality)}\n\n",
        _table(Personality, "personalities.<name>."),
        f"\n## platform_hints\n\n{_told(PlatformHint)}\n\n",
        _table(PlatformHint, "platform_hints.<name>."),
        f"\n## quick_commands\n\n{_told(QuickCommand)}\n\n",
        _table(QuickCommand, "quick_commands.<name>."),
        f"\n## models\n\n{_told(ModelFactSettings)}\n\n",
        _table(ModelFactSettings, "models.<name>."),
        f"\n## providers\n\n{_told(ProviderSettings)} Known ones: [Providers](providers.md).\n\n",
        _table(ProviderSettings, "providers.<name>."),
        "\n",
        _table(ProviderModel, "providers.<name>.models.<name>."),
        f"\n## fallback_providers\n\n{_told(FallbackEntry)}\n\n",
        _table(FallbackEntry, "fallback_providers[]."),
        f"\n## credential_pool_strategies\n\n{_told(PoolSettings)} In short: `openrouter: round_robin`.\n\n",
        _table(PoolSettings, "credential_pool_strategies.<name>."),
        f"\n## budgets\n\n{_told(Budget)}\n\n",
        _table(Budget, "budgets.<name>."),
        f"\n## mcp_servers\n\n{_told(McpServer)}\n\n",
        _table(McpServer, "mcp_servers.<name>."),
        *_inside("mcp_servers.<name>", tools=McpToolFilter, oauth=McpOAuth, sampling=McpSampling),
        f"\n## auxiliary\n\n{_told(AuxiliaryModel)}\n\n",
        _table(AuxiliaryModel, "auxiliary.<name>."),
        "\n## reset_by_type, reset_by_platform\n\nThe same as `session_reset`, for one sort of place or one"
        " platform;\nan account (`telegram@work`) beats its platform, that beats a sort of place, and that"
        " `session_reset`.\n\n",
        _table(ResetSettings, "reset_by_type.<name>."),
        "\n",
        _table(ResetSettings, "reset_by_platform.<name>."),
        f"\n## platforms\n\n{_told(PlatformSettings)}\n\n",
        _table(PlatformSettings, "platforms.<name>."),
        f"\n## keys of platforms.api_server\n\n{_told(ApiKey)}\n\n",
        _table(ApiKey, "platforms.<name>.keys.<name>."),
        _platforms(),
        _later(),
        _stopping(),
    ]
    return "".join(parts)


def providers_page() -> str:
    """The page `docs/reference/providers.md`."""
    rows = "".join(map(_provider, PROVIDERS.values()))
    return (
        "# Providers\n\nThis page is made from `src/hermes/domain/models/providers.py` by "
        "`tests/admin/reference.py`.\n`model.provider: auto` takes the first whose key is set.\n"
        "How to choose: [the guide](../guides/models.md). Your own: [providers](settings.md#providers).\n\n"
        "| Provider | Also | Key | Address | Format | Usual model |\n|---|---|---|---|---|---|\n" + rows
    )


def _provider(spec: ProviderSpec) -> str:
    also = ", ".join(f"`{name}`" for name in spec.aliases)
    login = "`hermes auth login`" if spec.auth is ProviderAuth.OAUTH_DEVICE_CODE else ""
    keys = ", ".join(filter(None, (login, *(f"`{name}`" for name in spec.keys))))
    url = f"`{spec.base_url}`" if spec.base_url else "`model.base_url`"
    also_url = f" (or `{spec.url_variable}`)" if spec.url_variable else ""
    cells = (f"`{spec.id}` ({spec.title})", also, keys, url + also_url, f"`{spec.api_mode}`", spec.model)
    return f"| {' | '.join(cells)} |\n"


def platforms_page() -> str:
    """The page `docs/reference/platforms.md`: what each platform can do, as its manifest says."""
    head = (
        "Platform",
        "Text",
        "Grows",
        "Buttons",
        "Threads",
        "Files",
        "Typing",
        "Reactions",
        "Pace",
        "Window",
    )
    rows = "".join(map(_platform, sorted(plugins.platform_manifests(), key=lambda one: one.title.lower())))
    return (
        "# Platforms\n\nThis page is made from the manifests in `src/hermes/entry/platforms/` by "
        "`tests/admin/reference.py`.\n*Grows*: how often an answer is edited while it is written. *Pace*: "
        "one message to a chat in so much time,\nafter a burst. *Window*: how long after they wrote people "
        f"can be sent anything.\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}\n{rows}"
    )


def _platform(manifest: Manifest) -> str:
    able = manifest.capabilities
    grows = "" if able.edit_interval is None else f"every {able.edit_interval:g} s"
    files = ", ".join(
        f"{kind.value} {limit.max_bytes / 1e6:.3g} MB" for kind, limit in sorted(able.media.items())
    )
    pace = f"{able.send_interval:g} s, {able.send_burst} at once" if able.send_interval else ""
    window = f"{able.reply_window / 3600:g} h" if able.reply_window else ""
    grades = ["" if grade is Grade.NONE else grade.value for grade in (able.buttons, able.threads)]
    signs = ["yes" if has else "" for has in (able.typing, able.reactions)]
    text = f"{able.max_text:,} {able.unit.value}"
    page = f"[{manifest.title}](../platforms/{manifest.name}.md)"
    return f"| {' | '.join([page, text, grows, *grades, files, *signs, pace, window])} |\n"


def _inside(name: str, **inner: type) -> Iterator[str]:
    """The sections in a section; `providers` are by name."""
    for key, section in inner.items():
        prefix = f"{name}.{key}.<name>." if key == "providers" else f"{name}.{key}."
        yield f"\n## {name}.{key}\n\n{_told(section)}\n\n"
        yield _table(section, prefix)


def _told(section: type) -> str:
    return " ".join((section.__doc__ or "").split())


def _table(section: type, prefix: str) -> str:
    return _HEAD + "".join(_row(knob, prefix) for knob in knobs(section).values())


def _row(knob: SettingSpec, prefix: str) -> str:
    env = ", ".join(f"`{name}`" for name in knob.about.env)
    kind = "a secret" if knob.kind is Secret else expected(knob)
    cells = (f"`{prefix}{knob.name}`", kind, _default(knob.default), env, knob.about.doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(value: Any) -> str:
    if value is None or isinstance(value, Secret) or value in ("", ()):
        return ""
    if isinstance(value, (bool, float)):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, StrEnum) else value}`"


def _platforms() -> str:
    env = knobs(PlatformSettings)["allowed_users"].about.env
    home = knobs(PlatformSettings)["home_channel"].about.env
    rows = [
        f"| `{name}` | `{platform_variables(name, env)[0]}` | "
        + ", ".join(f"`{variable}`" for variable in platform_variables(name, home))
        + " |\n"
        for name in sorted(PLATFORMS)
    ]
    return (
        "\nA block may also stand at top level (`telegram:`) or under `gateway.platforms`; top level wins. "
        "A platform's own keys may be written in its block or as variables; secrets belong in `.env`.\n\n"
        "Further accounts have blocks of their own, `telegram@work`, and variables with the account behind "
        "two underscores, `TELEGRAM_BOT_TOKEN__WORK` (`my-shop` is `__MY_SHOP`). Nothing said for one "
        "account counts for another.\n\n"
        "| Platform | Allowed users | Home channel |\n|---|---|---|\n" + "".join(rows)
    )


def unused() -> list[str]:
    """The keys that are known and do nothing, whatever they hold."""
    sections = {name.partition(".")[0] for name in NARROWING}
    return sorted(name for name in LATER if name.removeprefix("gateway.") not in sections)


def _later() -> str:
    names = ", ".join(f"`{name}`" for name in unused())
    return f"\n## Known, but not used yet\n\nThese are accepted and do nothing: {names}.\n"


def _stopping() -> str:
    """Limits that nothing holds, and what is known beside them."""
    rows = [_limit(f"`{name}`", narrowing) for name, narrowing in NARROWING.items()]
    for section, names in OF_ONE.items():
        rows += [_limit(f"`{section}.<name>.{name}`", narrowing) for name, narrowing in names.items()]
    rows += [_limit(f"`{name}` (variable)", narrowing) for name, narrowing in VARIABLES.items()]
    beside = sorted({name.partition(".")[0] for name in NARROWING if "." in name} & LATER)
    security = ", ".join(f"`{name}`" for name in sorted(SECURITY_KNOWN))
    return (
        "\n## Limits that stop the start\n\nNothing here holds these limits, so the gateway does not start "
        "with them, wherever they stand: at top level, under `gateway`, for an agent or for a platform. An "
        "empty value, and each that is named in the last column, narrows nothing and is accepted.\n\n"
        f"| Key | Why it does not hold | Accepted |\n|---|---|---|\n{''.join(rows)}\n"
        f"What else stands below {', '.join(f'`{name}`' for name in beside)} is accepted and does nothing. "
        f"Only below `security` a name that is not known counts as a limit, too; known are {security}.\n"
    )


def _limit(name: str, narrowing: UnsupportedLimit) -> str:
    accepted = ", ".join(f"`{value}`" for value in sorted(narrowing.harmless) if value)
    return f"| {name} | {narrowing.why} | {accepted} |\n"


# --- slash commands, the command line, events, hooks -------------------------------------------------

_MADE = "This page is made from {} by `tests/admin/reference.py`; change it there.\n\n"
_PLAIN_EVENTS = {
    "TextDelta": "More words of the answer.",
    "ThoughtDelta": "More of what the model thinks before it answers.",
    "ToolOutput": "More output of a running tool.",
    "Answered": "How a question ended.",
}
_HOOK_CONTEXT = {
    "gateway:startup": ("The gateway is ready.", "agent_id (the default agent), agents, platforms"),
    "session:start": ("A session begins.", "platform, account, user_id, agent_id, session_id, session_key"),
    "session:end": (
        "A session ends: somebody asked for a new one, or it is over by a rule for idle sessions. Ends by"
        " such a rule are reported again after a crash, with `repeated`, if hooks may have missed them.",
        "platform, account, user_id, agent_id, session_id, session_key, repeated",
    ),
    "session:compress": (
        "The conversation is told shorter to the model: in a summary, or with old results cleared.",
        "platform, account, user_id, agent_id, session_id, turn_id, upto (the last record that it tells of),"
        " summarised (true or false)",
    ),
    "session:reset": ("Somebody asked for a new session.", "those of `session:end`"),
    "agent:start": (
        "A turn begins.",
        "platform, account, user_id, agent_id, chat_id, thread_id, chat_type (dm, group, channel, thread,"
        " api, webhook, job), session_id, turn_id, message (at most 500 characters)",
    ),
    "agent:step": (
        "The model answered once.",
        "platform, account, user_id, agent_id, session_id, turn_id, iteration, tool_names, tools (name,"
        " arguments)",
    ),
    "agent:end": (
        "A turn ended.",
        "those of `agent:start`, state (done, failed, stopped) and response (at most 500 characters)",
    ),
    "command:*": (
        "Asked: a slash command is about to run; `command:<name>` follows one of them, or one of your own.",
        "platform, account, user_id, agent_id, chat_id, thread_id, chat_type, session_id, session_key,"
        " command, raw_command, args, raw_args",
    ),
    "gate:turn": (
        "Asked: a turn is about to begin.",
        "those of `agent:start` with the whole message, and cause",
    ),
    "gate:tool": (
        "Asked: a tool is about to run, after it was approved where that is needed.",
        "agent_id, session_id, turn_id, call_id, tool_name, arguments",
    ),
    "gate:send": (
        "Asked: a message is about to be sent to a chat.",
        "agent_id (empty for what no agent said), platform, account, chat_id, thread_id, turn_id, text",
    ),
    "select_agent": (
        "Asked: which agent gets a message that no declared route fits.",
        "platform, account, user_id, user_id_alt, user_name, chat_id, chat_name, thread_id, chat_type,"
        " guild_id, parent_chat_id, roles, is_bot, text",
    ),
}


_ELSEWHERE = """
topic rollback goal subgoal moa codex-runtime fast voice bundles learn suggestions blueprint curator
kanban reload-mcp reload-skills topup update debug
"""
_IN_TERMINALS = """
redraw history save prompt snapshot journey config statusbar timestamps skin indicator tools
toolsets pet hatch reload browser plugins subscription copy paste image
"""


def _left_out() -> str:
    """What of it is still not here."""
    from hermes.control.commands.registry import COMMANDS
    from hermes.entry.terminal.view_rich import RichView

    aliases = (alias for known in COMMANDS.values() for alias in known.aliases)
    here = {*COMMANDS, *aliases, *RichView.own_commands}
    chats, terminals = (
        ", ".join(f"`/{name}`" for name in names.split() if name not in here)
        for names in (_ELSEWHERE, _IN_TERMINALS)
    )
    return (
        "\n## What other gateways of this family have\n\n"
        "These are not here, because the feature behind them is not, or not yet: "
        f"{chats}. Of those of a terminal: {terminals}; `hermes config`, `hermes status` and"
        " `hermes sessions show` tell what some of them do.\n"
    )


def commands_page() -> str:
    """The page `docs/reference/commands.md`."""
    from hermes.control.commands.registry import COMMANDS
    from hermes.plugins import load_commands

    load_commands()
    rows = []
    for known in sorted(COMMANDS.values(), key=lambda command: command.name):
        written = f"`/{known.name}{' ' + known.usage if known.usage else ''}`"
        also = ", ".join(f"`/{alias}`" for alias in known.aliases)
        told = known.summary + (f" (only with `{known.gate}: true`)" if known.gate else "")
        rows.append((written, told, also, "runs" if known.mid_turn else "refused"))
    return (
        "# Slash commands\n\n"
        + _MADE.format("the functions in `src/hermes/control/commands/`")
        + "A message that begins with `/` is a command. The beginning of a name is enough where it fits only"
        " one command, and capitals do not matter. Commands are read at once, also while the agent is busy;"
        " those that would get into its way are refused with one sentence then.\n\n"
        + _rows(("Command", "What it does", "Also", "While a turn runs"), rows)
        + _left_out()
    )


def cli_page(commands: Mapping[str, str], options: Mapping[str, str]) -> str:
    """The page `docs/reference/cli.md`, from the tables of `hermes.cli`."""
    parts = [
        "# The hermes command\n\n"
        + _MADE.format("`src/hermes/cli.py` and the modules in `src/hermes/admin/`"),
        "These options may stand with every command:\n\n",
        _rows(("Option", "Meaning"), [(f"`{name}`", told) for name, told in options.items()]),
        "\nExit codes: 0 done, 1 it could not be done, 2 wrong use, 78 the settings stop it, 130 interrupted"
        " with Ctrl-C, 141 nobody reads the output. For services `gateway run` keeps 75, start me again, and"
        " 78, leave me down.\n",
    ]
    for name, told in commands.items():
        rows = [(f"`{_spelled(action)}`", action.help or "") for action in _arguments(name)]
        parts.append(f"\n## hermes {name}\n\n{told[0].upper()}{told[1:]}.\n")
        if rows:
            parts.append("\n" + _rows(("Argument", "Meaning"), rows))
        if name in EXAMPLES:
            parts.append("\n```sh\n" + "".join(f"{line}\n" for line in EXAMPLES[name]) + "```\n")
    return "".join(parts)


def _arguments(command: str) -> list[argparse.Action]:
    """The arguments of one command, as its own parser knows them."""
    told = command_tree(command.partition(" ")[0])[command].actions
    told = [action for action in told if not isinstance(action, argparse._HelpAction)]
    return sorted(told, key=lambda action: bool(action.option_strings))


def _spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"<{action.dest}>" + (" …" if action.nargs == "+" else "")
    return ", ".join(action.option_strings) + (f" {action.metavar}" if action.metavar else "")


def events_page() -> str:
    """The page `docs/reference/events.md`."""
    return (
        "# Events\n\n"
        + _MADE.format("`src/hermes/domain/turns/event.py`")
        + "What happens in a turn. Live events are shown and forgotten; records are stored exactly as they"
        " are, and the stored records are the transcript.\n\n## Live events\n\n"
        + _events(Live)
        + "\n## Records\n\n"
        + _events(Record)
        + "\n## What happens in the gateway\n\n"
        + "From `src/hermes/domain/turns/gateway_event.py`. These are hints for whoever listens"
        " inside the gateway: they name rows by their ids, carry no texts, are sent after the commit"
        " and are lost in a crash. What hooks can follow is on [another page](hooks.md).\n\n"
        + _events(GatewayEvent)
    )


def _events(union: Any) -> str:
    rows = []
    for kind in get_args(union):
        told = " ".join((kind.__doc__ or "").split())
        if not told or told.startswith(f"{kind.__name__}("):  # what `dataclass` writes where nobody else did
            told = _PLAIN_EVENTS[kind.__name__]
        rows.append((f"`{kind.__name__}`", told, ", ".join(f"`{name}`" for name in field_names(kind))))
    return _rows(("Event", "What it says", "Fields"), rows)


def http_page() -> str:
    """The page `docs/reference/http.md`."""
    from hermes.entry.http.api import load_resources
    from hermes.entry.http.api.openapi import errors, tag_of, tags
    from hermes.entry.http.site.endpoint import ROUTES, shown_path

    load_resources()
    parts = [
        "# HTTP endpoints\n\n",
        _MADE.format("the table of routes in `src/hermes/entry/http/`"),
        "How to use them: [the guide](../guides/http.md). A running gateway tells the same, with every field:"
        " `/docs` for people, `/openapi.json` for programs.\n",
    ]
    for tag, told in tags(ROUTES).items():
        rows = [
            (
                f"`{one.method} {shown_path(one)}`",
                one.summary,
                "signature" if one.signed else f"`{one.scope}`" if one.scope else "open",
                ", ".join(f"`{name}`" for name in one.headers),
                " ".join(map(str, [one.status, *one.also, *errors(one)])),
            )
            for one in ROUTES
            if tag_of(one) == tag
        ]
        parts += [f"\n## {tag}\n\n{told}\n\n"]
        parts += [_rows(("Endpoint", "What it does", "Scope", "Headers", "Statuses"), rows)]
    return "".join(parts)


def hooks_page() -> str:
    """The page `docs/reference/hooks.md`."""
    rows = [(f"`{name}`", *_HOOK_CONTEXT[name]) for name in EVENTS]
    return (
        "# Hooks\n\n"
        + _MADE.format("`src/hermes/domain/system/hooks.py`")
        + "A hook is a folder `hooks/<name>/` in the home with two files: `HOOK.yaml` (`name`, `description`,"
        " `events`, a list of names from this page, and `timeout`, the seconds one call may take) and"
        " `handler.py` with a function `handle(event_type, context)`, plain or `async`. `agent:*` follows"
        " every event that begins with `agent:`. The guide is [Hooks](../guides/hooks.md).\n\n"
        + _rows(("Event", "When", "Context"), rows)
        + "\nWhat is asked may be answered with `{decision: allow|deny|handled|rewrite, message}`; nothing is"
        " `allow`, and the first answer that is not `allow` counts. `handled` and, with `command_name` and"
        " `raw_args`, `rewrite` are for commands; `rewrite` with `text` is for `gate:send`. `select_agent` is"
        " answered with `{agent: id}`.\n"
    )


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "".join(f"{line}\n" for line in lines)
