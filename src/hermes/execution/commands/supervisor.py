"""The supervisor of one command: it starts the shell, reads its output and ends everything it started.

It is a child sub-reaper, so whatever the command starts stays below it, however it detaches itself. Its life:
started as a spare with a shell that waits → handed a request, which the shell runs → tells the gateway how it
ended → stays while something of the command is left, as a background process → gone. The whole tree ends at
the deadline, when the gateway says so, or when the gateway is gone."""

from __future__ import annotations

import os
import select
import time

from hermes.execution.commands import frames
from hermes.execution.commands.output_capture import OutputCapture
from hermes.execution.process_tree import become_reaper, descendants, hear_deaths, reap, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from hermes.execution.commands.askpass import PasswordDoor
else:
    import _signal as signal

_CALLS_FD = 247
_STDIN_FD = 248
_GO_FD = 249
_SCRIPT_FD = 250
_STATE_FD = 251
_CHUNK = 1 << 18
_TERMINAL_SIZE = 40, 120
_END_OF_INPUT = b"\x04"
_LIVE_BYTES = 4000
"""With its header within what a pipe takes whole once it takes anything, so that nobody waits."""
_LIVE_SECONDS = 0.05
_WATCH_SECONDS = 1.0
_LONGEST_WATCHED = 1000
_STDIN_BYTES = 1 << 20
_ANSWER_BYTES = 64 << 20
_MOST_LAST_CALLS = 64
_LINGER = 0.05
_RING_SECONDS = 0.003
_GRACE = 0.3
"""Seconds between the polite and the final signal when time is up."""
_END_SECONDS = 1.8

# The shell's state is dumped when it leaves, whatever made it leave; a command with an EXIT trap of its own
# is caught by the second dump, after `eval`.
_DUMP = "{ set +x; builtin pwd -P; builtin printf '\\0'; builtin export -p; builtin printf '\\0\\0'; } "
_DUMP += f"1>&{_STATE_FD} 2>/dev/null"
_READ = f"IFS= read -r -d '' -u {_SCRIPT_FD}"
# A spare's shell has started and waits here: starting bash takes longer than most commands do.
_BOOT = (
    f"read -r -u {_GO_FD} || exit 0; {_READ} HERMES_STATE; {_READ} HERMES_FOLDER; {_READ} HERMES_COMMAND; "
    f'case $REPLY in plain) ;; /*) exec <>"$REPLY" >&0 2>&0 ;; *) exec <&{_STDIN_FD} ;; esac; '
    f'[ "$REPLY" = calling ] || exec {_CALLS_FD}>&-; '
    f"exec {_STDIN_FD}<&- {_GO_FD}<&- {_SCRIPT_FD}<&-; unset REPLY; "
    'eval "$HERMES_STATE" 2>/dev/null; HERMES_STATE=${OLDPWD-}; builtin cd -- "$HERMES_FOLDER"; '
    '[ -n "$HERMES_STATE" ] && OLDPWD=$HERMES_STATE; unset HERMES_STATE HERMES_FOLDER; '
    f'trap "{_DUMP}" EXIT; eval "unset HERMES_COMMAND; $HERMES_COMMAND"; '
    f"{{ set -- $?; set +eux; }} 2>/dev/null; {_DUMP}; exit $1"
)


class FrameLink:
    """The supervisor's end of a connection: the descriptors it reads from and writes to."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self._writing = writing
        self._decoder = frames.FrameDecoder()
        self._arrived: list[frames.Frame] = []

    def request(self) -> dict[bytes, bytes]:
        """The parts of a request, by their letters; what came behind it is kept for `receive`."""
        parts: dict[bytes, bytes] = {}
        while frames.RUN not in parts:
            for letter, payload in self.receive():
                if frames.RUN in parts:
                    self._arrived.append((letter, payload))
                else:
                    self._take(letter, payload, parts)
        return parts

    def _take(self, letter: bytes, payload: bytes, parts: dict[bytes, bytes]) -> None:
        parts.setdefault(letter, payload)

    def receive(self) -> list[frames.Frame]:
        """What has arrived; waits if nothing has. An `EOFError` if the gateway is gone."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            data = os.read(self.reading, _CHUNK)
            if not data:
                raise EOFError
            arrived = self._decoder.feed(data)
        return arrived

    @property
    def waiting(self) -> bool:
        return bool(self._arrived)

    def send(self, *parts: frames.Frame) -> None:
        data = memoryview(b"".join(frames.pack_frame(letter, payload) for letter, payload in parts))
        while data:
            data = data[os.write(self._writing, data) :]

    def offer(self, letter: bytes, payload: bytes) -> None:
        """Send it if it is taken at once; else it is lost."""
        try:
            if select.select((), (self._writing,), (), 0)[1]:
                self.send((letter, payload))
        except OSError:
            pass


class CommandSupervisor:
    """Owner of one command, from its start until nothing of it is left."""

    def __init__(self, shell: str) -> None:
        self._shell_path = shell
        self._deaths = hear_deaths()
        become_reaper()
        self._exit_code: int | None = None
        self._childless = False
        self._linger_until = 0.0
        self._door: PasswordDoor | None = None
        self._start_shell()

    def take(self, link: FrameLink) -> None:
        """Read what is wanted, and let the waiting shell do it."""
        self._link = link
        try:
            request = link.request()
        except (EOFError, OSError, ValueError):
            os._exit(0)  # nobody wants anything any more; the waiting shell leaves too
        seconds, background = map(float, request[frames.RUN].split())
        self._output = OutputCapture(os.fsdecode(request[frames.KEEP]))
        self._live = not background
        self._live_sent_at = 0.0
        self._watched = request.get(frames.WATCH, b"").split(b"\n") if frames.WATCH in request else []
        self._before = b""
        self._seen = False
        self._calls = frames.MAY_CALL in request
        self._calls_over = self._answers_over = False
        self._stdin_data = bytearray()
        self._stdin_ends = False
        self._timed_out = False
        self._end_sent = False
        self._deadline = time.monotonic() + seconds if seconds else float("inf")
        self._reap()
        if self._exit_code is not None:
            self._exit_code, self._childless = None, False
            self._start_shell()
        folder, self._missing_folder = _nearest(request[frames.FOLDER])
        state = request[frames.STATE]
        if frames.MAY_ASK in request:
            # Few commands need it, and every runner pays for what is imported.
            from hermes.execution.commands.askpass import PasswordDoor

            self._door = PasswordDoor()
            state += self._door.shell_code
        script = b"".join(part + b"\0" for part in (state, folder, request[frames.COMMAND]))
        os.pwrite(self._script_fd, script, 0)
        self._send((frames.ACCEPTED, b""))
        self._terminal = b""
        if frames.TERMINAL in request:
            self._open_terminal()
        plain = b"plain" if self._live else b"piped"
        os.write(self._go_fd, (b"calling" if self._calls else self._terminal or plain) + b"\n")
        if self._live and not self._calls:
            self._close_stdin()
        for fd in (self._go_fd, self._script_fd, *(() if self._calls else (self._calls_fd,))):
            os.close(fd)

    def live(self, ring: Callable[[], object]) -> None:
        """Until nothing is left. A new spare is rung for when a short command has ended, not beside it."""
        rung = False
        poll = select.poll()
        poll.register(self._link.reading, select.POLLIN)
        poll.register(self._deaths, select.POLLIN)
        poll.register(self._output_fd, select.POLLIN)
        if self._calls:
            poll.register(self._calls_fd, select.POLLIN)
        door = -1 if self._door is None else self._door.fileno()
        if self._door is not None:
            poll.register(door, select.POLLIN)
        ring_at = time.monotonic() + _RING_SECONDS
        while not (self._end_sent and self._childless):
            if self._stdin_data and self._stdin_fd is not None:
                poll.register(self._stdin_fd, select.POLLOUT)
            ready = {fd for fd, _ in poll.poll(self._patience() if rung else _RING_SECONDS * 1000)}
            if self._output_fd in ready and not self._drain(1):
                poll.unregister(self._output_fd)
            if self._calls and self._calls_fd in ready and self._pass_calls() < 0:
                poll.unregister(self._calls_fd)
            if self._door is not None and door in ready and self._door.greet():
                self._send((frames.ASKED, frames.pack_numbers(self._door.asked - 1)))
            if self._deaths in ready:
                self._reap()
            if self._link.reading in ready or self._link.waiting:
                self._obey()
            if self._stdin_fd is not None and self._stdin_fd in ready:
                poll.unregister(self._stdin_fd)
                self._feed()
            if time.monotonic() >= self._deadline and not self._timed_out:
                self._timed_out = True
                self._end_tree(_GRACE)
            self._tell_live()
            self._tell_watched()
            self._tell_end()
            if self._end_sent and self._door is not None:
                poll.unregister(door)
                self._close_door()
            if not rung and (self._end_sent or time.monotonic() >= ring_at):
                ring()
                rung = True

    # --- starting ---

    def _start_shell(self) -> None:
        self._script_fd = _scratch()
        self._state_fd = _scratch()
        self._output_fd, out = os.pipe()
        os.set_blocking(self._output_fd, False)
        self._calls_fd, calls = os.pipe()
        os.set_blocking(self._calls_fd, False)
        stdin, writer = os.pipe()
        os.set_blocking(writer, False)
        self._stdin_fd: int | None = writer
        go, self._go_fd = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        places = {0: null, 1: out, 2: out}
        places |= {_STDIN_FD: stdin, _GO_FD: go, _SCRIPT_FD: self._script_fd, _STATE_FD: self._state_fd}
        places[_CALLS_FD] = calls
        os.umask(0o022)
        self._shell_pid = os.posix_spawn(
            self._shell_path,
            ["bash", "--norc", "--noprofile", "-c", _BOOT],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in places.items()],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD],
        )
        for fd in (out, stdin, go, null, calls):
            os.close(fd)

    def _open_terminal(self) -> None:
        """Output comes from it and input goes to it, instead of the pipes. This process keeps its other end
        open, too, so that it lasts until nothing of the command is left."""
        import fcntl
        import struct
        import termios

        try:
            ours, theirs = os.openpty()
            name = os.ttyname(theirs)
            os.close(os.open(name, os.O_RDWR | os.O_NOCTTY))
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_TERMINAL_SIZE, 0, 0))
        except OSError as error:
            self._output.add(f"[there is no terminal here: {error.strerror}]\n".encode())
            return
        os.set_blocking(ours, False)
        for fd in (self._output_fd, self._stdin_fd):
            if fd is not None:
                os.dup2(ours, fd, inheritable=False)
        os.close(ours)
        self._terminal = os.fsencode(name)

    # --- watching ---

    def _patience(self) -> float:
        """Milliseconds until something has to be done without being woken."""
        now = time.monotonic()
        until = 3600.0 if self._timed_out else min(self._deadline - now, 3600.0)
        if self._live and self._output.unread:
            until = min(until, self._live_sent_at + _LIVE_SECONDS - now)
        if self._seen:
            until = min(until, self._live_sent_at + _WATCH_SECONDS - now)
        if self._linger_until and not self._end_sent:
            until = min(until, self._linger_until - now)
        return max(until, 0.0) * 1000 + 1

    def _drain(self, reads: int) -> bool:
        """Take what the command has written; false at its end."""
        for _ in range(reads):
            try:
                data = os.read(self._output_fd, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._output.add(data)
            if self._watched:
                seen = self._before + data
                self._seen = self._seen or any(text in seen for text in self._watched)
                self._before = seen[-_LONGEST_WATCHED:]
        return True

    def _pass_calls(self) -> int:
        """Tell the gateway what the command has called: so many bytes, -1 at their end."""
        try:
            data = os.read(self._calls_fd, _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self._send((frames.CALLED, data))
        return len(data) or -1

    def _still_answered(self) -> bool:
        """Whether answers may still come. The gateway is told that nobody takes them any more."""
        if self._calls and not self._calls_over:
            self._calls_over = True
            left = _MOST_LAST_CALLS
            while left and self._pass_calls() > 0:
                left -= 1
            self._send((frames.CALLED, b""))
        return self._calls and not self._answers_over

    def _reap(self) -> None:
        dead, left = reap(self._deaths)
        self._childless = not left
        if self._shell_pid in dead:
            self._exit_code = dead[self._shell_pid]
            self._linger_until = time.monotonic() + _LINGER

    def _end_tree(self, grace: float) -> None:
        """Nothing below this process is left afterwards, or the kernel will not let it go."""
        give_up = time.monotonic() + _END_SECONDS
        if grace:
            for pid in descendants():
                send_signal(pid, signal.SIGTERM)
            polite = time.monotonic() + grace
            while not self._childless and time.monotonic() < polite:
                time.sleep(0.005)
                self._drain(16)
                self._reap()
        while not self._childless and time.monotonic() < give_up:
            for pid in descendants():
                send_signal(pid, signal.SIGKILL)
            self._drain(16)
            self._reap()
            if not self._childless:
                time.sleep(0.001)

    # --- talking ---

    def _obey(self) -> None:
        try:
            arrived = self._link.receive()
        except (EOFError, OSError, ValueError):
            self._end_tree(0.0)
            self._close_door()
            os._exit(0)
        for letter, payload in arrived:
            self._do(letter, payload)

    def _do(self, letter: bytes, payload: bytes) -> None:
        if letter == frames.KILL:
            self._end_tree(float(payload))
        elif letter == frames.POLL:
            self._tell_unread()
        elif letter == frames.WRITE and self._stdin_fd is not None:
            most = _ANSWER_BYTES if self._calls else _STDIN_BYTES
            self._stdin_data += payload[: most - len(self._stdin_data)]
        elif letter == frames.PASSWORD and self._door is not None:
            self._door.give(payload)
        elif letter == frames.CLOSE_STDIN and self._terminal:
            self._stdin_data += _END_OF_INPUT
        elif letter == frames.CLOSE_STDIN:
            self._stdin_ends = self._answers_over = True
            if not self._stdin_data:
                self._close_stdin()

    def _feed(self) -> None:
        if self._stdin_fd is None:
            return
        try:
            del self._stdin_data[: os.write(self._stdin_fd, self._stdin_data)]
        except BlockingIOError:
            return
        except OSError:
            self._stdin_data.clear()
            self._stdin_ends = True
        if self._stdin_ends and not self._stdin_data:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin_fd is not None:
            os.close(self._stdin_fd)
            self._stdin_fd = None

    def _take_unread(self) -> bytes:
        data = bytes(self._output.unread)
        self._output.unread.clear()
        self._output.dropped = 0
        return data

    def _tell_live(self) -> None:
        """What came since the last look, at most so much, and never waiting for the gateway to take it."""
        now = time.monotonic()
        if not self._live or not self._output.unread or now < self._live_sent_at + _LIVE_SECONDS:
            return
        self._live_sent_at = now
        self._link.offer(frames.LIVE_OUTPUT, self._take_unread()[-_LIVE_BYTES:])

    def _tell_unread(self) -> None:
        dropped = frames.pack_numbers(self._output.dropped)
        self._send((frames.UNREAD, self._take_unread()), (frames.POLL, dropped))

    def _tell_watched(self) -> None:
        now = time.monotonic()
        if self._seen and now >= self._live_sent_at + _WATCH_SECONDS:
            self._seen, self._live_sent_at = False, now
            self._tell_unread()

    def _tell_end(self) -> None:
        """Once, when the shell is gone; what it left behind gets a moment to go as well."""
        code = self._exit_code
        if self._end_sent or code is None:
            return
        if not self._childless and time.monotonic() < self._linger_until:
            return
        if self._still_answered():
            return
        self._end_sent = True
        try:
            self._drain(64)
        except OSError:
            pass
        self._output.trim()
        dropped = self._output.dropped
        letter = frames.LIVE_OUTPUT if self._live else frames.UNREAD
        unread = self._take_unread()[-_LIVE_BYTES if self._live else 0 :]
        self._live = False
        parts = {letter: unread, frames.HEAD: self._output.head, frames.TAIL: bytes(self._output.tail)}
        parts[frames.SHELL_STATE] = os.pread(self._state_fd, 1 << 20, 0)
        parts |= {frames.SAVED: os.fsencode(self._output.path), frames.GONE: self._missing_folder}
        code = 124 if self._timed_out else code if code >= 0 else 128 - code
        left, cut = not self._childless, self._output.cut
        parts[frames.ENDED] = frames.pack_numbers(code, self._timed_out, left, cut, dropped)
        self._send(*parts.items())

    def _send(self, *parts: frames.Frame) -> None:
        try:
            self._link.send(*parts)
        except OSError:
            self._end_tree(0.0)
            self._close_door()
            os._exit(0)

    def _close_door(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None


def _scratch() -> int:
    """An open file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hermes")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _nearest(cwd: bytes) -> tuple[bytes, bytes]:
    """The folder, or the nearest one above that is still there; and the one that is gone."""
    place = cwd
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return place, b"" if place == cwd else cwd
