"""Settings that several platforms ask for in the same words."""

from __future__ import annotations

from hermes.domain.capabilities import SettingField


def proxy_field(variable: str, service: str) -> SettingField:
    return SettingField(
        env=variable,
        title=f"An HTTP proxy through which {service} is reached",
        required=False,
        hint="For example http://127.0.0.1:3128.",
    )


def listener_fields(variables: str, port: str, hint: str) -> tuple[SettingField, SettingField]:
    """Where an adapter listens that its platform calls."""
    return (
        SettingField(
            env=f"{variables}_PORT",
            title=f"The port on which calls are awaited ({port})",
            required=False,
            hint=hint,
        ),
        SettingField(
            env=f"{variables}_HOST",
            title="The address of this machine on which calls are awaited (127.0.0.1)",
            required=False,
        ),
    )
