"""Reference pages made from the code, so that they cannot tell anything else than it does."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from hermes.domain.settings import HostedAgent, PlatformSettings, RouteMatch, Secret, Settings
from hermes.state.setting_names import LATER, PLATFORMS, platform_variables
from hermes.state.setting_places import ALSO_UNDER_GATEWAY
from hermes.state.setting_values import Knob, expected, knobs, sections

_HEAD = "| Key | Holds | Default | Variable | Meaning |\n|---|---|---|---|---|\n"
_INTRODUCTION = """# Settings

This page is made from `src/hermes/domain/settings.py` by `hermes.admin.reference`; change it there.

`config.yaml` holds the settings, `.env` the secrets. The environment beats `.env`, and `.env` beats
`config.yaml`; only `enabled: false` of a platform in `config.yaml` beats every variable.
`hermes config check` tells what is wrong, with file and line.
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
        _table(HostedAgent, "agents.<id>."),
        "\n## routes\n\nA list of `{match: {…}, agent: <id>}`, tried in order; the first match counts.\n"
        "A route with a mistake in it does not count at all.\n\n",
        _table(RouteMatch, "match."),
        f"\n## platforms\n\n{_told(PlatformSettings)}\n\n",
        _table(PlatformSettings, "platforms.<name>."),
        _platforms(),
        _later(),
    ]
    return "".join(parts)


def _told(section: type) -> str:
    return " ".join((section.__doc__ or "").split())


def _table(section: type, prefix: str) -> str:
    return _HEAD + "".join(_row(knob, prefix) for knob in knobs(section).values())


def _row(knob: Knob, prefix: str) -> str:
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
        "| Platform | Allowed users | Home channel |\n|---|---|---|\n" + "".join(rows)
    )


def _later() -> str:
    names = ", ".join(f"`{name}`" for name in sorted(LATER))
    return f"\n## Known, but not used yet\n\nThese are accepted and do nothing: {names}.\n"
