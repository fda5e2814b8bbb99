"""Settings of the memory providers that Hermes brings along."""

from __future__ import annotations

from hermes.domain.settings.declaring import Secret, Section, setting


class HonchoSettings(Section, frozen=True, kw_only=True):
    """Where Honcho is reached."""

    api_key: Secret = setting(Secret(""), "The key for it.", env="HONCHO_API_KEY")
    base_url: str = setting("", "Your own server; empty = the maker's.", env="HONCHO_BASE_URL", form="url")
    workspace: str = setting("hermes", "The workspace there that all agents share.", env="HONCHO_WORKSPACE")


class HindsightSettings(Section, frozen=True, kw_only=True):
    """Where Hindsight is reached."""

    api_key: Secret = setting(Secret(""), "The key for it.", env="HINDSIGHT_API_KEY")
    api_url: str = setting("", "Your own server; empty = the maker's.", env="HINDSIGHT_API_URL", form="url")
    bank: str = setting("hermes", "What the names of all banks there begin with.", env="HINDSIGHT_BANK_ID")
