"""Settings of platforms that one can do without, and those that several ask for in the same words."""

from __future__ import annotations

from typing import Any

from hermes.domain.chats.capabilities import SettingField


def option(variable: str, title: str, hint: str = "", **more: Any) -> SettingField:
    """A setting that an operator can do without; `more` are further fields of it."""
    return SettingField(env=variable, title=title, hint=hint, required=False, **more)


def proxy_field(variable: str, service: str) -> SettingField:
    title = f"An HTTP or SOCKS proxy through which {service} is reached"
    hint = "For example http://127.0.0.1:3128 or socks5://127.0.0.1:1080; without it, HTTPS_PROXY counts."
    return option(variable, title, hint)


def listener_fields(variables: str, port: str, hint: str) -> tuple[SettingField, SettingField]:
    """Where an adapter listens that its platform calls."""
    host = "The address of this machine on which calls are awaited (127.0.0.1)"
    return (
        option(f"{variables}_PORT", f"The port on which calls are awaited ({port})", hint),
        option(f"{variables}_HOST", host),
    )
