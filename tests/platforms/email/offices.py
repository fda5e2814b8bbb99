"""Mail servers that we did not write, with one mailbox of ours: pymap with aiosmtpd, in this process, and
dovecot with postfix, where they may be installed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import imaplib
import logging
import os
import pwd
import re
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes.testing.ports import free_port

ADDRESS = "hermes@example.org"
PASSWORD = 'p4ss "word" \\ of ours'
logging.getLogger("mail.log").setLevel(logging.ERROR)
PACKAGES = ("dovecot-imapd", "dovecot-lmtpd", "postfix")


class Office(ABC):
    imap_port: int
    smtp_port: int
    moves: bool = True

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def deliver(self, data: bytes, sender: str) -> None:
        """A mail is in our mailbox when this returns."""

    @abstractmethod
    async def renumber(self) -> None:
        """The folder gets another UIDVALIDITY and its mails other UIDs; what is in it stays."""


# --- pymap and aiosmtpd ---


class SmallOffice(Office):
    """In this process, in memory, quick to make."""

    utf8 = True
    """Whether addresses outside ASCII are carried."""

    async def open(self) -> None:
        from aiosmtpd.smtp import SMTP, AuthResult
        from proxyprotocol.sock import SocketInfoLocal
        from pymap.backend.dict import DictBackend
        from pymap.concurrent import Subsystem
        from pymap.imap import IMAPServer
        from pysasl.hashing import Cleartext

        args = Namespace(
            host="127.0.0.1", port=0, debug=False, cert=None, key=None, tls=False, proxy_protocol=None,
            passlib_cfg=None, demo_data=False, demo_user=ADDRESS, demo_password=PASSWORD,
        )  # fmt: skip
        backend, config = await DictBackend.init(
            args, hash_context=Cleartext(), cpu_subsystem=Subsystem.for_asyncio(), reject_dnsbl=False,
            invalid_user_sleep=0.0,
        )  # fmt: skip
        config.apply_context()
        self._kept: list[tuple[bytes, datetime]] = []
        imap = IMAPServer(backend.login, config)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await imap(reader, writer, SocketInfoLocal(writer))
            except OSError:
                pass
            finally:
                # pymap does not, when the other side dies.
                writer.transport.abort()

        self._imap = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
        self.imap_port = self._imap.sockets[0].getsockname()[1]
        self._mailboxes: Any = None
        async with backend.login.demo_user_identity.new_session():
            self._mailboxes = config.set_cache[ADDRESS][0]
        await self._mailboxes.add_mailbox("Sent")

        def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
            good = (data.login, data.password) == (ADDRESS.encode(), PASSWORD.encode())
            return AuthResult(success=good, handled=False)

        self._talks: list[Any] = []

        def make() -> Any:
            talk = SMTP(
                self, hostname="localhost", authenticator=authenticate, auth_require_tls=False,
                auth_required=True, data_size_limit=26_000_000, enable_SMTPUTF8=self.utf8,
                loop=asyncio.get_running_loop(),
            )  # fmt: skip
            self._talks.append(talk)
            return talk

        self._smtp = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        self.smtp_port = self._smtp.sockets[0].getsockname()[1]

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if ADDRESS in envelope.rcpt_tos:
            await self.deliver(self.passed_on(bytes(envelope.content)), envelope.mail_from)
        return "250 2.0.0 OK"

    def passed_on(self, data: bytes) -> bytes:
        """A mail as it leaves the server."""
        return data

    async def close(self) -> None:
        self._imap.close()
        self._smtp.close()
        for talk in self._talks:
            if talk.transport is not None:
                talk.transport.abort()
        await asyncio.sleep(0)

    async def deliver(self, data: bytes, sender: str) -> None:
        from pymap.parsing.message import AppendMessage

        box = await self._mailboxes.get_mailbox("INBOX")
        self._kept.append((data, datetime.now(UTC)))
        await box.append(AppendMessage(*self._kept[-1], frozenset()), recent=True)

    def age(self, by: timedelta) -> None:
        """All mails came earlier than they did; seen after the next numbering."""
        self._kept = [(data, at - by) for data, at in self._kept]

    async def renumber(self) -> None:
        from pymap.parsing.message import AppendMessage

        box = await self._mailboxes.get_mailbox("INBOX")
        await box.delete(list(box._messages))
        box._uid_validity += 1
        box._max_uid = 0
        for data, at in self._kept:
            await box.append(AppendMessage(data, at, frozenset()))


class OutlookOffice(SmallOffice):
    """Gives each mail that is sent a Message-ID of its own and keeps the one it had (git-send-email(1),
    --outlook-id-fix; chatmail/core issue 2250)."""

    def passed_on(self, data: bytes) -> bytes:
        return re.sub(
            rb"(?im)^message-id: *(<[^>]*>)",
            rb"Message-ID: <%d.PROD.OUTLOOK.COM@example.org>\r\nX-Microsoft-Original-Message-ID: \1"
            % len(self._kept),
            data,
            count=1,
        )


# --- dovecot and postfix ---


def installed() -> None:
    """See to it that the servers are here; root can, where there is Debian's installer. One at a time: what
    another is just installing looks as if it were there."""
    if os.geteuid() != 0:
        pytest.skip("dovecot and postfix are run by root only")
    with (Path(tempfile.gettempdir()) / "hermes-apt.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if _which("dovecot") and _which("postfix") and Path("/usr/lib/dovecot/lmtp").exists():
            return
        if not _which("apt-get"):
            pytest.skip("there is no apt-get that could install dovecot and postfix")
        why = _install()
        assert not why, why


def _search_path() -> str:
    """Servers lie where only root's own path leads."""
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def _which(name: str) -> str | None:
    return shutil.which(name, path=_search_path())


def _install() -> str:
    """Empty if it worked."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": _search_path()}
    wanted = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    for command in (wanted, ["apt-get", "update", "-q"], wanted):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
        if command is wanted and done.returncode == 0:
            return ""
    return f"dovecot and postfix could not be installed: {done.stderr.strip()[-200:]}"


DOVECOT = """\
base_dir = {run}
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_failure_delay = 0
auth_mechanisms = plain login xoauth2 oauthbearer
default_login_user = dovenull
default_internal_user = dovecot
mail_location = maildir:~/Maildir
mail_max_userip_connections = 1000
mail_fsync = never
first_valid_uid = 1
passdb {{
  driver = oauth2
  mechanisms = xoauth2 oauthbearer
  args = {folder}/oauth2.conf
}}
passdb {{
  driver = passwd-file
  mechanisms = plain login
  args = scheme=PLAIN username_format=%u {folder}/users
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox "Sent Mail" {{
    auto = create
    special_use = \\Sent
  }}
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
  }}
  service_count = 0
  process_min_avail = 1
}}
service imap {{
  service_count = 100
  process_min_avail = 2
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service auth {{
  inet_listener sasl {{
    address = 127.0.0.1
    port = {sasl}
  }}
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  unix_listener stats-writer {{
    mode = 0666
  }}
}}
"""
OAUTH = """\
tokeninfo_url = http://127.0.0.1:{tokens}/tokeninfo?access_token=
introspection_mode =
username_attribute = email
"""
POSTFIX = """\
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
mail_owner = postfix
setgid_group = postdrop
default_privs = nobody
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mx.example.org
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
mynetworks = 0.0.0.0/32
virtual_mailbox_domains = example.org, example.com
virtual_mailbox_maps = regexp:{folder}/people
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
message_size_limit = 26000000
maillog_file = {folder}/postfix.log
maillog_file_prefixes = {folder}
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{sasl}
smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination
smtpd_tls_cert_file = {folder}/cert.pem
smtpd_tls_key_file = {folder}/key.pem
smtpd_tls_security_level = may
smtpd_client_connection_count_limit = 0
smtpd_timeout = 60s
smtpd_peername_lookup = no
smtputf8_enable = no
"""


class RealOffice(Office):
    """dovecot and postfix from folders of their own, on ports of their own; made once, emptied for each
    test. They end with the process that made them."""

    _made: RealOffice | None = None

    @classmethod
    def get(cls) -> RealOffice:
        if cls._made is None:
            installed()
            made = cls()
            made.start()
            cls._made = made
        return cls._made

    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-mail-"))
        self.folder.chmod(0o755)
        ports = [free_port() for _ in range(6)]
        self.imap_port, self.imaps_port, self.smtp_port, self.lmtp_port, self.token_port, sasl = ports
        owner = pwd.getpwnam("mail")
        (self.folder / "mail").mkdir()
        os.chown(self.folder / "mail", owner.pw_uid, owner.pw_gid)
        (self.folder / "users").write_text(f"{ADDRESS}:{{PLAIN}}{PASSWORD}\n")
        (self.folder / "people").write_text("/^(hermes|p[0-9]+|ann)@/ OK\n")
        self._make_certificate()
        facts = {
            "folder": self.folder, "run": self.folder / "run", "uid": owner.pw_uid, "gid": owner.pw_gid,
            "imap": self.imap_port, "imaps": self.imaps_port, "lmtp": self.lmtp_port, "sasl": sasl,
            "tokens": self.token_port,
        }  # fmt: skip
        (self.folder / "dovecot.conf").write_text(DOVECOT.format(**facts))
        (self.folder / "oauth2.conf").write_text(OAUTH.format(**facts))
        post = self.folder / "postfix"
        for name in ("postfix", "queue", "data"):
            (self.folder / name).mkdir()
        shutil.chown(self.folder / "data", "postfix")
        (post / "main.cf").write_text(POSTFIX.format(**facts))
        master = Path("/usr/share/postfix/master.cf.dist").read_text()
        text = master.replace("\nsmtp      inet", f"\n127.0.0.1:{self.smtp_port} inet", 1)
        (post / "master.cf").write_text(_without_chroot(text) + "\n")
        _run("dovecot", "-c", str(self.folder / "dovecot.conf"))
        _run("postfix", "-c", str(post), "start")
        atexit.register(self.stop)
        for port in (self.imap_port, self.smtp_port, self.lmtp_port):
            _await_port(port, self.folder)

    def stop(self) -> None:
        """Each master by its own number: `postfix stop` leaves a private one running."""
        for path in (self.folder / "run" / "master.pid", self.folder / "queue" / "pid" / "master.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(path.read_text().strip()), 15)
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.05)

    def _make_certificate(self) -> None:
        _run(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", str(self.folder / "key.pem"),
            "-out", str(self.folder / "cert.pem"),
        )  # fmt: skip
        (self.folder / "key.pem").chmod(0o644)

    async def open(self) -> None:
        """Empty every mailbox."""
        self._lmtp: smtplib.LMTP | None = None
        self._looking: imaplib.IMAP4 | None = None
        for box in (self.folder / "mail").iterdir():
            await asyncio.to_thread(shutil.rmtree, box, True)

    async def close(self) -> None:
        if self._lmtp is not None:
            self._lmtp.close()
        if self._looking is not None:
            self._looking.shutdown()

    async def deliver(self, data: bytes, sender: str) -> None:
        await asyncio.to_thread(self._deliver, data, sender)

    def _deliver(self, data: bytes, sender: str) -> None:
        """By LMTP, as postfix does it: dovecot has stored it when it answers. Mails that come beside each
        other are numbered at the next look, in any order: so somebody looks at once."""
        if self._lmtp is None or self._looking is None:
            self._lmtp = smtplib.LMTP("127.0.0.1", self.lmtp_port)
            self._looking = imaplib.IMAP4("127.0.0.1", self.imap_port)
            self._looking.login(ADDRESS, PASSWORD)
            self._looking.select(readonly=True)
        refused = self._lmtp.sendmail(sender, [ADDRESS], data)
        assert not refused
        self._looking.noop()

    async def renumber(self) -> None:
        """As after a restore from a backup: dovecot's own list of numbers is lost."""
        box = self.folder / "mail" / ADDRESS / "Maildir"
        await asyncio.sleep(1.1)  # the number is made from the time, in seconds
        for path in box.glob("dovecot*"):
            if path.is_file():
                path.unlink()

    def received(self, person: str) -> list[bytes]:
        """What lies in somebody's mailbox, as the files that dovecot wrote."""
        box = self.folder / "mail" / person / "Maildir"
        return [path.read_bytes() for place in ("new", "cur") for path in sorted((box / place).glob("*"))]


def _without_chroot(master: str) -> str:
    """postfix's services, none of them in a cage of its own: there is nothing to resolve names with in it."""
    lines = []
    for line in master.splitlines():
        words = line.split()
        if len(words) >= 8 and not line.startswith(("#", " ")):
            words[4] = "n"
            line = " ".join(words)
        lines.append(line)
    return "\n".join(lines)


def _run(*command: str) -> None:
    """What it says goes into a file: a pipe would stay open as long as a server that it starts."""
    with tempfile.TemporaryFile("w+") as told:
        program = [_which(command[0]) or command[0], *command[1:]]
        environ = {**os.environ, "PATH": _search_path()}
        done = subprocess.run(program, env=environ, stdout=told, stderr=told, timeout=200, check=False)
        told.seek(0)
        assert done.returncode == 0, f"{' '.join(command)}\n{told.read()}"


def _await_port(port: int, folder: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    log = folder / "dovecot.log"
    raise AssertionError(f"no server on {port}: {log.read_text()[-2000:] if log.exists() else ''}")
