"""What can be seen of a skill before it is installed: what it runs, what it reaches, what is odd. A person
decides; nothing here does, for patterns neither catch everything nor mean what they match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from hermes.domain.safety.injection import all_findings, shown_hidden
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import one_line
from hermes.state.skills.package import SkillPackage

_SCRIPT = late_pattern(r"\.(?:py|sh|bash|zsh|js|mjs|ts|rb|pl|ps1|bat|cmd|php|lua|go|rs)$")
_HOST = late_pattern(r"\b(?:https?|ftp|wss?)://([A-Za-z0-9.-]{1,200})")
_ODD = (
    ("runs what it downloads", late_pattern(r"\b(?:curl|wget)\b[^|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z)?sh\b")),
    ("acts as root", late_pattern(r"\bsudo\b")),
    ("deletes whole folders", late_pattern(r"\brm\s+-\w{0,5}[rR]\w{0,5}f|\bshutil\.rmtree\b")),
    ("reads keys or credentials", late_pattern(r"~/\.ssh|\.aws/|\.netrc|id_(?:rsa|ed25519)|\.env\b")),
    ("reads the environment", late_pattern(r"\bos\.environ\b|\bprocess\.env\b|\bprintenv\b")),
    ("hides what it runs", late_pattern(r"\bbase64\s+(?:-d|--decode)|\beval\s*\(|\bexec\s*\(")),
    ("opens connections", late_pattern(r"\bnc\s+-|/dev/tcp/|\bsocket\.socket\b")),
    ("installs programs", late_pattern(r"\b(?:pip3?|npm|apt(?:-get)?|brew|cargo|gem)\s+install\b")),
)
_MOST = 12
_PLACES = 4
_MOST_COMPARED = 2000
_LONGEST_SHOWN = 400


class EvidenceHit(Struct, frozen=True, kw_only=True):
    file: str
    line: int
    what: str


class SkillEvidence(Struct, frozen=True, kw_only=True):
    """`runs` are its programs, `reaches` the hosts that it names, `wants` what its head asks for."""

    runs: tuple[str, ...]
    reaches: tuple[str, ...]
    wants: tuple[str, ...]
    hits: tuple[EvidenceHit, ...]

    @property
    def lines(self) -> list[str]:
        places: dict[str, list[str]] = {}
        for hit in self.hits:  # by kind, so that many harmless places hide no other
            places.setdefault(hit.what, []).append(f"{one_line(hit.file, 80)}:{hit.line}")
        return [
            f"runs: {_some(self.runs) or 'nothing by itself'}",
            f"reaches: {_some(self.reaches) or 'no address is named'}",
            f"wants: {_some(self.wants) or 'nothing'}; it gets no secrets and no rights by being installed",
            *(f"look at: {_some(tuple(where), _PLACES)} {what}" for what, where in places.items()),
        ]


def gather(package: SkillPackage) -> SkillEvidence:
    runs, hosts, hits = list[str](), dict[str, None](), list[EvidenceHit]()
    for name, data in sorted(package.files.items()):
        text = data.decode("utf-8", "replace")
        if _SCRIPT.search(name.lower()) or text.startswith("#!"):
            runs.append(name)
        if b"\0" in data:
            hits.append(EvidenceHit(file=name, line=1, what="is a binary file"))
        hosts |= dict.fromkeys(match[1].lower() for match in _HOST.finditer(text))
        hits += _hits(name, text)
    return SkillEvidence(
        runs=tuple(runs), reaches=tuple(hosts), wants=package.manifest.wants, hits=tuple(hits)
    )


def _hits(name: str, text: str) -> Iterator[EvidenceHit]:
    orders = all_findings(text)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        for what, pattern in _ODD:
            if pattern.search(line):
                yield EvidenceHit(file=name, line=number, what=what)
        if orders:
            seen = [what for what in all_findings(line) if what in orders]
            orders = tuple(what for what in orders if what not in seen)
            yield from (EvidenceHit(file=name, line=number, what=what) for what in seen)
    yield from (EvidenceHit(file=name, line=1, what=what) for what in orders)


def _some(names: tuple[str, ...], most: int = _MOST) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(one_line(name, 90) for name in names[:most]) + more


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes], most: int = 200) -> list[str]:
    """What another version changes, as lines of a diff, at most so many."""
    from difflib import unified_diff

    lines: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if b"\0" in (old or b"") + (new or b""):
            lines.append(f"{name}: a binary file changes")
            continue
        lines.append(f"{name}{' is new' if old is None else ' is removed' if new is None else ''}:")
        lines += list(unified_diff(_lines(old), _lines(new), lineterm="", n=1))[2:]
        if max((old or b"").count(b"\n"), (new or b"").count(b"\n")) > _MOST_COMPARED:
            lines.append(f"{name}: only its first {_MOST_COMPARED:,} lines were compared")
    lines = [shown_hidden(line) if len(line) <= _LONGEST_SHOWN else _cut(line) for line in lines]
    return lines[:most] + ([f"… and {len(lines) - most} more lines"] if len(lines) > most else [])


def _cut(line: str) -> str:
    return f"{shown_hidden(line[:_LONGEST_SHOWN])} … ({len(line):,} characters)"


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()[:_MOST_COMPARED]
