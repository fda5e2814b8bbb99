"""What a model's service said when it did not answer, as one `ModelFault` with its kind.

Owns the table by which kinds are decided: first the status, then the vendor's own code, and only then its
sentences. Texts from outside are cut to a line, and keys in them blotted out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from msgspec import Struct, field

from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import one_line

MOST_ERROR_BYTES = 64 * 1024
_LONGEST_WAIT = 366 * 86_400.0
_KEYS = late_pattern(r"\b(?:sk|pk|key|tok|gsk|xai|AIza)[-_A-Za-z0-9*.]{6,}", re.IGNORECASE)
_BEARER = late_pattern(r"(?i)\bbearer\s+\S+")
_RETRY_INFO = "RetryInfo"
_NO_QUOTA = late_pattern(r"\blimit: 0\b")
_SECONDS = late_pattern(r"(\d{1,9}(?:\.\d{1,9})?)s")
_OVERLOADED = frozenset({429, 502, 503, 529})
_ANSWERED = frozenset(range(600)) - _OVERLOADED
"""Statuses of a service that looked at the request; 0 is an error in a body that names no status."""


def _sentence(*words: str) -> re.Pattern[str]:
    return late_pattern("|".join(words), re.IGNORECASE)


class FaultRule(Struct, frozen=True, kw_only=True):
    """What an error with one of these statuses means, if it also has one of the codes or sentences; a rule
    without either looks at the status alone. `source` says where the vendor tells so."""

    kind: FaultKind
    source: str
    statuses: Container[int] = _ANSWERED
    codes: frozenset[str] = frozenset()
    words: re.Pattern[str] | None = None
    only_this: bool = False

    def fits(self, details: ModelErrorDetails) -> bool:
        if details.status not in self.statuses:
            return False
        if not self.codes and self.words is None:
            return True
        if not self.codes.isdisjoint(details.codes):
            return True
        text = f"{' '.join(sorted(details.codes))} {details.message}"
        return self.words is not None and self.words.search(text) is not None


_OPENAI = "developers.openai.com/docs/guides/error-codes"
_OPENROUTER = "openrouter.ai/docs/api/reference/errors-and-debugging"
_ANTHROPIC = "platform.claude.com/docs/en/api/errors"
_RESPONSES = "github.com/openai/openai-python, types/responses/response_error.py"
_NO_TOOLS = _sentence("no endpoints found that support tool use", "does not support tools")
_SEEN = "sentences of OpenAI, OpenRouter, Ollama, vLLM, llama.cpp and DeepSeek; there is no code for it"

RULES: tuple[FaultRule, ...] = (
    FaultRule(kind=FaultKind.BAD_KEY, statuses={401}, source=f"{_OPENAI}; {_OPENROUTER}"),
    FaultRule(
        kind=FaultKind.BAD_KEY,
        statuses={0},
        codes=frozenset({"authentication_error", "permission_error"}),
        source=f"{_ANTHROPIC}: errors in a stream have no status",
    ),
    FaultRule(kind=FaultKind.NO_CREDIT, statuses={402}, source=f"{_OPENROUTER}: insufficient credits"),
    FaultRule(
        kind=FaultKind.NO_CREDIT,
        statuses={0, 400},
        codes=frozenset({"billing_error"}),
        words=_sentence("credit balance is too low"),
        source=f"{_ANTHROPIC}; github.com/anthropics/claude-code/issues/5300: 400 without credit",
    ),
    FaultRule(
        kind=FaultKind.BUSY,
        statuses={429},
        codes=frozenset({_RETRY_INFO}),
        source="github.com/RooCodeInc/Roo-Code/issues/3883: Gemini calls its limit per minute a quota",
    ),
    FaultRule(
        kind=FaultKind.NO_CREDIT,
        statuses={0, 429},
        codes=frozenset({"insufficient_quota", "credit_balance_exhausted"}),
        words=_sentence("quota|credit|billing|payment|balance"),
        source=f"{_OPENAI}: 429 also says that the quota is used up",
    ),
    FaultRule(kind=FaultKind.TOO_LONG, statuses={413}, source="RFC 9110, 15.5.14"),
    FaultRule(
        kind=FaultKind.TOO_LONG,
        codes=frozenset(
            {
                "context_length_exceeded",
                "exceed_context_size_error",
                "request_too_large",
                "model_max_prompt_tokens_exceeded",
                "1261",
            }
        ),
        words=_sentence(
            "context.{0,20}(length|window|size|limit)",
            "maximum.{0,20}tokens",
            "too many tokens",
            "prompt is too long",
            "exceed(s|ed)?.{0,30}(context|tokens|token limit|max length)",
            "maximum prompt length",
            "input is too long",
        ),
        # xAI: github.com/cline/cline/issues/3120; Kimi: github.com/MoonshotAI/kimi-cli/issues/2011; Z.AI's
        # 1261: github.com/mangowhoiscloud/geode/pull/668.
        # Together says so with 403 (docs.together.ai/docs/error-codes), llama.cpp with 400 or 500.
        source=f"{_OPENAI}; {_OPENROUTER}; github.com/ggml-org/llama.cpp/pull/15780",
    ),
    FaultRule(
        kind=FaultKind.FILTERED,
        statuses={403},
        words=_sentence("moderation|flagged"),
        source=f"{_OPENROUTER}: 403, the input was flagged",
    ),
    FaultRule(kind=FaultKind.BAD_KEY, statuses={403}, source=f"{_OPENAI}: 403, not allowed from there"),
    FaultRule(
        kind=FaultKind.FILTERED,
        codes=frozenset({"bio_policy", "misalignment_policy_violation", "image_content_policy_violation"}),
        source=_RESPONSES,
    ),
    FaultRule(
        kind=FaultKind.NO_IMAGES,
        words=_sentence(
            r"\b(invalid|empty|unsupported|failed_to_download)(_base64)?_image",
            r"\bimage_(too|parse|file)_",
        ),
        only_this=True,
        source=_RESPONSES,
    ),
    # Before what may work later: llama.cpp answers so with 500.
    FaultRule(
        kind=FaultKind.NO_IMAGES,
        words=_sentence(
            r"(?:image|vision|picture|multi-?modal)[^.]{0,60}"
            r"(?:not (?:be )?(?:supported|enabled|allowed|available)|disabled|only supported)",
            r"(?:unsupported|not support(?:ed)?|n't support|not accept)[^.]{0,40}"
            r"(?:image|vision|multi-?modal)",
            r"not a (?:vision|multi-?modal)|no endpoints found that support image|at most 0 image",
            r"unknown variant [^a-z]?image_url|content[^.]{0,30} must be a string",
        ),
        source=_SEEN,
    ),
    FaultRule(
        kind=FaultKind.BUSY,
        statuses={0, 408, 409, 423, 425, 429, 503, 529},
        codes=frozenset(
            {
                "rate_limit_exceeded",
                "rate_limit_error",
                "overloaded_error",
                "server_is_overloaded",
                "slow_down",
            }
        ),
        words=_sentence("overloaded|rate limit"),  # also the code server_is_overloaded
        source=f"{_OPENAI}; {_OPENROUTER}; docs.anthropic.com/en/api/errors: 529",
    ),
    FaultRule(
        kind=FaultKind.BUSY,
        statuses={408, 409, 423, 425, 429, 503, 529},
        source=f"{_OPENROUTER}: 408, 429, 503; llama.cpp answers 503 while it loads a model",
    ),
    FaultRule(
        kind=FaultKind.BAD_REQUEST,
        statuses={0},
        codes=frozenset({"invalid_request_error", "invalid_prompt", "data_residency_mismatch"}),
        source=f"{_ANTHROPIC}; {_RESPONSES}: in a stream, and no better the next time",
    ),
    FaultRule(
        kind=FaultKind.NO_MODEL,
        statuses={0},
        codes=frozenset({"not_found_error"}),
        source=f"{_ANTHROPIC}: in a stream",
    ),
    FaultRule(kind=FaultKind.BROKEN, statuses={0, *range(500, 600)}, source=f"{_OPENAI}; {_OPENROUTER}"),
    FaultRule(
        kind=FaultKind.NO_MODEL,
        statuses={400, 404},
        words=_NO_TOOLS,
        source="OpenRouter (404) and Ollama (400), for a model that takes no tools",
    ),
    FaultRule(
        kind=FaultKind.NO_MODEL,
        codes=frozenset({"model_not_found"}),
        source=f"{_OPENAI}; Ollama and vLLM answer 404",
    ),
    FaultRule(kind=FaultKind.NO_MODEL, statuses={404, *range(100, 400)}, source="RFC 9110"),
    FaultRule(
        kind=FaultKind.FILTERED,
        codes=frozenset({"content_filter", "content_policy_violation"}),
        words=_sentence("content.{0,10}(filter|policy|management)|safety|moderation"),
        source="learn.microsoft.com/azure/ai-services/openai/concepts/content-filter",
    ),
    FaultRule(
        kind=FaultKind.NO_IMAGES,
        words=_sentence(r"\bimages?\b|image_url"),
        only_this=True,
        source=f"{_SEEN}; the picture itself may be at fault",
    ),
)
"""The first rule that fits decides; what fits none is a bad request."""


class Quirk(Struct, frozen=True, kw_only=True):
    """A feature that a request can do without, and the words with which services refuse it. It is left out of
    later requests too: of those of the session, or of all to that model. `notice` tells people what they
    wanted and do not get."""

    feature: str
    words: re.Pattern[str]
    source: str
    of_session: bool = False
    notice: str = ""


QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        feature="kept",
        words=_sentence(
            r"invalid `?signature`? in `?thinking`? block",
            "expected `?thinking`? or `?redacted_thinking`?",
            "thinking.{0,40}cannot be modified",
        ),
        of_session=True,
        source="github.com/anthropics/claude-code/issues/10627; github.com/anomalyco/opencode/issues/15074",
    ),
    Quirk(
        feature="kept",
        words=_sentence(
            "encrypted content.{0,120}could not be (verified|decrypted)",
            "item.{0,20}'?rs_.{0,80}not found",
            "required following item",
        ),
        of_session=True,
        source="github.com/openai/codex/issues/8132; the item's own words when it is not stored",
    ),
    Quirk(
        feature="encrypted",
        words=_sentence("encrypted content is not supported", "encrypted_content.{0,40}not supported"),
        source="github.com/pydantic/pydantic-ai/issues/3326",
    ),
    Quirk(
        feature="deferral",
        words=_sentence("tool reference .{0,80}no corresponding tool definition"),
        of_session=True,
        source="platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool: missing definition",
    ),
    Quirk(
        feature="deferral",
        words=_sentence(
            "tool_search'? is not supported",
            r"defer_loading\b.{0,60}(extra inputs|not (permitted|supported|allowed)|unknown|unexpected)",
            "(unknown|unrecognized|unexpected|unsupported|invalid).{0,40}(defer_loading|tool_reference|tool_search)",
            "'?tool_(reference|search)'?.{0,60}(does not match|not support|not permitted|not allowed)",
        ),
        source="github.com/Oaklight/llm-rosetta/issues/394; how schemas refuse a field or a tag",
    ),
    Quirk(
        feature="cache_marks",
        words=_sentence(
            "cache_control.{0,60}(extra inputs|not (permitted|supported|allowed))",
            "(unknown|unrecognized|unexpected|extra).{0,40}cache_control",
            "tool.{0,60}content.{0,30}(must|should) be a (valid )?string",
        ),
        source="github.com/langchain-ai/langchain/issues/33965: parts in tool messages",
    ),
    Quirk(
        feature="token_limit",
        words=_sentence("max_tokens.{0,40}not supported", "max_completion_tokens.{0,40}(not|unknown|extra)"),
        source="platform.openai.com/docs/api-reference/chat: max_tokens and max_completion_tokens",
    ),
    Quirk(
        feature="summary",
        words=_sentence("verified to generate reasoning summar", r"reasoning\.summary\b"),
        notice="{model} tells nothing of its thoughts: its service wants the organization verified first.",
        source="github.com/continuedev/continue/issues/9283: organizations that are not verified",
    ),
    Quirk(
        feature="stream",
        words=_sentence("organization must be verified to stream this model"),
        notice="{model} answers all at once: its service wants the organization verified to stream.",
        source="community.openai.com: organizations that are not verified, param `stream`",
    ),
    Quirk(
        feature="call_ids",
        words=_sentence("tool call id .{0,80}must be a-z, A-Z, 0-9"),
        source="github.com/anomalyco/opencode/issues/1680: Mistral wants ids of nine letters and digits",
    ),
    Quirk(
        feature="signatures",
        words=_sentence("missing a `?thought_signature"),
        source="ai.google.dev/gemini-api/docs/thought-signatures: a stand-in where one was lost",
    ),
    Quirk(
        feature="sampling",
        words=_sentence(
            r"\b(temperature|top_p)\b['`\"]?.{0,60}"
            "(not support|n't support|may only be|unsupported|deprecated|cannot be set)",
            r"(unsupported|unknown|unrecognized) (parameter|value).{0,20}\b(temperature|top_p)\b",
        ),
        notice="{model} does not take this temperature or top_p and answers with its own.",
        source="developers.openai.com/api/docs/guides/reasoning; platform.claude.com/…/extended-thinking",
    ),
    Quirk(
        feature="effort",
        words=_sentence(
            r"(reasoning(_effort|\.effort)?|thinking|effort)\b['`\"]?.{0,60}"
            "(not support|n't support|unsupported|not permitted|not allowed|unknown|extra inputs)",
            "(unsupported|unknown|unrecognized|invalid).{0,40}(reasoning|thinking|effort)",
            "does not support (reasoning|thinking|the effort)",
        ),
        notice="{model} does not take this reasoning effort and answers as it likes.",
        source="developers.openai.com/api/docs/guides/reasoning: which models take which effort",
    ),
)
"""The first that fits decides; a call is made again once, without the feature."""


def quirk_of(fault: ModelFault) -> Quirk | None:
    """What the service would not take, if one can do without it."""
    if fault.kind not in (FaultKind.BAD_REQUEST, FaultKind.NO_IMAGES) or not fault.quote:
        return None
    return next((quirk for quirk in QUIRKS if quirk.words.search(fault.quote)), None)


CONTEXT_TOO_LONG = "the conversation is longer than this model can read."
SHORTEN = "Shorten it with /compress, begin anew with /new, or choose a model that reads more."
NEW_KEY = "`hermes auth list` names where the keys of each provider are set."
FILTERED = "its content filter withheld the answer."
OTHER_WORDS = "Say it in other words."


class ModelErrorDetails(Struct, frozen=True, kw_only=True):
    """An error as it came: its status (or the code in a body), its words and codes, when to try again."""

    status: int
    message: str = ""
    codes: frozenset[str] = field(default_factory=frozenset)
    after: float | None = None


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secret: str = ""
) -> ModelErrorDetails:
    """Read an answer with an error status. What is not JSON (a proxy's page) is not repeated."""
    after = read_retry_after(headers)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return ModelErrorDetails(status=status, after=after)
    if isinstance(data, list) and data:
        data = data[0]  # as Google's compatible API answers
    error = data.get("error", data) if isinstance(data, dict) else data
    details = read_error_object(error, secret=secret)
    after = details.after if after is None else after
    return ModelErrorDetails(status=status, message=details.message, codes=details.codes, after=after)


def read_error_object(error: object, *, secret: str = "") -> ModelErrorDetails:
    """Read the `error` of a body; some services answer 200 and put the status into its code."""
    if not isinstance(error, dict):
        return ModelErrorDetails(
            status=0, message=_clean(str(error), secret) if isinstance(error, str) else ""
        )
    code = error.get("code")
    status = code if isinstance(code, int) else 0
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        status = int(code)
    message = str(error.get("message") or error.get("detail") or "")
    after = _retry_delay(error.get("details"))
    passing = _RETRY_INFO if after is not None and not _NO_QUOTA.search(message) else None
    codes = frozenset(name for name in (code, error.get("type"), passing) if isinstance(name, str))
    return ModelErrorDetails(status=status, message=_clean(message, secret), codes=codes, after=after)


def _retry_delay(details: object) -> float | None:
    """Seconds to wait as Google says it: in the body (google.rpc.RetryInfo), not in a header."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        seconds = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if seconds:
            return min(float(seconds[1]), _LONGEST_WAIT)
    return None


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from a number of seconds or a date."""
    told = headers.get("Retry-After", "").strip()
    if not told:
        return None
    try:
        return min(max(0.0, float(told)), _LONGEST_WAIT)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(told)
    except (ValueError, TypeError, IndexError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - datetime.now(UTC)).total_seconds()), _LONGEST_WAIT)


def fault_for(details: ModelErrorDetails, *, model: str, place: str) -> ModelFault:
    """The fault that these details are. `place` is the address that was asked, without credentials."""
    rule = next((rule for rule in RULES if rule.fits(details)), None)
    kind = FaultKind.BAD_REQUEST if rule is None else rule.kind
    if kind is FaultKind.BUSY and details.status == 429:
        kind = FaultKind.LIMITED_UNTIL
    quote = f" (“{details.message}”)" if details.message else ""
    message, hint = _words(kind, details, model, place, quote)
    only_this = rule is not None and rule.only_this
    if only_this:
        message = f"{place} answered with {details.status}{quote}."
    until = None if details.after is None else datetime.now(UTC) + timedelta(seconds=details.after)
    if kind is FaultKind.LIMITED_UNTIL and until is not None:
        message += f", and asks to wait until {until:%H:%M:%S} UTC"
    return ModelFault(
        message,
        kind=kind,
        hint=hint,
        after=details.after,
        until=until,
        only_this=only_this,
        quote=details.message,
    )


def _words(
    kind: FaultKind, details: ModelErrorDetails, model: str, place: str, quote: str
) -> tuple[str, str]:
    """What happened, and what a person can do about it."""
    match kind:
        case FaultKind.BAD_KEY if details.status == 401:
            return f"{place} did not accept the key.", NEW_KEY
        case FaultKind.BAD_KEY:
            return f"{place} does not allow this{quote}.", "Check the key and what it may use."
        case FaultKind.NO_CREDIT:
            message = f"the account has no credit or quota left{quote}."
            return message, "Add some, or choose another model."
        case FaultKind.TOO_LONG:
            return CONTEXT_TOO_LONG, SHORTEN
        case FaultKind.NO_IMAGES:
            return f"this model takes no pictures{quote}.", ""
        case FaultKind.FILTERED:
            return FILTERED, OTHER_WORDS
        case FaultKind.NO_MODEL if _NO_TOOLS.search(details.message):
            hint = "Choose another with /model, or switch all toolsets off for it."
            return f"“{one_line(model)}” at {place} takes no tools.", hint
        case FaultKind.NO_MODEL if "model" in f"{' '.join(details.codes)} {details.message}".lower():
            return f"There is no model “{one_line(model)}” at {place}.", "Choose another with /model."
        case FaultKind.NO_MODEL if details.status == 404:
            return f"There is nothing at {place}.", "Check model.base_url, which mostly ends in /v1."
        case FaultKind.NO_MODEL:
            message = f"No model answers: {place} answered with {details.status}, a way to somewhere else."
            return message, "Check model.base_url."
        case FaultKind.BUSY | FaultKind.LIMITED_UNTIL | FaultKind.BROKEN:
            return f"{place} answered with {details.status or 'an error'}{quote}", ""
        case FaultKind.BAD_REQUEST:
            return f"{place} answered with {details.status}{quote}.", ""


def _clean(text: str, secret: str) -> str:
    if len(secret) >= 4:
        text = text.replace(secret, "***")
    return one_line(_BEARER.sub("***", _KEYS.sub("***", text)), 200).rstrip(".")
