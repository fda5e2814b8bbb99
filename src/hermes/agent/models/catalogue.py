"""What is published of models: a trimmed copy of models.dev (MIT), one line per model, in the package and,
once refreshed, in the home. A look-up reads the file and keeps only what it was asked for: a gateway does not
hold thousands of models in memory. Nothing is guessed: what is not published is None."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.word import replace

SOURCE = "https://models.dev/api.json"
PACKAGED = Path(__file__).with_name("catalogue.tsv")
REFRESHED = "models.tsv"
_VENDORS = """openai anthropic google mistral deepseek xai zai moonshotai minimax alibaba llama cohere
    stepfun xiaomi"""
VENDORS = tuple(_VENDORS.split())
"""Who makes models: a name that is not listed for a provider is looked up here."""
_ALSO = """openrouter groq amazon-bedrock google-vertex kimi-for-coding togetherai fireworks-ai cerebras
    nvidia ollama-cloud azure deepinfra huggingface perplexity github-models nebius novita-ai"""
_KEPT = (*VENDORS, *_ALSO.split())
_FLAGS = {"images": "i", "tools": "t", "thinking": "k"}
_PRICES = {"input": "price_in", "output": "price_out", "cache_read": "price_cache_read"}
_PRICES |= {"cache_write": "price_cache_write"}
_MARKS = ("-", ":", "@")
_MOST_CACHED = 256
_LEAST_MODELS = 200
# platform.claude.com/docs/en/build-with-claude/prompt-caching, platform.openai.com/docs/guides/prompt-caching
_FLOORS = {
    "claude-opus-5": 512,
    "claude-fable-5": 512,
    "claude-opus-4-8": 1024,
    "claude-opus-4-7": 2048,
    "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096,
    "claude-haiku-4-5": 4096,
    "claude-3-5-haiku": 2048,
    "claude-3-haiku": 2048,
    "claude-": 1024,
    "gpt-": 1024,
    "o1": 1024,
    "o3": 1024,
    "o4": 1024,
}


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model of a provider, what is known of it, and the day it came out."""

    name: str
    facts: ModelFacts
    release: str = ""


def trim(published: Mapping[str, Any], day: str) -> str:
    """The catalogue's text from the JSON of models.dev. `ValueError` if that is something else."""
    lines: list[str] = []
    for provider in _KEPT:
        held = published.get(provider)
        models = held.get("models") if isinstance(held, dict) else None
        for name, model in sorted(models.items()) if isinstance(models, dict) else ():
            if isinstance(model, dict) and isinstance(name, str) and "\t" not in name and "\n" not in name:
                lines += _line(provider, name, model)
    if len(lines) < _LEAST_MODELS:
        raise ValueError(f"only {len(lines)} models")
    return "\n".join([f"# models.dev {day}", *lines, ""])


def _line(provider: str, name: str, model: Mapping[str, Any]) -> Iterator[str]:
    limit, cost, kinds = (_part(model, key) for key in ("limit", "cost", "modalities"))
    speaks = "text" in (kinds.get("output") or ("text",))
    if "embed" in name.lower() or not speaks or not limit.get("context"):
        return
    held = {
        "images": "image" in (kinds.get("input") or ()),
        "tools": model.get("tool_call") is True,
        "thinking": model.get("reasoning") is True,
    }
    flags = "".join(mark for key, mark in _FLAGS.items() if held[key])
    values = [limit.get("context"), limit.get("output"), flags, *map(cost.get, _PRICES)]
    values += [model.get("release_date"), _long(cost)]
    cells = ["" if value is None else str(value) for value in values]
    yield "\t".join([provider, name, *cells]).rstrip("\t")


def _long(cost: Mapping[str, Any]) -> str | None:
    """From how many tokens on a prompt costs more, and what it and its answer cost then."""
    for tier in cost.get("tiers") or ():
        size = _part(tier, "tier") if isinstance(tier, dict) else {}
        if size.get("type") == "context" and tier.get("input") is not None:
            return f"{size.get('size')} {tier['input']} {tier.get('output', '')}"
    return None


def _part(model: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    held = model.get(key)
    return held if isinstance(held, dict) else {}


class ModelCatalogue:
    """The newer of the packaged file and the one in the `folder` of a home."""

    def __init__(self, folder: Path | None = None) -> None:
        self._refreshed = None if folder is None else folder / REFRESHED
        self._cached: dict[tuple[str, str], ModelFacts] = {}

    def facts(self, provider: str, name: str) -> ModelFacts:
        """What is known of a model, by what models.dev calls its provider; of one that is not listed there,
        what is known of the vendor's model whose name it begins with."""
        key = (provider, name)
        if key not in self._cached:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            self._cached[key] = self._find(provider, name.strip().lower())
        return self._cached[key]

    def models(self, provider: str) -> list[KnownModel]:
        """Those of a provider, the newest first."""
        lines = (line for line in self._text().splitlines() if line.startswith(f"{provider}\t"))
        known = [_read(line) for line in lines] if provider else []
        return sorted(known, key=lambda model: model.release, reverse=True)

    def forget(self) -> None:
        """Read the files anew from now on."""
        self._cached.clear()

    def write(self, text: str) -> None:
        """Keep a text that `trim` made as the home's own."""
        assert self._refreshed is not None
        self._refreshed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._refreshed.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._refreshed)
        self.forget()

    @property
    def day(self) -> str:
        return _day(self._text())

    def _text(self) -> str:
        packaged = PACKAGED.read_text(encoding="utf-8")
        try:
            own = "" if self._refreshed is None else self._refreshed.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            own = ""
        return own if _day(own) > _day(packaged) else packaged

    def _find(self, provider: str, name: str) -> ModelFacts:
        if not name:
            return ModelFacts()
        text = self._text()
        vendor, _, bare = name.rpartition("/")
        lowered = text.lower()
        holders = ((provider, name), (vendor.rpartition("/")[2], bare), *((one, bare) for one in VENDORS))
        for holder, word in holders:
            for spelled in (word, word.replace(".", "-")):
                at = lowered.find(f"\n{holder}\t{spelled}\t") if holder else -1
                if at >= 0:
                    return _read(text[at + 1 : text.index("\n", at + 1)]).facts
        pairs = (line.split("\t", 2)[:2] for line in lowered.split("\n") if line.startswith(VENDORS))
        families = [pair[1] for pair in pairs if pair[0] in VENDORS and bare.startswith(_after(pair[1]))]
        return self._find("", max(families, key=len)) if families else ModelFacts()


_PUBLISHED = ModelCatalogue()


def published_facts(model: str) -> ModelFacts:
    """What the package knows of a model, whoever serves it."""
    return _PUBLISHED.facts("", model)


def _after(family: str) -> tuple[str, ...]:
    return tuple(family + mark for mark in _MARKS)


def _day(text: str) -> str:
    first = text.partition("\n")[0]
    return first.rpartition(" ")[2] if first.startswith("# models.dev ") else ""


def _read(line: str) -> KnownModel:
    """A line of the catalogue; a cell that cannot be read is unknown."""
    name, window, output, flags, *prices, release, long = (line.split("\t") + [""] * 10)[1:11]
    bare = name.rpartition("/")[2].replace(".", "-")
    facts = ModelFacts(
        window=_number(window, int) or None,
        max_output=_number(output, int) or None,
        **{key: mark in flags for key, mark in _FLAGS.items()},
        cache_floor=next((floor for start, floor in _FLOORS.items() if bare.startswith(start)), None),
    )
    given = dict(zip(_PRICES.values(), (_number(price, float) for price in prices), strict=True))
    after, *more = (long.split(" ") + [""] * 3)[:3]
    given["long_after"] = _number(after, int)
    given |= zip(("price_long_in", "price_long_out"), (_number(price, float) for price in more), strict=True)
    return KnownModel(name=name, facts=replace(facts, **given), release=release)


def _number(cell: str, kind: type[int] | type[float]) -> Any:
    try:
        value = kind(cell)
    except ValueError:
        return None
    return value if value >= 0 else None
