"""Settings of how agents behave and what of their work is shown: personalities, hints, thinking, pauses, the
footer, and what differs by platform."""

from __future__ import annotations

from hermes.domain.settings.declaring import Names, Section, setting

EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
PROGRESS = ("off", "new", "all", "verbose")
FOOTER_FIELDS = ("model", "context_pct", "tokens", "cost", "cwd")


class Personality(Section, frozen=True, kw_only=True):
    """How an agent speaks when it is asked to be like this. `name: text` is short for its `system_prompt`."""

    system_prompt: str = setting("", "What the model is told.")
    description: str = setting("", "What `/personality` lists.")
    tone: str = setting("", "The tone, in a few words.")
    style: str = setting("", "The style, in a few words.")

    @property
    def text(self) -> str:
        told = (self.system_prompt, self.tone and f"Tone: {self.tone}", self.style and f"Style: {self.style}")
        return "\n".join(part for part in told if part)


class PlatformHint(Section, frozen=True, kw_only=True):
    """What the model is told about a platform. `name: text` is short for `append`."""

    append: str = setting("", "Said beside what Hermes says about it.")
    replace: str = setting("", "Said in place of what Hermes says about its format.")


class ReasoningOverride(Section, frozen=True, kw_only=True):
    """How hard one model thinks; `name: level` is short for it."""

    effort: str = setting("", "The level.", choices=EFFORTS)


class HumanDelay(Section, frozen=True, kw_only=True):
    """Pauses between the messages of one answer in a chat. `human_delay: natural` is short for its `mode`."""

    mode: str = setting(
        "off",
        "`off`; `natural` = between 0.8 and 2.5 seconds; `custom` = between `min_ms` and `max_ms`.",
        choices=("off", "natural", "custom"),
    )
    min_ms: int = setting(800, "The shortest pause.", least=0, most=60_000)
    max_ms: int = setting(2500, "The longest.", least=0, most=60_000)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The shortest and the longest pause in seconds; None for no pause."""
        if self.mode == "off":
            return None
        low, high = (800, 2500) if self.mode == "natural" else (self.min_ms, self.max_ms)
        return low / 1000, max(low, high) / 1000


class RuntimeFooter(Section, frozen=True, kw_only=True):
    """A line under each answer in a chat. `runtime_footer: on` is short for `enabled`."""

    enabled: bool = setting(False, "Whether it is shown; `/footer` decides for one session.")
    fields: Names = setting(
        ("model", "context_pct", "tokens", "cost"),
        "What it tells, as far as it is known.",
        choices=FOOTER_FIELDS,
    )


class PlatformDisplay(Section, frozen=True, kw_only=True):
    """What one platform shows; what is empty is as for all."""

    tool_progress: str = setting("", "As `display.tool_progress`.", choices=("", *PROGRESS))
    show_reasoning: bool | None = setting(None, "As `display.show_reasoning`.")
    reasoning_full: bool | None = setting(None, "As `display.reasoning_full`.")
    streaming: bool | None = setting(None, "As `display.streaming`.")
    interim_assistant_messages: bool | None = setting(None, "As `display.interim_assistant_messages`.")
    tool_preview_length: int | None = setting(None, "As `display.tool_preview_length`.", least=0, most=1000)
    runtime_footer: bool | None = setting(None, "Whether the footer is shown there.")
