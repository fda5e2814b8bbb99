"""Dotted keys as people type them: what a key names, where it is kept, and what it holds now."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hermes.domain.address import account_problem
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import NAME_RULE, GatewaySettings, HostedAgent, Settings, is_name
from hermes.domain.text import one_line
from hermes.state.home.findings import nearest
from hermes.state.settings import names
from hermes.state.settings.loader import key_variable
from hermes.state.settings.places import ALIASES, ALSO_UNDER_GATEWAY
from hermes.state.settings.reader import TABLES, suggestion
from hermes.state.settings.values import SettingSpec, knobs, sections

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKey:
    """A variable of `.env`, or a path in `config.yaml` and its field; a platform's own key has no field."""

    variable: str = ""
    path: tuple[str, ...] = ()
    knob: SettingSpec | None = None


def unknown_key(key: str, meant: str) -> UserError:
    hint = f"Did you mean “{meant}”?" if meant else "`hermes config show` lists the keys."
    return UserError(f"“{one_line(key)}” is not a known setting.", hint=hint)


def known_variables() -> list[str]:
    """Every variable that gives a value to a field."""
    known: list[str] = []
    for section in (Settings, *sections(Settings).values()):
        known += [name for knob in knobs(section).values() for name in knob.about.env]
    for platform in sorted(names.PLATFORMS):
        for knob in knobs(PlatformSettings).values():
            known += names.platform_variables(platform, knob.about.env)
    return known


def find_key(key: str, provider: str = "auto", also: Collection[str] = ()) -> SettingKey:
    """`provider` decides which variable holds the model's key; `also` are variables of single platforms."""
    if _VARIABLE.fullmatch(key):
        known = [*known_variables(), *also]
        if names.named_account(key, names.PLATFORMS, also)[0] or names.is_key_like(key) or key in known:
            return SettingKey(variable=key)
        plain, mark, account = key.partition(names.ACCOUNT_MARK)
        meant = nearest(plain if mark else key, known)
        raise unknown_key(key, meant and f"{meant}{mark}{account if mark else ''}")
    parts = _own_place(key.split("."))
    if parts[0] == "platforms" and len(parts) > 2:
        return _platform_key(key, parts)
    tables = sections(Settings, dict)
    kind = {1: Settings, 2: sections(Settings).get(parts[0]), 3: tables.get(parts[0])}.get(len(parts))
    if kind is HostedAgent and not is_name(parts[1]):
        raise UserError(f"An agent cannot be called “{one_line(parts[1])}”.", hint=f"Use {NAME_RULE}.")
    own = knobs(kind) if kind else {}
    knob = own.get(parts[-1])
    if knob is None:
        raise _refused(key, parts, list(own))
    if knob.kind is Secret:
        return SettingKey(variable=key_variable(provider), knob=knob, path=tuple(parts))
    return SettingKey(path=tuple(parts), knob=knob)


def _refused(key: str, parts: list[str], siblings: list[str]) -> UserError:
    if names.is_later(".".join(parts)):
        return UserError(
            f"“{one_line(key)}” is known, but not used yet.", hint="Setting it would do nothing."
        )
    if len(parts) == 1 and (parts[0] in TABLES or parts[0] in sections(Settings)):
        return UserError(f"“{key}” holds several values.", hint="Set them one by one, or edit config.yaml.")
    if len(parts) == 1:
        siblings = [*siblings, *sections(Settings), *knobs(GatewaySettings), *names.PLATFORMS]
    return unknown_key(key, suggestion(".".join(parts), siblings))


def _own_place(parts: list[str]) -> list[str]:
    """The path in the one form that the settings classes have."""
    if parts[0] == "gateway" and len(parts) > 1 and parts[1] in ALSO_UNDER_GATEWAY:
        parts = parts[1:]
    if parts == ["model"]:
        return ["model", "default"]
    if len(parts) == 2 and (parts[0], parts[1]) in ALIASES:
        return [parts[0], ALIASES[parts[0], parts[1]]]
    if len(parts) == 1 and parts[0] in knobs(GatewaySettings):
        return ["gateway", *parts]
    return ["platforms", *parts] if parts[0].partition("@")[0] in names.PLATFORMS else parts


def _platform_key(key: str, parts: list[str]) -> SettingKey:
    account, name = parts[1], parts[2]
    _check_block(key, account)
    own = knobs(PlatformSettings)
    if len(parts) == 3 and name in own:
        return SettingKey(path=tuple(parts), knob=own[name])
    if names.is_key_like(parts[-1]):
        return SettingKey(variable=names.platform_variable(account, "_".join(parts[2:])), path=tuple(parts))
    if nearest(name, list(own)) or not all(parts):
        raise unknown_key(key, suggestion(".".join(parts), list(own)))
    return SettingKey(path=tuple(parts))


def _check_block(key: str, name: str) -> None:
    """A `UserError` if no block can have this name."""
    platform, at, account = name.partition("@")
    if platform not in names.PLATFORMS:
        raise unknown_key(key, suggestion(f"platforms.{platform}", sorted(names.PLATFORMS)))
    problem = account_problem(platform, account) if at else None
    if problem is not None:
        raise problem


def value_at(settings: Settings, key: str) -> Any:
    """What a key holds now: a value, a whole section, or nothing; an unknown key is a `UserError`."""
    parts = _own_place(key.split(".")) if key != "model" else ["model"]
    if len(parts) == 2 and parts[0] == "platforms" and parts[1] not in settings.platforms:
        _check_block(key, parts[1])
        return PlatformSettings()
    held: Any = settings
    for number, part in enumerate(parts):
        if isinstance(held, PlatformSettings) and part not in (*knobs(PlatformSettings), "keys"):
            rest = ".".join(parts[number:])
            held = held.secrets.get(rest) or held.extra.get(rest)
            break
        if isinstance(held, dict):
            held = held.get(part)
        else:
            held = getattr(held, part) if part in getattr(held, "__dataclass_fields__", ()) else None
    if held is None:
        find_key(key)
    return held
