"""Settings that several platforms ask for in the same words."""

from __future__ import annotations

from typing import Any

from hermes.domain.capabilities import SettingField


def optional(env: str, title: str, hint: str = "", **more: Any) -> SettingField:
    """A setting that an operator can do without; `more` are further fields of it."""
    return SettingField(env=env, title=title, required=False, hint=hint, **more)


def proxy_field(variable: str, service: str) -> SettingField:
    title = f"An HTTP proxy through which {service} is reached"
    return optional(variable, title, "For example http://127.0.0.1:3128.")


def listener_fields(variables: str, port: str, hint: str) -> tuple[SettingField, SettingField]:
    """Where an adapter listens that its platform calls."""
    return (
        optional(f"{variables}_PORT", f"The port on which calls are awaited ({port})", hint),
        optional(f"{variables}_HOST", "The address of this machine on which calls are awaited (127.0.0.1)"),
    )
