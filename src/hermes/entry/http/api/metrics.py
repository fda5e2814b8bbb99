"""`/metrics`: numbers for Prometheus, in its text format. Labels are routes, states and platforms; never a
path, a name or a word that somebody sent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from aiohttp import web

from hermes.domain.chats.rows import OpenWork, OutState
from hermes.domain.turns.turn import TurnState
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall, Site, route
from hermes.entry.http.site.traffic import BOUNDS, TRAFFIC, Traffic

MEDIA = "text/plain"
_QUOTED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_END_WORDS = {TurnState.DONE: "finished", TurnState.FAILED: "failed", TurnState.STOPPED: "stopped"}
_OPEN_TURNS = [state.value for state in TurnState if state.open]
_OPEN_OUTBOX = [state.value for state in OutState if state.open]
Sample = tuple[Mapping[str, str], float]
"""Labels and a value; the label without a name is the end of the family's name."""
Family = tuple[str, str, str, float | Iterable[Sample]]
"""Name, kind, description, and one value or several with labels."""


@route("GET", "/metrics", "Numbers for Prometheus.", scope=KeyScope.ADMIN, media=MEDIA, refuses=(503,))
async def read_metrics(call: HttpCall) -> web.Response:
    work = await call.gateway.open_work()
    facts, process = await asyncio.gather(asyncio.to_thread(call.site.facts), asyncio.to_thread(_process))
    families = [
        *process,
        *_gateway(call.site, facts),
        *_work(work),
        *_store(facts),
        *_traffic(call.request.app[TRAFFIC]),
    ]
    return web.Response(
        body="".join(family(*each) for each in families).encode(),
        headers={"Content-Type": f"{MEDIA}; version=0.0.4; charset=utf-8", "Cache-Control": "no-store"},
    )


def family(name: str, kind: str, about: str, value: float | Iterable[Sample]) -> str:
    samples = [({}, value)] if isinstance(value, int | float) else value
    lines = [f"{name}{_labels(labels)} {value if value % 1 else int(value)}\n" for labels, value in samples]
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n" + "".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    named = [f'{name}="{value.translate(_QUOTED)}"' for name, value in labels.items() if name]
    return labels.get("", "") + ("{" + ",".join(named) + "}" if named else "")


def _process() -> list[Family]:
    """Of this process. Reads files, so it runs beside the loop."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident, files = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024), None
    # Without /proc the peak stands for the size, and the number of files is left out.
    with contextlib.suppress(OSError):
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * resource.getpagesize()
        files = len(os.listdir("/proc/self/fd"))
    most, about = resource.getrlimit(resource.RLIMIT_NOFILE)[0], "CPU time of the gateway's process."
    return [
        ("process_cpu_seconds_total", "counter", about, used.ru_utime + used.ru_stime),
        ("process_resident_memory_bytes", "gauge", "Resident memory.", resident),
        *([] if files is None else [("process_open_fds", "gauge", "Open files and sockets.", files)]),
        ("process_max_fds", "gauge", "How many files and sockets may be open.", most),
    ]


def _gateway(site: Site, facts: Mapping[str, Any]) -> Iterator[Family]:
    counters = site.gateway.counters
    uptime = max(0.0, site.clock.now().timestamp() - float(facts.get("started_at", 0)))
    running = float(facts.get("gateway_state") == "running")
    ended = [({"end": _END_WORDS[state]}, count) for state, count in sorted(counters.ended.items())]
    up = [
        ({"platform": name}, float(host.get("state") == "connected"))
        for name, host in sorted(facts.get("platforms", {}).items())
    ]
    yield "hermes_info", "gauge", "The version that runs.", [({"version": site.version or "0"}, 1)]
    yield "hermes_uptime_seconds", "gauge", "Since the gateway started.", uptime
    yield "hermes_running", "gauge", "1 while new work is taken, 0 while draining.", running
    yield "hermes_http_open_streams", "gauge", "Event streams open now.", len(site.streams)
    yield "hermes_feeds", "gauge", "Turns that run or are watched now.", len(site.gateway.feeds)
    yield "hermes_turns_total", "counter", "Turns that ended since the start, by how.", ended
    yield "hermes_messages_sent_total", "counter", "Messages sent since the start.", counters.sent
    yield (
        "hermes_undeliverable_total",
        "counter",
        "Messages given up since the start.",
        counters.undeliverable,
    )
    yield "hermes_platform_up", "gauge", "Whether a platform account is connected.", up


def _work(work: OpenWork) -> Iterator[Family]:
    turns = [({"state": state}, work.turns.get(state, 0)) for state in _OPEN_TURNS]
    outbox = [({"state": state}, work.outbox.get(state, 0)) for state in _OPEN_OUTBOX]
    yield "hermes_turns_open", "gauge", "Turns that have not ended, by state.", turns
    yield "hermes_outbox_open", "gauge", "Messages on their way, by state.", outbox
    yield "hermes_inbox_pending", "gauge", "Accepted and not looked at yet.", work.inbox
    yield "hermes_questions_open", "gauge", "Questions without an answer.", work.questions


def _store(facts: Mapping[str, Any]) -> Iterator[Family]:
    seconds, commits = facts.get("store_seconds", 0.0), facts.get("store_commits", 0)
    both = [({"": "_sum"}, seconds), ({"": "_count"}, commits)]
    about = "Time of a commit with the units in it, up to the disk."
    yield "hermes_store_commit_seconds", "summary", about, both
    yield "hermes_store_units_total", "counter", "Units of work stored.", facts.get("store_units", 0)
    trouble = float(bool(facts.get("store_trouble")))
    yield "hermes_store_trouble", "gauge", "1 while the store cannot do its work.", trouble
    free = float(facts.get("disk_free_bytes", 0))
    yield "hermes_disk_free_bytes", "gauge", "Free on the disk of the home.", free


def _traffic(traffic: Traffic) -> Iterator[Family]:
    requests = [
        ({"method": method, "route": path, "status": status}, count)
        for (method, path, status), count in sorted(traffic.requests.items())
    ]
    about = "Requests answered, by route and class of status."
    yield "hermes_http_requests_total", "counter", about, requests
    about = "From a request to the end of its answer; a stream lasts as long as its turn."
    yield "hermes_http_request_seconds", "histogram", about, _histogram(traffic)


def _histogram(traffic: Traffic) -> Iterator[Sample]:
    for (method, path), buckets in sorted(traffic.buckets.items()):
        labels = {"method": method, "route": path}
        totals = list(accumulate(buckets))
        for bound, total in zip([*(f"{bound:g}" for bound in BOUNDS), "+Inf"], totals, strict=True):
            yield {"": "_bucket", **labels, "le": bound}, total
        yield {"": "_sum", **labels}, traffic.seconds[method, path]
        yield {"": "_count", **labels}, totals[-1]
