"""Settings by their dotted key, as people type it: what a key names, where it is kept, what it holds now, and
changing or removing it: secrets in `.env`, others in `config.yaml`, whose comments are kept. The new text is
read back before it takes the old one's place, so a file is never left half or wrong."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.domain.chats.address import account_problem
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret, Section
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import (
    DOORS,
    NAME_RULE,
    GatewaySettings,
    HostedAgent,
    PlatformToolsets,
    Settings,
    is_name,
)
from hermes.domain.settings.skills import PlatformSkills
from hermes.domain.text import one_line
from hermes.state.home.findings import SettingsFindings, nearest
from hermes.state.home.textfile import TextFile, decode, read_text, replace_text, sole_writer
from hermes.state.settings import key_places, names, value_reader
from hermes.state.settings.dotenv import parse_dotenv, with_variable
from hermes.state.settings.history import keep_config
from hermes.state.settings.loader import CONFIG_FILE, SECRETS_FILE, check_text, load_settings
from hermes.state.settings.model_access import key_variable
from hermes.state.settings.names import BUILT_IN, PlatformNames
from hermes.state.settings.secrets import looks_like_placeholder
from hermes.state.settings.unsupported_limits import REMOVE, stop_at_limits, stop_at_variable
from hermes.state.settings.values import SettingSpec, WrongValue, convert, knobs, sections
from hermes.state.settings.yaml_tree import YamlMapping, YamlScalar, read_yaml

if TYPE_CHECKING:
    from ruamel.yaml import YAML


_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_INDENTED = re.compile(r"^\S[^\n]*:[^\S\n]*(?:#[^\n]*)?\n( +)[^\s#-]", re.MULTILINE)
_INDENTED_LIST = re.compile(r"^( *)\S[^\n]*:[^\S\n]*(?:#[^\n]*)?\n\1 +- ", re.MULTILINE)
_BY_PLATFORM = {
    ("skills", "platform_disabled"): knobs(PlatformSkills)["disabled"],
    ("platform_toolsets",): knobs(PlatformToolsets)["toolsets"],
}
"""Lists by platform, written without the name of their one field."""
_OWN_KEYS = ("tts", "stt", "image_gen")
"""Sections whose keys are for themselves: they stand in config.yaml, or are variables of their own."""
NOTHING_SET = "# Settings that are not written here have their default.\n"


class SettingKey(Struct, frozen=True, kw_only=True):
    """A variable of `.env`, or a path in `config.yaml` and its field; a platform's own key has no field."""

    variable: str = ""
    path: tuple[str, ...] = ()
    knob: SettingSpec | None = None


def unknown_key(key: str, meant: str) -> UserError:
    hint = f"Did you mean “{meant}”?" if meant else "`hermes config show` lists the keys."
    return UserError(f"“{one_line(key)}” is not a known setting.", hint=hint)


def find_key(key: str, provider: str = "auto", platforms: PlatformNames = BUILT_IN) -> SettingKey:
    """`provider` decides which variable holds the model's key."""
    if _VARIABLE.fullmatch(key):
        known = names.known_variables(platforms)
        named, _ = names.named_account(key, platforms.names, platforms.variables)
        if named or names.is_key_like(key) or key in known:
            return SettingKey(variable=key)
        if key in names.ENVIRONMENT_ONLY:
            raise UserError(f"{key} counts only in the environment, not in .env.", hint=f"export {key}=…")
        plain, mark, account = key.partition(names.ACCOUNT_MARK)
        meant = nearest(plain if mark else key, known)
        raise unknown_key(key, meant and f"{meant}{mark}{account if mark else ''}")
    parts = _own_place(key.split("."), platforms)
    if parts[0] == "platforms" and len(parts) > 2:
        return _platform_key(key, parts, platforms)
    if tuple(parts[:-1]) in _BY_PLATFORM:
        if parts[-1].partition("@")[0] not in (*platforms.names, *DOORS):
            raise unknown_key(key, value_reader.suggestion(key, [*sorted(platforms.names), *DOORS]))
        return SettingKey(path=tuple(parts), knob=_BY_PLATFORM[tuple(parts[:-1])])
    kind = _section_of(parts)
    if kind is HostedAgent and not is_name(parts[1]):
        raise UserError(f"An agent cannot be called “{one_line(parts[1])}”.", hint=f"Use {NAME_RULE}.")
    own = knobs(kind) if kind else {}
    knob = own.get(parts[-1])
    if knob is None:
        raise _refused(key, parts, platforms, own)
    if knob.kind is Secret and parts[0] not in _OWN_KEYS:
        return SettingKey(variable=key_variable(provider), knob=knob, path=tuple(parts))
    return SettingKey(path=tuple(parts), knob=knob)


def _section_of(parts: list[str]) -> type[Section] | None:
    """The class that has the last part as a field. In a table each section stands under a name of its own."""
    kind: type[Section] | None = Settings
    way = iter(parts[:-1])
    for name in way:
        tables = sections(kind, dict)
        kind = tables[name] if name in tables and next(way, None) else sections(kind).get(name)
        if kind is None:
            return None
    return kind


def _holds_several(parts: list[str], platforms: PlatformNames) -> bool:
    if names.is_later(".".join(parts)):
        return False
    if len(parts) == 2 and parts[0] == "platforms":
        return parts[1].partition("@")[0] in platforms.names
    return len(parts) == 1 and (parts[0] in value_reader.TABLES or parts[0] in sections(Settings))


def _refused(key: str, parts: list[str], platforms: PlatformNames, own: Iterable[str]) -> UserError:
    if names.is_later(".".join(parts)):
        return UserError(
            f"“{one_line(key)}” is known, but not used yet.", hint="Setting it would do nothing."
        )
    if _holds_several(parts, platforms):
        return UserError(f"“{key}” holds several values.", hint="Set them one by one, or edit config.yaml.")
    siblings = [*own, *platforms.names]
    if len(parts) == 1:
        siblings += [*sections(Settings), *knobs(GatewaySettings)]
    return unknown_key(key, value_reader.suggestion(".".join(parts), siblings))


def _own_place(parts: list[str], platforms: PlatformNames) -> list[str]:
    """The path in the one form that the settings classes have."""
    if parts[0] == "gateway" and len(parts) > 1 and parts[1] in key_places.ALSO_UNDER_GATEWAY:
        parts = parts[1:]
    if parts == ["model"]:
        return ["model", "default"]
    if parts[0] == "agents" and parts[2:] == ["toolsets"]:
        return [*parts[:2], "enabled_toolsets"]
    if len(parts) == 2 and (parts[0], parts[1]) in key_places.ALIASES:
        return [parts[0], key_places.ALIASES[parts[0], parts[1]]]
    if len(parts) == 1 and parts[0] in knobs(GatewaySettings):
        return ["gateway", *parts]
    return ["platforms", *parts] if parts[0].partition("@")[0] in platforms.names else parts


def _platform_key(key: str, parts: list[str], platforms: PlatformNames) -> SettingKey:
    account, name = parts[1], parts[2]
    _check_block(key, account, platforms)
    own = knobs(PlatformSettings)
    if len(parts) == 3 and name in own:
        return SettingKey(path=tuple(parts), knob=own[name])
    inner = _section_of(parts) if len(parts) > 3 else None
    if inner and parts[-1] in knobs(inner) and knobs(inner)[parts[-1]].kind is not Secret:
        return SettingKey(path=tuple(parts), knob=knobs(inner)[parts[-1]])
    if names.is_key_like(parts[-1]):
        return SettingKey(variable=names.platform_variable(account, "_".join(parts[2:])), path=tuple(parts))
    further = names.own_keys(account.partition("@")[0], platforms.variables)
    if name in further:
        return SettingKey(path=tuple(parts))
    if further or nearest(name, list(own)) or not all(parts):
        raise unknown_key(key, value_reader.suggestion(".".join(parts), [*own, *further]))
    return SettingKey(path=tuple(parts))


def _check_block(key: str, name: str, platforms: PlatformNames) -> None:
    """A `UserError` if no block can have this name."""
    platform, at, account = name.partition("@")
    if platform not in platforms.names:
        raise unknown_key(key, value_reader.suggestion(f"platforms.{platform}", sorted(platforms.names)))
    problem = account_problem(platform, account) if at else None
    if problem is not None:
        raise problem


def value_at(settings: Settings, key: str, platforms: PlatformNames = BUILT_IN) -> Any:
    """What a key holds now: a value, a whole section, or nothing; an unknown key is a `UserError`."""
    parts = _own_place(key.split("."), platforms) if key != "model" else ["model"]
    if len(parts) == 2 and parts[0] == "platforms" and parts[1] not in settings.platforms:
        _check_block(key, parts[1], platforms)
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
            held = getattr(held, part) if part in getattr(held, "__struct_fields__", ()) else None
    if held is None:
        find_key(key, platforms=platforms)
    if isinstance(held, PlatformSkills):
        return held.disabled
    return held.toolsets if isinstance(held, PlatformToolsets) else held


class SettingChange(Struct, frozen=True, kw_only=True):
    """What was changed: the file, and the name under which the value stands there."""

    file: Path
    name: str
    secret: bool


def set_setting(
    home: Path, dotted_key: str, value_text: str, platforms: PlatformNames = BUILT_IN
) -> SettingChange:
    """Write one setting; an unknown key or a wrong value is a `UserError` and changes nothing."""
    _check_limit(dotted_key, value_text, platforms)
    with sole_writer(home):
        provider = load_settings(home, {}).settings.model.provider
        key = find_key(dotted_key, provider, platforms)
        if key.variable:
            return _write_variable(home / SECRETS_FILE, key.variable, value_text)
        return _write_yaml(home / CONFIG_FILE, dotted_key, key, value_text, platforms)


def set_entry(
    home: Path, table: str, name: str, entry: dict[str, Any], platforms: PlatformNames = BUILT_IN
) -> SettingChange:
    """Write a whole entry of a table; one that would not count is a `UserError` and changes nothing."""
    path = home / CONFIG_FILE
    with sole_writer(home):
        file = readable_file(path, yaml=True)
        text = _changed(file.text, (table, name), entry, path)
        known = _problems(file.text, home, platforms)
        for problem in _problems(text, home, platforms):
            if problem not in known:
                raise UserError(f"{table}.{name} cannot be set so: {problem}", hint="Nothing was changed.")
        return _replaced(path, file, text, (table, name))


def _problems(text: str, home: Path, platforms: PlatformNames) -> list[str]:
    return [f"{each.message} {each.hint}" for each in check_text(text, platforms.names)[1]]


def set_settings(home: Path, values: Mapping[str, str | None]) -> None:
    """Write several at once, or take them out (None): all variables in one step, then all keys of
    `config.yaml` in another. What depends on each other is never there by half."""
    with sole_writer(home):
        keys = {name: find_key(name) for name in values}
        path = home / SECRETS_FILE
        text = before = readable_file(path).text
        for name, key in keys.items():
            if key.variable and looks_like_placeholder(values[name] or "-"):
                raise UserError(f"{key.variable} would be a placeholder.", hint="Give the real value.")
            text = with_variable(text, key.variable, values[name]) if key.variable else text
        if text != before:
            replace_text(path, text, 0o600)
        path = home / CONFIG_FILE
        file = readable_file(path, yaml=True)
        text = file.text
        for name, key in keys.items():
            if not key.variable and key.knob is not None:
                given = values[name]
                if given is None:
                    text = _dropped(text, key.path, path)
                else:
                    text = _changed(text, key.path, _plain(convert(key.knob, given)), path)
        if len(check_text(text)[1]) > len(check_text(file.text)[1]):
            raise UserError("The settings would not be read back the same.", hint="Nothing was changed.")
        if text != file.text:
            _replaced(path, file, text, ())


def _dropped(text: str, key: tuple[str, ...], path: Path) -> str:
    """The text without a key, if it stands there."""
    data = load_tree(round_trip(text), text, path)
    place = () if data is None else _place(data, key)
    return _without(text, data, place) or NOTHING_SET if place and _has(data, place) else text


def unset_setting(home: Path, dotted_key: str, platforms: PlatformNames = BUILT_IN) -> SettingChange | None:
    """Take one setting out of its file, so that its default counts again; None if it does not stand there.
    What stands there can be taken out whether it is known or not."""
    with sole_writer(home):
        try:
            key = find_key(dotted_key, load_settings(home, {}).settings.model.provider, platforms)
        except UserError:
            parts = _own_place(dotted_key.split("."), platforms)
            removed = _remove_variable(home / SECRETS_FILE, dotted_key)
            removed = removed or _remove_yaml(home / CONFIG_FILE, dotted_key, tuple(parts))
            if removed is None and not _holds_several(parts, platforms):
                raise
            return removed
        if key.variable:
            return _remove_variable(home / SECRETS_FILE, key.variable)
        return _remove_yaml(home / CONFIG_FILE, dotted_key, key.path)


def _check_limit(dotted_key: str, value: str, platforms: PlatformNames) -> None:
    """A `UserError` if the gateway would not start with this setting."""
    findings = SettingsFindings(CONFIG_FILE)
    name, *parents = reversed(dotted_key.split("."))
    tree = YamlMapping(pairs={name: (1, YamlScalar(text=value, line=1))}, line=1)
    for parent in parents:
        tree = YamlMapping(pairs={parent: (1, tree)}, line=1)
    stop_at_limits(key_places.arrange(tree, platforms.names, findings), findings)
    stop_at_variable(dotted_key, value, None, findings)
    if findings.stops:
        stop = findings.stops[0]
        names = "" if stop.hint == REMOVE else f"{stop.hint} "
        raise UserError(
            stop.message, hint=f"{names}The gateway would not start with it; nothing was changed."
        )


def readable_file(path: Path, *, yaml: bool = False) -> TextFile:
    """The file's text; a `UserError` if it cannot be read, or is to be YAML and is broken."""
    findings = SettingsFindings(str(path))
    file = read_text(path, findings)
    hint = "Nothing was changed."
    if yaml and not findings.problems:
        read_yaml(file, findings)
        hint = "Fix this first; nothing was changed."
    if findings.problems:
        raise UserError(str(findings.problems[0]), hint=hint)
    return file


def _write_variable(path: Path, variable: str, value: str) -> SettingChange:
    if looks_like_placeholder(value):
        raise UserError(f"{variable} would be a placeholder.", hint="Give the real value.")
    text = with_variable(readable_file(path).text, variable, value)
    findings = SettingsFindings(str(path))
    try:
        entries = parse_dotenv(decode(text.encode("utf-8"), findings), SettingsFindings(str(path)))
    except UnicodeEncodeError:
        entries = []
    if findings.problems or (variable, value) not in [(item.name, item.value) for item in entries]:
        raise UserError(f"{variable} cannot hold control characters.", hint="Nothing was changed.")
    replace_text(path, text, 0o600)
    return SettingChange(file=path, name=variable, secret=True)


def _remove_variable(path: Path, variable: str) -> SettingChange | None:
    before = readable_file(path).text
    text = with_variable(before, variable, None)
    if text == before:
        return None
    replace_text(path, text, 0o600)
    return SettingChange(file=path, name=variable, secret=True)


def _write_yaml(
    path: Path, dotted_key: str, key: SettingKey, value_text: str, platforms: PlatformNames
) -> SettingChange:
    try:
        value = convert(key.knob, value_text) if key.knob else _guess(value_text)
    except WrongValue as error:
        raise UserError(
            f"{dotted_key} must be {error.expected}, not “{one_line(value_text, 40)}”.",
            hint=f"Did you mean “{error.meant}”?" if error.meant else "",
        ) from error
    file = readable_file(path, yaml=True)
    text = _changed(file.text, key.path, _plain(value), path)
    _, problems_before = check_text(file.text, platforms.names)
    settings, problems = check_text(text, platforms.names)
    reason = ""
    if len(problems) > len(problems_before):
        reason = str(problems[-1])
    elif value_at(settings, ".".join(key.path), platforms) != (value if key.knob else _spelled(value)):
        reason = "it would not be read back the same."
    if reason:
        raise UserError(f"{dotted_key} cannot be set so: {reason}", hint="Nothing was changed.")
    return _replaced(path, file, text, key.path)


def _remove_yaml(path: Path, dotted_key: str, key: tuple[str, ...]) -> SettingChange | None:
    file = readable_file(path, yaml=True)
    data = load_tree(round_trip(file.text), file.text, path)
    place = () if data is None else _place(data, key)
    if not place or not _has(data, place):
        return None
    wanted = _pruned(data, place)
    refused = UserError(f"{dotted_key} cannot be taken out of {path}.", hint="Edit the file.")
    try:
        text = _without(file.text, data, place)
        text = text if text.strip() else NOTHING_SET  # a file without a word counts as lost
        left = load_tree(round_trip(text), text, path)
    except (KeyError, UserError) as error:  # another value refers to it, or it stands where it refers to
        raise refused from error
    if left != wanted:
        raise refused
    return _replaced(path, file, text, key)


def _replaced(path: Path, file: TextFile, text: str, key: tuple[str, ...]) -> SettingChange:
    keep_config(path.parent, file.text)
    replace_text(path, text, 0o600 if file.mode is None else file.mode)
    return SettingChange(file=path, name=".".join(key), secret=False)


def _pruned(data: Any, place: tuple[str, ...]) -> Any:
    """What is to be left of the settings, if they are read anew."""
    name, *rest = place
    inner = _pruned(data[name], tuple(rest)) if rest else None
    left = {key: value for key, value in data.items() if key != name} | ({name: inner} if inner else {})
    return left or None


def _without(text: str, data: Any, place: tuple[str, ...]) -> str:
    """The text without a key and what belongs to it; a block that would be left empty goes as a whole. Lines
    are taken out, since a round trip would take the remark before the next key along."""
    holders = [data]
    for name in place[:-1]:
        holders.append(holders[-1][name])
    while len(holders) > 1 and len(holders[-1]) == 1:
        holders.pop()
    holder, name = holders[-1], place[len(holders) - 1]
    if holder.fa.flow_style():  # {several: values, in: one line}; no remark can stand between them
        del holder[name]
        out = io.StringIO()
        round_trip(text).dump(data, out)
        return out.getvalue()
    start, column = holder.lc.key(name)
    lines = text.split("\n")
    listed = isinstance(holder[name], list)
    end = start + 1
    while end < len(lines) and _belongs(lines[end], column, listed=listed):
        end += 1
    while not lines[end - 1].strip() or (end - 1 > start and lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return "\n".join([*lines[:start], *lines[end:]])


def _belongs(line: str, column: int, *, listed: bool) -> bool:
    """Whether a line below a key is of its value; items of a list may stand right under the key."""
    indent = len(line) - len(line.lstrip())
    return (
        not line.strip() or indent > column or (listed and indent == column and line.lstrip().startswith("-"))
    )


def _guess(text: str) -> bool | int | str:
    """A platform's own key has no type here: what looks like a switch or a number is written as one."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?[1-9][0-9]{0,17}", text) else text


def _spelled(value: bool | int | str) -> str | None:
    return (str(value).lower() if isinstance(value, bool) else str(value)) or None


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _changed(text: str, path: tuple[str, ...], value: Any, file: Path) -> str:
    """The text of `config.yaml` with one value changed and everything else as it was."""
    from ruamel.yaml.comments import CommentedMap

    yaml = round_trip(text)
    data, kept = load_tree(yaml, text, file), ""
    if data is None:
        # A file of comments only has no mapping that they could belong to.
        data, kept = CommentedMap(), text if text.endswith("\n") or not text else text + "\n"
        yaml.explicit_start = False
    place = _place(data, path)
    target = data
    for name in place[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict):
            if inner is not None and place[:-1] != ("model",):
                raise UserError(f"{file}: {name} holds a value, not settings.", hint="Fix this first.")
            inner = CommentedMap({} if inner is None else {"default": inner})
            target[name] = inner
        target = inner
    target[place[-1]] = value
    out = io.StringIO()
    yaml.dump(data, out)
    return kept + out.getvalue()


def round_trip(text: str) -> YAML:
    """A reader and writer that keeps this text as it is but for what is changed."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 100_000
    yaml.explicit_start = text.startswith("---")
    step = _INDENTED.search(text)
    mapping = len(step[1]) if step else 2
    dash = 2 if _INDENTED_LIST.search(text) else 0
    yaml.indent(mapping=mapping, sequence=dash + 2, offset=dash)
    return yaml


def load_tree(yaml: YAML, text: str, file: Path) -> Any:
    from ruamel.yaml.error import YAMLError

    try:
        return yaml.load(text)
    except (YAMLError, ValueError) as error:
        raise UserError(f"{file} is not valid YAML.", hint="Run: hermes config check") from error


def _place(data: Any, path: tuple[str, ...]) -> tuple[str, ...]:
    """Where in the file the key stands, or else should stand; the places are tried as reading ranks them."""
    places = [path]
    if path[0] == "platforms" and path[1:]:
        places = [path[1:], path, ("gateway", *path)]
    elif path[0] == "gateway" and path[1:]:
        places = [path[1:], path]
    elif path[0] in key_places.ALSO_UNDER_GATEWAY:
        places = [path, ("gateway", *path)]
        if path[-1] == "enabled_toolsets":
            places = [(*place[:-1], name) for place in places for name in ("enabled_toolsets", "toolsets")]
    elif path == ("model", "default"):
        scalar = "model" in data and not isinstance(data["model"], dict)
        places = [("model",)] if scalar else [path, ("model", "model")]
    for place in places:
        if _has(data, place):
            return place
    for place in places:
        if len(place) > 1 and _has(data, place[:-1]):
            return place
    return path


def _has(data: Any, place: tuple[str, ...]) -> bool:
    for name in place:
        if not isinstance(data, dict) or name not in data:
            return False
        data = data[name]
    return True
