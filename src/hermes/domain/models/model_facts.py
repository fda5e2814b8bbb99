"""What is known of a model, as data. What is not known is None, never a guess."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ModelRole(StrEnum):
    """What a model is asked for. Each role may have a model of its own; the main one does the rest."""

    MAIN = "main"
    TITLE = "title"
    SUMMARY = "summary"
    VISION = "vision"
    APPROVAL = "approval"


class MediaRole(StrEnum):
    """What a service is asked for beside conversations; what it takes is counted under this name."""

    STT = "stt"
    TTS = "tts"
    IMAGE_GEN = "image_gen"


TASK_MODEL = ":task"
"""What an agent answers with instead of its own model where it is asked for a small task beside a
conversation, like a title: the model of the role `title`. API clients write it behind the agent's name."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """`window` is how many tokens it reads and writes together, `max_output` how many it writes at most.
    Prices are dollars for a million tokens; a prompt of more tokens than `long_after` has prices of its own,
    and one of fewer than `cache_floor` is not cached."""

    window: int | None = None
    max_output: int | None = None
    images: bool | None = None
    tools: bool | None = None
    thinking: bool | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    long_after: int | None = None
    price_long_in: float | None = None
    price_long_out: float | None = None
    cache_floor: int | None = None
