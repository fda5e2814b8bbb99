"""How a client wants one turn answered, in no vendor's words: which function must be called, the form of the
answer, its bounds, and sampling. A wire format prints them; a door reads them off its own request.

They are stored with the turn, so a turn that goes on after a crash has them too. A request that continues a
turn brings its own, which take their place."""

from __future__ import annotations

from msgspec import Struct


class JsonAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer is JSON: any object, or one that fits `schema` (a JSON schema, as text)."""

    name: str = ""
    description: str = ""
    schema: str = ""
    strict: bool | None = None


class CallOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`must_call`: the first model call after the client spoke may call these functions of the client's and
    nothing else, and has to call one. `max_tokens` bounds each reply; one that is cut there ends the answer.
    Without `parallel` a reply has one call at most. What is None or empty is left to the model's service."""

    must_call: tuple[str, ...] = ()
    parallel: bool = True
    json: JsonAnswer | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    effort: str = ""
    verbosity: str = ""


NO_OPTIONS = CallOptions()
