"""The little of IMAP4rev1 that a mailbox of ours needs, on asyncio streams.

Nothing here blocks, every wait for the server has an end, and nothing larger than was allowed is read. The
errors that leave it are ours."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from msgspec import Struct

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.transfer import TransferLimit

_LINE = 1024 * 1024
_PIECE = 64 * 1024
_LITERAL = re.compile(rb"\{(\d{1,12})\+?\}$")
_NUMBERS = re.compile(rb"[ (](UID|RFC822\.SIZE) (\d{1,15})\b", re.IGNORECASE)
_ARRIVED = re.compile(rb'INTERNALDATE "([^"]{10,40})"', re.IGNORECASE)
_QUOTED_BODY = re.compile(rb'BODY\[[^\]]*\](?:<\d+>)? "((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_LISTED = re.compile(rb'^LIST \(([^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (.+)$', re.IGNORECASE)
_WRONG = re.compile(
    r"\[(?:AUTHENTICATIONFAILED|AUTHORIZATIONFAILED|EXPIRED|PRIVACYREQUIRED)"
    r"|fail|invalid|incorrect|wrong|denied|reject|password|credential",
    re.IGNORECASE,
)
"""What a refusal says that a person has to mend (RFC 5530, and what servers without codes say)."""
_LATER = re.compile(
    r"\[(?:UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)|too many|simultaneous|rate limit|frequen|exceeded"
    r"|throttl|temporar|try(?:ing)? again (?:later|in|after)|too (?:fast|often)|unavailable",
    re.IGNORECASE,
)
"""What a refusal says that ends by itself (RFC 5530; Gmail and Yahoo count logins and connections)."""
_LATER_SECONDS = 300.0
_OUR_ID = 'ID ("name" "hermes-gateway" "version" "1")'


class MailLogin(Struct, frozen=True, kw_only=True):
    """Where mail lies, and how to get in."""

    host: str
    port: int
    user: str
    password: str
    token: str = ""
    """What is shown in the password's place, where no passwords are taken."""
    tls: ssl.SSLContext | None
    direct: bool = False
    """Whether it is encrypted from the start on any port."""
    seconds: float
    """How long the server may be silent when it was asked something."""


class ImapFolder(Struct, frozen=True, kw_only=True):
    validity: int
    next_uid: int


class FetchedMail(Struct, frozen=True, kw_only=True):
    arrived: datetime | None
    body: bytes


class _Line(Struct, frozen=True):
    """One answer: its text, and the pieces of raw bytes that stood in it."""

    text: bytes
    literals: tuple[bytes, ...] = ()


class _CommandRefused(Exception):
    """The server refused a command."""

    def __init__(self, code: bytes, words: bytes) -> None:
        super().__init__(one_line(words.decode("utf-8", "replace"), 160))
        self.code = code


class ImapConnection:
    """One connection. One command at a time."""

    def __init__(self, box: MailLogin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._box = box
        self._reader = reader
        self._writer = writer
        self._tag = 0
        self._most = _PIECE
        self._news = False
        self.abilities: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, box: MailLogin) -> ImapConnection:
        """Connect, encrypt and log in."""
        at_once = box.tls if box.port == 993 or box.direct else None
        handshake = None if at_once is None else 20.0
        try:
            async with asyncio.timeout(box.seconds):
                reader, writer = await asyncio.open_connection(
                    box.host, box.port, ssl=at_once, limit=_LINE, ssl_handshake_timeout=handshake
                )
        except (OSError, TimeoutError) as error:
            raise cannot_reach("IMAP", box.host, box.port, error) from error
        imap = cls(box, reader, writer)
        try:
            await imap._greet(upgrade=box.tls is not None and at_once is None)
            return imap
        except BaseException:
            imap.close()
            raise

    async def _greet(self, *, upgrade: bool) -> None:
        async with self._translated():
            hello = await self._read()
            if hello.text.upper().startswith(b"* BYE"):
                raise Unreachable(f"The IMAP server sends us away ({_told(hello.text[5:])})")
            if not hello.text.upper().startswith((b"* OK", b"* PREAUTH")):
                raise Unreachable("What answers there is no IMAP server")
        if upgrade:
            try:
                await self._command("STARTTLS")
            except _CommandRefused as error:
                raise Unreachable(f"The IMAP server does not encrypt on this port ({error})") from None
            assert self._box.tls is not None
            async with self._translated():
                async with asyncio.timeout(self._box.seconds):
                    await self._writer.start_tls(self._box.tls, server_hostname=self._box.host)
        await self._ask_abilities()
        if not hello.text.upper().startswith(b"* PREAUTH"):
            await self._login()
            await self._ask_abilities()
        if "ID" in self.abilities:
            # NetEase (163.com, 126.com, yeah.net) opens no folder for a program that does not say its name.
            with contextlib.suppress(_CommandRefused):
                await self._command(_OUR_ID)

    async def _ask_abilities(self) -> None:
        for line in await self._command("CAPABILITY"):
            if line.text.upper().startswith(b"CAPABILITY "):
                self.abilities = frozenset(line.text.decode("ascii", "replace").upper().split()[1:])

    async def _login(self) -> None:
        try:
            if self._box.token:
                await self._show_token()
            elif "AUTH=PLAIN" in self.abilities:
                proof = base64.b64encode(f"\0{self._box.user}\0{self._box.password}".encode())
                await self._command("AUTHENTICATE PLAIN", proof)
            else:
                await self._command(f"LOGIN {quoted(self._box.user)} {quoted(self._box.password)}")
        except _CommandRefused as error:
            if error.code != b"NO" or _LATER.search(str(error)) or not _WRONG.search(str(error)):
                after = _LATER_SECONDS if error.code == b"NO" else None
                why = f"The IMAP server does not let us log in now ({error})"
                raise Unreachable(why, after=after) from None
            if self._box.token:
                raise NeedsLogin(refused_token("IMAP", self._box.user, str(error))) from None
            raise NeedsLogin(
                f"The IMAP server does not know this name and password (EMAIL_PASSWORD): {error}"
            ) from None

    async def _show_token(self) -> None:
        """By RFC 7628, or as it was done before. A refusal comes as a question, which wants an answer."""
        user, bearer = self._box.user, f"auth=Bearer {self._box.token}\1\1"
        if "AUTH=XOAUTH2" in self.abilities or "AUTH=OAUTHBEARER" not in self.abilities:
            name, shown, yes = "XOAUTH2", f"user={user}\1{bearer}", b""
        else:
            name, yes = "OAUTHBEARER", base64.b64encode(b"\1")
            shown = f"n,a={user},\1host={self._box.host}\1port={self._box.port}\1{bearer}"
        proof = base64.b64encode(shown.encode())
        if "SASL-IR" in self.abilities:
            await self._command(f"AUTHENTICATE {name} {proof.decode()}", yes)
        else:
            await self._command(f"AUTHENTICATE {name}", proof, yes)

    # --- what is asked ---

    async def select(self, folder: str) -> ImapFolder:
        try:
            lines = await self._command(f"SELECT {quoted(_to_utf7(folder))}")
        except _CommandRefused as error:
            name = one_line(folder, 60)
            if not await self._has_folder(folder):
                raise Refused(f"There is no folder “{name}” in the mailbox ({error})") from None
            why = f"The IMAP server does not open the folder “{name}” ({error})"
            raise Unreachable(why, after=_LATER_SECONDS) from None
        numbers = {}
        for line in lines:
            if match := re.match(rb"OK \[(UIDVALIDITY|UIDNEXT) (\d{1,15})\]", line.text, re.IGNORECASE):
                numbers[match[1].upper()] = int(match[2])
        if b"UIDVALIDITY" not in numbers:
            raise Unreachable("The IMAP server does not number its mail (no UIDVALIDITY)")
        if b"UIDNEXT" not in numbers:
            numbers[b"UIDNEXT"] = max(await self.search("ALL"), default=0) + 1
        return ImapFolder(validity=numbers[b"UIDVALIDITY"], next_uid=numbers[b"UIDNEXT"])

    async def _has_folder(self, name: str) -> bool:
        lines = await self._try(f'LIST "" {quoted(_to_utf7(name))}')
        flags = [match[1].lower() for line in lines if (match := _LISTED.match(line.text))]
        return any(rb"\noselect" not in flag and rb"\nonexistent" not in flag for flag in flags)

    async def search(self, *criteria: str) -> list[int]:
        """The numbers of mails that fit, in order."""
        self._news = False
        uids: set[int] = set()
        for line in await self._try(f"UID SEARCH {' '.join(criteria)}"):
            if line.text.upper().startswith(b"SEARCH"):
                uids.update(int(word) for word in line.text.split()[1:] if word.isdigit())
        return sorted(uids)

    async def newer(self, uid: int) -> list[int]:
        """The numbers above this one. `*` stands for the last mail, even if its number is lower."""
        return [number for number in await self.search(f"UID {uid + 1}:*") if number > uid]

    async def sizes(self, uids: Sequence[int]) -> dict[int, int]:
        lines = await self._try(f"UID FETCH {','.join(map(str, uids))} (UID RFC822.SIZE)")
        pairs = [numbers for numbers in map(_numbers, lines) if len(numbers) == 2]
        return {numbers[b"UID"]: numbers[b"RFC822.SIZE"] for numbers in pairs}

    async def fetch(self, uid: int, what: str = "", most: int = _PIECE) -> FetchedMail | None:
        """A mail (or its HEADER), at most so many bytes of it. None if it is gone, or if the server itself
        cannot read it: others behind it can be read. It stays unread."""
        self._most = most
        try:
            lines = await self._command(
                f"UID FETCH {uid} (UID RFC822.SIZE INTERNALDATE BODY.PEEK[{what}]<0.{most}>)"
            )
        except _CommandRefused as error:
            if error.code != b"NO" or re.search("UNAVAILABLE|INUSE|LIMIT|AUTHORIZATION", str(error).upper()):
                raise Unreachable(f"The IMAP server does not do UID FETCH ({error})") from None
            return None
        finally:
            self._most = _PIECE
        for line in lines:
            if _numbers(line).get(b"UID") == uid and b"BODY[" in line.text.upper():
                quoted_body = _QUOTED_BODY.search(line.text)
                short = re.sub(rb"\\(.)", rb"\1", quoted_body[1]) if quoted_body else b""
                body = line.literals[0] if line.literals else short
                return FetchedMail(arrived=_arrived(line.text), body=body)
        return None

    async def head(self, uid: int) -> bytes:
        """The headers of a mail; nothing if it is gone."""
        mail = await self.fetch(uid, "HEADER")
        return b"" if mail is None else mail.body

    async def mark_seen(self, uids: Sequence[int]) -> None:
        await self._try(f"UID STORE {','.join(map(str, uids))} +FLAGS.SILENT (\\Seen)")

    async def move(self, uids: Sequence[int], folder: str) -> None:
        await self._try(f"UID MOVE {','.join(map(str, uids))} {quoted(_to_utf7(folder))}")

    async def sent_folder(self) -> str | None:
        """Where this mailbox keeps what was sent."""
        by_name: str | None = None
        for line in await self._try('LIST "" "*"'):
            match = _LISTED.match(line.text)
            if match is None:
                continue
            name = _unquoted(line.literals[0] if line.literals else match[2])
            flags = match[1].lower().split()
            if rb"\noselect" in flags:
                continue
            if rb"\sent" in flags:
                return name
            if name.lower().rpartition(".")[2].rpartition("/")[2] in ("sent", "sent items", "sent messages"):
                by_name = by_name or name
        return by_name

    async def idle(self, seconds: float) -> None:
        """Come back when there may be something new, or after so many seconds."""
        if self._news:
            return
        async with self._translated():
            self._tag += 1
            tag = b"h%d" % self._tag
            await self._write(tag + b" IDLE\r\n")
            # However short the wait for news is, the server has as long to answer as for anything else.
            while not (line := await self._read()).text.startswith(b"+"):
                if self._ended(tag, line):
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not self._news:
                        if self._ended(tag, await self._read(timed=False)):
                            return
            await self._write(b"DONE\r\n")
            while not self._ended(tag, await self._read()):
                pass

    async def noop(self) -> None:
        await self._try("NOOP")

    def close(self) -> None:
        self._writer.transport.abort()

    # --- the wire ---

    async def _try(self, command: str) -> list[_Line]:
        """A command that no sane server refuses."""
        try:
            return await self._command(command)
        except _CommandRefused as error:
            what = " ".join(command.split()[:2])
            raise Unreachable(f"The IMAP server does not do {what} ({error})") from None

    async def _command(self, command: str, *more: bytes) -> list[_Line]:
        """`more` is said when the server asks for more."""
        self._tag += 1
        answers = iter(more)
        tag = b"h%d" % self._tag
        lines: list[_Line] = []
        async with self._translated():
            await self._write(tag + b" " + command.encode() + b"\r\n")
            while True:
                line = await self._read()
                if line.text.startswith(b"+"):
                    await self._write(next(answers, b"*") + b"\r\n")
                elif self._ended(tag, line):
                    return lines
                elif line.text.startswith(b"* "):
                    lines.append(_Line(line.text[2:], line.literals))

    def _ended(self, tag: bytes, line: _Line) -> bool:
        """Whether this line ends the command; an error if it ends badly, or if the server hangs up. Another
        line may say that there is new mail."""
        text = line.text.upper()
        if line.text.startswith(tag + b" "):
            code, _, words = line.text[len(tag) + 1 :].partition(b" ")
            if code.upper() != b"OK":
                raise _CommandRefused(code.upper(), words)
            return True
        if text.startswith(b"* BYE"):
            raise Unreachable(f"The IMAP server hung up ({_told(line.text[5:])})")
        if text.startswith(b"* ") and text.endswith((b" EXISTS", b" RECENT")):
            self._news = True
        return False

    async def _read(self, *, timed: bool = True) -> _Line:
        texts: list[bytes] = []
        literals: list[bytes] = []
        while True:
            async with asyncio.timeout(self._box.seconds if timed or texts else None):
                line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            line = line.rstrip(b"\r\n")
            match = _LITERAL.search(line)
            if match is None:
                return _Line(b"".join((*texts, line)), tuple(literals))
            texts.append(line[: match.start()])
            literals.append(await self._read_bytes(int(match[1])))

    async def _read_bytes(self, size: int) -> bytes:
        if size > self._most:
            raise Unreachable(f"The IMAP server sends more than it was asked for ({size} bytes)")
        pieces = bytearray()
        async with TransferLimit(self._box.seconds) as limit:
            while len(pieces) < size:
                piece = await self._reader.read(min(_PIECE, size - len(pieces)))
                if not piece:
                    raise EOFError
                limit.moved(len(piece))
                pieces += piece
        return bytes(pieces)

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(self._box.seconds):
            await self._writer.drain()

    @contextlib.asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (_CommandRefused, HermesError):
            raise
        except TimeoutError as error:
            raise Unreachable("The IMAP server does not answer") from error
        except ssl.SSLError as error:
            raise cannot_reach("IMAP", self._box.host, self._box.port, error) from error
        except (OSError, EOFError) as error:
            raise Unreachable("The connection to the IMAP server died") from error
        except ValueError as error:
            raise Unreachable("The IMAP server writes lines without an end") from error


def cannot_reach(what: str, host: str, port: int, error: Exception) -> Unreachable:
    """Why there is no connection, in one sentence."""
    where = f"The {what} server {one_line(host, 80)}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(f"{where} shows a certificate that cannot be trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLError):
        return Unreachable(f"{where} does not speak TLS as it should ({one_line(error.reason or '', 60)})")
    if isinstance(error, TimeoutError):
        return Unreachable(f"{where} does not answer", offline=True)
    why = getattr(error, "strerror", None) or type(error).__name__
    if isinstance(error, ConnectionError) and error.errno:
        why = os.strerror(error.errno)
    return Unreachable(f"{where} cannot be reached ({one_line(str(why), 80)})", offline=True)


def refused_token(what: str, user: str, why: str) -> str:
    return (
        f"The {what} server does not take the access token for {one_line(user, 80)}: log in as that user, and"
        f" see that {what} is switched on for it ({one_line(why, 120)})"
    )


def quoted(text: str) -> str:
    """A quoted string; nothing in it can end it or the command."""
    if re.search(r"[\0\r\n]", text) or not text.isascii():
        raise Refused("Something that IMAP cannot carry is in a name or a password")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def day(moment: datetime) -> str:
    """A date as SEARCH wants it."""
    return "-".join(format_datetime(moment).split()[1:4]).lstrip("0")


def _numbers(line: _Line) -> dict[bytes, int]:
    """The UID and the size in an answer to FETCH; nothing in any other."""
    if not re.match(rb"\d+ FETCH \(", line.text, re.IGNORECASE):
        return {}
    # What was asked for comes before anything in the mail that looks like it.
    return {name.upper(): int(number) for name, number in reversed(_NUMBERS.findall(line.text))}


def _arrived(text: bytes) -> datetime | None:
    match = _ARRIVED.search(text)
    try:
        moment = parsedate_to_datetime(match[1].decode("ascii") if match else "")
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _told(text: bytes) -> str:
    return one_line(text.decode("utf-8", "replace"), 120)


def _unquoted(name: bytes) -> str:
    if name.startswith(b'"') and name.endswith(b'"'):
        name = re.sub(rb"\\(.)", rb"\1", name[1:-1])
    return _from_utf7(name.decode("ascii", "replace"))


def _to_utf7(name: str) -> str:
    """A folder's name as IMAP writes it: UTF-7 with other signs (RFC 3501, 5.1.3)."""

    def packed(match: re.Match[str]) -> str:
        return "&" + match[0].encode("utf-7").decode("ascii")[1:].replace("/", ",")

    return re.sub(r"[^\x20-\x7e]+", packed, name.replace("&", "&-"))


def _from_utf7(name: str) -> str:
    def unpacked(match: re.Match[str]) -> str:
        try:
            return f"+{match[1].replace(',', '/')}-".encode().decode("utf-7") if match[1] else "&"
        except ValueError:
            return match[0]

    return re.sub(r"&([^-]*)-", unpacked, name)
