"""How an agent was asked to behave in one session, beside what the settings say. What is empty is as they
say."""

from __future__ import annotations

from msgspec import Struct

NO_PERSONALITY = "none"


class Manner(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`personality` is a name, never its words; `thoughts` says whether what the model thinks is shown, and
    `full` whether all of it; `footer` whether a line tells what an answer took; `progress` is what is shown
    of tools at work, `tools_off` what the session does without of its toolsets and tools."""

    personality: str = ""
    effort: str = ""
    thoughts: bool | None = None
    full: bool | None = None
    footer: bool | None = None
    progress: str = ""
    tools_off: tuple[str, ...] = ()


NO_MANNER = Manner()
