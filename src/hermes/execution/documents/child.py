"""The process that reads one document: an order as a line of JSON and the document on its input, a line of
JSON on its output. It gives up what it does not need before it looks at what others wrote."""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

from hermes.domain.system.process_mark import AGENT, step_down

_MEMORY = 1 << 30
_CPU_SECONDS = 25
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ssl", "/etc/ld.so.cache", "/etc/localtime", "/etc/resolv.conf",
           "/etc/hosts", "/etc/nsswitch.conf")  # fmt: skip


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no answer
    order = json.loads(sys.stdin.buffer.readline())
    _give_up(network="search" in order)
    try:
        answer = _search(order) if "search" in order else _read(order, sys.stdin.buffer.read())
    except ImportError as error:
        answer = {"error": f"The package {error.name} is not installed. {order.get('install', '')}"}
    except (MemoryError, RecursionError):
        answer = {"error": "It takes more memory than one document may have."}
    except Exception as error:  # the border: parsers of others raise anything
        deed = "asked" if "search" in order else "read"
        answer = {"error": f"It cannot be {deed} ({_words(error)})."}
    json.dump(answer, answers)
    answers.flush()
    os._exit(0)  # neither threads nor destructors of a parser have a word in it


def _words(error: Exception) -> str:
    ours = isinstance(error, ValueError) or type(error).__module__.startswith("ddgs")
    said = str(error) if ours else ""
    return " ".join(said.split())[:200] or type(error).__name__


def _give_up(*, network: bool) -> None:
    """For ever: time, memory, files, and the network, as far as this system can hold it."""
    step_down(AGENT)
    limits = {resource.RLIMIT_AS: _MEMORY, resource.RLIMIT_CPU: _CPU_SECONDS, resource.RLIMIT_CORE: 0}
    for limit, most in (limits | {resource.RLIMIT_FSIZE: 0}).items():
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    if sys.platform != "linux":
        return
    from hermes.execution.sandboxes import seccomp
    from hermes.execution.sandboxes.landlock_rules import confine, landlock_abi

    seccomp.give_up_rights()
    if landlock_abi():
        own = (sys.prefix, sys.base_prefix, os.path.dirname(__file__), *filter(None, sys.path))
        devices = ("/dev/null", "/dev/urandom")
        confine(readable=(*_SYSTEM, *own), writable=(), devices=devices, network=network)
    if not network and os.uname().machine in ("x86_64", "aarch64"):
        seccomp.install_filter(seccomp.seccomp_filter(()))


def _read(order: dict[str, Any], data: bytes) -> dict[str, object]:
    from hermes.execution.documents.kinds import read_kind

    title, text = read_kind(data, order["read"], order["limit"] + 1, order["url"])
    text = text.encode("utf-8", "replace").decode()
    return {"title": title[:300], "text": text[: order["limit"]], "cut": len(text) > order["limit"]}


def _search(order: dict[str, Any]) -> dict[str, object]:
    """With the package `ddgs`, which asks public search engines by itself."""
    from ddgs import DDGS

    proxy = order["proxy"] or None
    with DDGS(proxy=proxy, timeout=10) as engines:
        return {"results": engines.text(order["search"], max_results=order["limit"])}
