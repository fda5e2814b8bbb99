"""The blocks of platforms in `config.yaml`: fields that all of them have, and each adapter's own keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes.domain.chats.address import account_problem
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.text import one_line
from hermes.state.home.findings import SettingsFindings, nearest
from hermes.state.settings.key_places import not_a_section
from hermes.state.settings.names import (
    PLATFORM_FIELDS,
    PLATFORM_KEYS,
    field_of,
    own_keys,
)
from hermes.state.settings.section_reader import Entry, SectionReader
from hermes.state.settings.yaml_tree import YamlMapping, YamlNode, YamlScalar

API_SERVER = "api_server"
_HTTP_KEYS = own_keys(API_SERVER, ())


def _is_unknown(platform: str, key: str) -> bool:
    """Whether a block cannot have this key. What an adapter reads is its own business, unless the key looks
    like one that every platform has; the HTTP server's are all known."""
    if key in PLATFORM_KEYS or field_of(platform, key) in PLATFORM_FIELDS:
        return False
    return key not in _HTTP_KEYS if platform == API_SERVER else bool(nearest(key, [*PLATFORM_FIELDS]))


class PlatformReader(SectionReader):
    """`platforms` are the names that may have a block."""

    def __init__(
        self, findings: SettingsFindings, platforms: frozenset[str], variable: Callable[[str], str | None]
    ) -> None:
        super().__init__(findings, variable)
        self.platforms = platforms

    def platform(self, name: str, line: int, node: YamlNode, path: str) -> Entry:
        platform, at, account = name.partition("@")
        if platform not in self.platforms:
            self.no_such_platform(line, name)
        elif at and self.is_wrong_account(line, platform, account):
            return None
        if not isinstance(node, YamlMapping) and not (isinstance(node, YamlScalar) and node.empty):
            not_a_section(path, node, self.findings)
            return name, PlatformSettings(enabled=False)
        own = [*PLATFORM_FIELDS, *(_HTTP_KEYS if name == API_SERVER else ())]
        given: dict[str, Any] = {"extra": {}, "secrets": {}, "trees": {}}
        for key, at_line, child in self.pairs(node, path):
            if key == "extra":
                for inner, at_line, grandchild in self.pairs(child, f"{path}.extra"):
                    if name == API_SERVER and _is_unknown(name, inner):
                        self.unknown(f"{path}.extra.{inner}", at_line, own)
                    else:
                        self.platform_key(given, name, inner, grandchild, under_extra=True)
            elif key == "home_channel" and isinstance(child, YamlMapping):
                given |= self.home_channel(child, f"{path}.{key}")
            elif _is_unknown(name, key):
                self.unknown(f"{path}.{key}", at_line, own)
            else:
                self.platform_key(given, name, key, child)
        return name, PlatformSettings(**given)

    def platform_key(
        self, given: dict[str, Any], platform: str, name: str, node: YamlNode, *, under_extra: bool = False
    ) -> None:
        """Under `extra:` a name that every platform has does not replace what stands in the block itself."""
        path, meant = f"platforms.{platform}.{name}", field_of(platform, name)
        if name == "keys" and platform == API_SERVER:
            keys = self.table(ApiKey, node, path)
            given["keys"] = given.get("keys", keys) if under_extra else keys
        elif meant not in PLATFORM_FIELDS:
            tree = self.own_key(given, name, node, path, name)
            if not isinstance(node, YamlScalar):
                given["trees"][name] = tree
            if name == "model_routes" and isinstance(node, YamlMapping):
                self.check_model_routes(node, path)
        else:
            knob = PLATFORM_FIELDS[meant]
            value = self.value(knob, node, path)
            if under_extra:
                given.setdefault(meant, value)
            else:
                # A list under its older name adds to the one that stands beside it.
                given[meant] = (*given.get(meant, ()), *value) if knob.many else value

    def home_channel(self, node: YamlMapping, path: str) -> dict[str, str]:
        """`home_channel` as a mapping; Hermes Agent writes `platform` and `name` into it, too."""
        place: dict[str, str] = {}
        fields = {"chat_id": "home_channel", "thread_id": "home_thread"}
        for name, line, child in self.pairs(node, path):
            if name in fields:
                knob = PLATFORM_FIELDS[fields[name]]
                place[knob.name] = self.value(knob, child, f"{path}.{name}")
            elif name not in ("platform", "name"):
                self.unknown(f"{path}.{name}", line, [*fields, "platform", "name"])
        return place

    def check_model_routes(self, node: YamlMapping, path: str) -> None:
        """A name for a model leads to one."""
        for alias, (line, route) in node.pairs.items():
            model = route.get("model") if isinstance(route, YamlMapping) else None
            if not isinstance(model, YamlScalar) or model.empty:
                remedy = "Write {model: <name>}, or remove it."
                self.findings.problem(line, f"{path}.{one_line(alias)} names no model.", remedy)

    def no_such_platform(self, line: int, name: str) -> None:
        platform, at, account = name.partition("@")
        meant = nearest(platform, sorted(self.platforms))
        remedy = f"Did you mean “{meant}{at}{account}”?" if meant else ""
        if platform in self.platforms:
            remedy = f"Write platform: {platform}, and account: {account} beside it."
        message = f"There is no platform “{one_line(name)}”."
        self.findings.problem(line, message, remedy or "Install the plugin that offers it, or remove it.")

    def is_wrong_account(self, line: int, platform: str, account: str) -> bool:
        """Whether no account can be called so, which is a problem."""
        problem = account_problem(platform, account)
        if problem is not None:
            self.findings.problem(line, problem.message, problem.hint)
        return problem is not None
