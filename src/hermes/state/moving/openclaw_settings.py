"""What `openclaw.json` says, as settings of this program. What is taken goes out of the tree; what is left in
it has no place here. Whatever would let somebody in whom no list names stays behind.

Facts: docs/gateway/configuration-reference.md, docs/gateway/secrets.md and docs/channels of
openclaw/openclaw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from hermes.domain.models.providers import find_provider
from hermes.domain.settings.mcp import MCP_NAME
from hermes.state.settings.model_access import key_variable
from hermes.state.settings.names import platform_variable

Tree = dict[str, Any]
_IN_ENVIRONMENT = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_EVERYBODY = "*"
_FORMATS = {
    "openai-completions": "chat_completions",
    "openai-responses": "codex_responses",
    "anthropic-messages": "anthropic_messages",
}
_PLAIN = {
    "agents.defaults.userTimezone": "timezone",
    "agents.defaults.thinkingDefault": "agent.reasoning_effort",
    "tools.exec.timeoutSec": "terminal.timeout",
    "session.reset.mode": "session_reset.mode",
    "session.reset.atHour": "session_reset.at_hour",
    "session.reset.idleMinutes": "session_reset.idle_minutes",
    "browser.cdpUrl": "browser.cdp_url",
}
_EFFORTS = {"off": "none"}
_SECRETS = {
    "telegram": {"botToken": "TELEGRAM_BOT_TOKEN"},
    "discord": {"token": "DISCORD_BOT_TOKEN"},
    "slack": {"botToken": "SLACK_BOT_TOKEN", "appToken": "SLACK_APP_TOKEN"},
    "signal": {"account": "SIGNAL_ACCOUNT", "httpUrl": "SIGNAL_HTTP_URL"},
    "matrix": {
        "homeserver": "MATRIX_HOMESERVER",
        "userId": "MATRIX_USER_ID",
        "accessToken": "MATRIX_ACCESS_TOKEN",
        "password": "MATRIX_PASSWORD",
    },
    "mattermost": {"botToken": "MATTERMOST_TOKEN", "baseUrl": "MATTERMOST_URL"},
    "feishu": {"appId": "FEISHU_APP_ID", "appSecret": "FEISHU_APP_SECRET"},
}
_LISTS = {"allowFrom": "allowed_users", "groupAllowFrom": "group_allowed_users"}
_POLICIES = {
    ("dmPolicy", "disabled"): ("dm_policy", "disabled"),
    ("dmPolicy", "allowlist"): ("dm_policy", "allowlist"),
    ("dmPolicy", "pairing"): ("", ""),  # what happens here anyway
    ("groupPolicy", "disabled"): ("group_policy", "disabled"),
    ("groupPolicy", "allowlist"): ("", ""),
}


class OldSettings(Struct):
    """What was moved: `keys` by their dotted names, `tables` by theirs and the entry's."""

    keys: dict[str, Any] = field(default_factory=dict)
    tables: dict[tuple[str, str], Tree] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def convert_settings(tree: Tree, variables: Mapping[str, str]) -> OldSettings:
    """`variables` are those of its `.env`. The tree is used up."""
    moved = OldSettings()
    inner, env = take_table(tree, "env.vars"), take_table(tree, "env")
    known = {
        **{name: value for name, value in {**env, **inner}.items() if isinstance(value, str)},
        **variables,
    }
    moved.variables.update(known)
    reader = _Reader(moved, known)
    reader.models(tree)
    reader.plain(tree)
    reader.servers(tree)
    reader.platforms(tree)
    for path in ("meta", "wizard", "$schema"):
        take(tree, path)
    moved.left += [f"{path}: not used here" for path in _leaves(tree)]
    return moved


def take(tree: Any, path: str) -> Any:
    """What stands at a dotted path, taken out of the tree; None if nothing does."""
    *parents, last = path.split(".")
    for name in parents:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree.pop(last, None) if isinstance(tree, dict) else None


def take_table(tree: Any, path: str) -> Tree:
    """As `take`, of an object; anything else is left where it is."""
    found = take(tree, path)
    if isinstance(found, dict):
        return found
    if found is not None:
        tree[path] = found  # told as not used here
    return {}


def _leaves(tree: Tree, before: str = "", depth: int = 3) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and depth > 1:
            yield from _leaves(value, f"{before}{name}.", depth - 1)
        elif value not in ({}, [], None):
            yield f"{before}{name}"


class _Reader:
    def __init__(self, moved: OldSettings, variables: Mapping[str, str]) -> None:
        self._moved = moved
        self._variables = variables

    def _secret(self, value: object, place: str) -> str:
        """A value in plain words, `${NAME}`, or a reference to where it is kept."""
        if isinstance(value, dict) and value.get("source") == "env":
            value = f"${{{value.get('id')}}}"
        if isinstance(value, str):
            read = _IN_ENVIRONMENT.sub(lambda name: self._variables.get(name[1], ""), value)
            if read:
                return read
        if value:
            self._moved.left.append(f"{place}: its value is kept elsewhere, set it here yourself")
        return ""

    # --- models ---

    def models(self, tree: Tree) -> None:
        take(tree, "models.mode")
        own: dict[str, str] = {}
        for name, entry in take_table(tree, "models.providers").items():
            if isinstance(entry, dict):
                own |= {name: made} if (made := self._provider(str(name), entry)) else {}
        named = take(tree, "agents.defaults.model")
        chosen = named if isinstance(named, dict) else {"primary": named}
        provider, model = self._model(chosen.get("primary"), own)
        if model:
            self._moved.keys |= {"model.default": model, "model.provider": provider}
        listed = chosen.get("fallbacks")
        others = [self._model(one, own) for one in listed if one] if isinstance(listed, list) else []
        if any(model for _, model in others):
            self._moved.keys["fallback_providers"] = [
                {"provider": provider, "model": model} for provider, model in others if model
            ]

    def _provider(self, name: str, entry: Tree) -> str:
        """What it is called in `model.provider`; its address and its models go into a table."""
        spec, place = find_provider(name), f"models.providers.{name}"
        label = spec.id if spec else name.lower()
        api, url = str(entry.get("api") or "openai-completions"), entry.get("baseUrl")
        if api not in _FORMATS or not _NAME.fullmatch(label) or not isinstance(url, str) or not url:
            self._moved.left.append(f"{place}: this kind of endpoint is not known here")
            return ""
        variable = key_variable(label)
        if key := self._secret(entry.get("apiKey"), f"{place}.apiKey"):
            self._moved.variables[variable] = key
        made: Tree = {"base_url": url, "api_mode": _FORMATS[api], "key_env": variable}
        listed = entry.get("models")
        models = [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
        if models:
            made["models"] = {str(model.get("id")): _facts(model) for model in models if model.get("id")}
        self._moved.tables["providers", label] = made
        return label if spec else f"custom:{label}"

    def _model(self, named: object, own: Mapping[str, str]) -> tuple[str, str]:
        if not isinstance(named, str) or not named:
            return "", ""
        provider, _, model = named.partition("/")
        spec = find_provider(provider)
        if model and provider in own:
            return own[provider], model
        if model and spec is not None:
            return spec.id, model
        self._moved.left.append(
            f"the model {named}: its provider is not known here, choose with: hermes model"
        )
        return "", ""

    # --- what is one value ---

    def plain(self, tree: Tree) -> None:
        for old, new in _PLAIN.items():
            value = take(tree, old)
            if isinstance(value, str | int) and value != "":
                self._moved.keys[new] = _EFFORTS.get(str(value), value)

    def servers(self, tree: Tree) -> None:
        for name, entry in take_table(tree, "mcp.servers").items():
            if not isinstance(entry, dict) or not MCP_NAME.fullmatch(name):
                self._moved.left.append(f"mcp.servers.{name}: its name cannot be used here")
                continue
            used = ("command", "args", "env", "cwd", "url", "headers", "enabled", "tools")
            self._moved.tables["mcp_servers", name] = {key: entry[key] for key in used if key in entry} | (
                {"transport": "sse"} if entry.get("transport") == "sse" else {}
            )

    # --- platforms ---

    def platforms(self, tree: Tree) -> None:
        channels = tree.get("channels")
        if not isinstance(channels, dict):
            return
        for platform in list(channels):
            block = channels[platform]
            if platform not in _SECRETS or not isinstance(block, dict):
                take(channels, platform)
                if platform != "defaults":
                    self._moved.left.append(
                        f"channels.{platform}: set it up here anew, if there is such a platform"
                    )
                continue
            accounts = take_table(block, "accounts")
            if block.pop("enabled", None) is False:
                take(channels, platform)
                for variable in _SECRETS[platform].values():
                    self._moved.variables.pop(variable, None)
                self._moved.left.append(f"channels.{platform}: it is switched off there")
                continue
            self._account(platform, block | take_table(accounts, "default"), block)
            for name in accounts:
                self._moved.left.append(
                    f"channels.{platform}.accounts.{name}: hermes setup {platform}@{name}"
                )

    def _account(self, platform: str, block: Tree, rest: Tree) -> None:
        """`rest` is what is left of the block in the tree."""
        variables = self._moved.variables
        for old, variable in _SECRETS[platform].items():
            rest.pop(old, None)
            if value := self._secret(block.get(old), f"channels.{platform}.{old}"):
                variables[variable] = value
        for old, new in _LISTS.items():
            rest.pop(old, None)
            if people := self._people(platform, old, block.get(old)):
                variables[platform_variable(platform, new)] = ",".join(people)
        for policy in ("dmPolicy", "groupPolicy"):
            said = rest.pop(policy, None) or block.get(policy)
            setting = _POLICIES.get((policy, str(said)))
            if said and setting is None:
                self._moved.left.append(
                    f"channels.{platform}.{policy}: {said} (nobody is let in without a list)"
                )
            elif setting and setting[0]:
                variables[platform_variable(platform, setting[0])] = setting[1]
        groups = rest.pop("groups", None)
        if isinstance(groups, dict) and groups and _EVERYBODY not in groups:
            variables[platform_variable(platform, "allowed_chats")] = ",".join(map(str, groups))
        if isinstance(groups, dict) and any(groups.values()):
            self._moved.left.append(f"channels.{platform}.groups: what is special in single groups")

    def _people(self, platform: str, name: str, listed: object) -> list[str]:
        people = []
        for one in listed if isinstance(listed, list) else ():
            person = str(one).strip().removeprefix(f"{platform}:")
            if person == _EVERYBODY or person.startswith("accessGroup:") or "," in person:
                what = "everybody" if person == _EVERYBODY else person
                self._moved.left.append(
                    f"channels.{platform}.{name}: {what} (name each person who may write)"
                )
            elif person:
                people.append(person)
        return people


def _facts(model: Tree) -> Tree:
    facts = {"context_length": model.get("contextWindow"), "max_output_tokens": model.get("maxTokens")}
    return {name: value for name, value in facts.items() if isinstance(value, int)}
