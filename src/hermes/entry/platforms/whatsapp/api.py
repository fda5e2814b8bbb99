"""The line to the bridge: a child of ours that ends with its standard input, spoken to in lines of JSON.

Its life: it is started with the account's lock, which it keeps as long as it lives, so that no two of them
use one device, not even across a crash of the gateway. It says `open` when WhatsApp has let it in, hands over
each message until it is told `stored`, answers calls by their number, and says `closed` before it ends.
Whoever iterates over `events` reads for everybody: answers to calls come in between."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from hermes.domain.errors import HermesError, NeedsLogin, Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, slower, their_fault
from hermes.entry.kit.payload import as_dict, as_size, as_text, read_json
from hermes.entry.platforms.whatsapp.program import environment

DEVICE, TRANSFER, _LOCK, _LOG = "device.jsonl", "transfer", "lock", "bridge.log"
_MOST_LINE = 32 * 1024 * 1024
_GOODBYE_SECONDS = 2.0
_LOST = "the connection to WhatsApp was lost"
LINK = "run hermes platforms login whatsapp"
closing_error = error_table(
    "WhatsApp",
    {
        401: (NeedsLogin, f"WhatsApp has unlinked this device, or none was linked: {LINK} ({{why}})"),
        403: (NeedsLogin, "WhatsApp has blocked the account ({why})"),
        411: (NeedsLogin, f"WhatsApp wants the device linked again: {LINK} ({{why}})"),
        440: (slower, "another program uses the same linked device: is its folder a copy? ({why})"),
        # Not always for good (swampratnz/community-agent #857), and each start asks for the newest version.
        405: (slower, "WhatsApp does not take this version of its protocol: update Hermes ({why})"),
        range(1000): (slower, "WhatsApp is not reached ({why})"),
    },
)
_call_error = error_table(
    "WhatsApp",
    {
        "slower": (
            lambda text, after: Unreachable(text, after=after),
            "WhatsApp wants us to be slower ({why})",
        ),
        "doubtful": (their_fault, "WhatsApp did not say that it took it ({why})"),
    },
)
_SLOWER_SECONDS = 60.0
_CLOSED_SECONDS = {405: 1_800.0, 440: 60.0}


class Bridge:
    def __init__(self, node: str, program: Path, folder: Path) -> None:
        self._command = (node, str(program), str(folder))
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._end: HermesError | None = None

    async def start(self, *mode: str) -> None:
        """Begin; `login` as mode links a device. An `Unreachable` while another bridge has the account."""
        transfer = self._folder / TRANSFER
        transfer.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in transfer.iterdir():
            left.unlink(missing_ok=True)
        lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unreachable(
                    "another bridge still uses this account's linked device", after=2.0
                ) from None
            log = os.open(self._folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    *mode,
                    env=environment() | {"TMPDIR": str(transfer)},
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    pass_fds=(lock,),
                    limit=_MOST_LINE,
                    start_new_session=True,
                )
            except OSError as error:
                raise Unreachable(f"Node does not start ({error.strerror})") from error
            finally:
                os.close(log)
        finally:
            os.close(lock)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What the bridge tells, up to its end, which is an error of ours."""
        assert self._process is not None and self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise self._ended(Unreachable("the WhatsApp bridge tells more than fits in a line")) from None
            told = as_dict(read_json(line))
            if not line:
                code = await self._process.wait()
                raise self._ended(Unreachable(f"the WhatsApp bridge has ended ({self._last_words(code)})"))
            if told.get("event") == "closed":
                number, why = as_size(told.get("code")) or 0, one_line(as_text(told.get("why")), 200)
                after = _CLOSED_SECONDS.get(number)
                raise self._ended(closing_error(number if number < 500 else 0, "", why, after))
            if "event" in told:
                yield told
            elif (
                future := self._waiting.get(as_size(told.get("id")) or 0)
            ) is not None and not future.done():
                future.set_result(told)

    async def call(self, name: str, seconds: float, **asked: Any) -> dict[str, Any]:
        """What the bridge answers; what it refuses is an error of ours."""
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                self._waiting[number] = future
                self.tell({"id": number, "do": name, **asked})
                told = await future
        except TimeoutError:
            raise Unreachable("WhatsApp does not answer", maybe_done=True) from None
        finally:
            self._waiting.pop(number, None)
        error = as_dict(told.get("error"))
        if not error:
            return as_dict(told.get("result"))
        why = one_line(as_text(error.get("why")), 200)
        raise _call_error(400, as_text(error.get("kind")), why, _SLOWER_SECONDS)

    def tell(self, content: Mapping[str, Any]) -> None:
        """Say something that is not answered; nothing if nobody listens any more."""
        if self._end is not None:
            raise Unreachable(str(self._end))
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(json.dumps(content).encode() + b"\n")

    def _ended(self, error: HermesError) -> HermesError:
        """Whoever waits for an answer gets none: nobody knows whether it was done."""
        self._end = error
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    error if isinstance(error, NeedsLogin) else Unreachable(_LOST, maybe_done=True)
                )
        return error

    def _last_words(self, code: int) -> str:
        try:
            lines = (self._folder / _LOG).read_text("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        said = next((line for line in lines if "Error" in line), "")
        return one_line(said, 200) or f"code {code}"

    async def close(self) -> None:
        """Let it end, and see to it that it does."""
        if self._end is None:
            self._ended(Unreachable(_LOST))
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
