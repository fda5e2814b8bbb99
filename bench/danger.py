"""Danger: what a verdict costs, for everyday commands, for a script and for the longest that is read."""

from __future__ import annotations

from pathlib import Path

from bench.figure import Figure
from bench.stopwatch import Stopwatch, without_gc
from hermes.agent.danger.judge import judge_command
from hermes.agent.danger.paths import CommandScope
from hermes.domain.ports.world import FolderRules

_PLACE = CommandScope(
    cwd="/home/ann/shop",
    workspace="/home/ann/shop",
    home="/home/ann",
    homes=FolderRules(closed=("/home/ann/.hermes",)),
)
_EVERYDAY = (
    "git status && git diff HEAD~1 --stat",
    "npm run build && npm test -- --coverage",
    "grep -rn 'TODO' src --include=*.py | head -20",
    "find . -name '*.py' -not -path './venv/*' -exec wc -l {} +",
    "kubectl -n prod get pods -o wide",
    "curl -s https://api.example.com/items?page=2 | jq '.items[] | .name'",
    "awk -F, '$3 > 10 {print $1\",\"$2}' data.csv | sort | uniq -c",
    "python3 -c \"import json,sys; print(json.load(sys.stdin)['name'])\" < package.json",
    'for f in src/*.ts; do echo "$f"; sed -n \'1,20p\' "$f"; done',
    "docker compose logs --tail 50 web 2>&1 | tail -20",
)
_SCRIPT = "cd build\n" + "\n".join(
    f'echo "step {n}"; cp -r src/{n} out/{n} && ls out | wc -l' for n in range(60)
)
_LONGEST = "cat " + "src/some/file.py " * 1900


def measure(folder: Path, quick: bool) -> list[Figure]:
    times = 20 if quick else 200
    slowest = max(_seconds(command, times) for command in _EVERYDAY)
    return [
        Figure(
            bench="danger",
            name="the slowest of ten everyday commands",
            value=slowest * 1e3,
            unit="ms",
            target=2.0,
        ),
        Figure(bench="danger", name="a script of 61 lines", value=_seconds(_SCRIPT, 5) * 1e3, unit="ms"),
        Figure(bench="danger", name="1,900 words", value=_seconds(_LONGEST, 2) * 1e3, unit="ms"),
    ]


def _seconds(command: str, times: int) -> float:
    """CPU seconds of one verdict that is not known yet; the best of three rounds."""
    judge = judge_command.__wrapped__
    judge(command, _PLACE)
    best = float("inf")
    with without_gc():
        for _ in range(3):
            with Stopwatch() as watch:
                for _ in range(times):
                    judge(command, _PLACE)
            best = min(best, watch.cpu)
    return best / times
