"""Settings of what agents know beyond a session."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting


class MemorySettings(Section, frozen=True, kw_only=True):
    """What agents know beyond a session."""

    memory_enabled: bool = setting(True, "Whether agents keep notes of their work (MEMORY.md).")
    user_profile_enabled: bool = setting(
        True, "Whether they keep notes of the people they talk to (USER.md)."
    )
    memory_char_limit: int = setting(
        2200,
        "Characters of MEMORY.md that every session is told; what does not fit is found by search.",
        least=1,
    )
    user_char_limit: int = setting(1375, "The same for what is noted of each person.", least=1)
    write_approval: bool = setting(False, "Ask the person before anything is noted.", instead=True)
    flush_min_turns: int = setting(
        6,
        "Messages from which on the agent notes what lasts when a session is left or shortened; 0 = never.",
        least=0,
    )
    provider: str = setting(
        "", "A memory that a plugin brings, beside MEMORY.md and USER.md; empty or `none` = no other."
    )
