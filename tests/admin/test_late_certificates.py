"""A gateway that has called nobody over TLS has read no certificates, and trusts whom it always trusted."""

from __future__ import annotations

import mimetypes
import os
import subprocess
import sys

UNUSED = "print(connector._SSL_CONTEXT_UNVERIFIED.cert_store_stats()['x509'])"
READ = "made = connector._SSL_CONTEXT_VERIFIED; print(type(made).__name__)"
STATE = "print(made.verify_mode.name, made.check_hostname, made.verify_flags, made.options)"
LATE = f"""
import ssl
from hermes.admin.process.late_certificates import import_aiohttp
import_aiohttp()
from aiohttp import connector
{UNUSED}
{READ}
{STATE}
made.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
usual = ssl.create_default_context()
print(type(made) is ssl.SSLContext, made.cert_store_stats() == usual.cert_store_stats())
"""
USUAL = f"from aiohttp import connector\n{READ}\n{STATE}"


def _printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_certificates_are_read_with_the_first_connection() -> None:
    unused, kind, state, read = _printed(LATE)
    assert unused == "0"
    assert kind == "_UnreadStore"
    assert read == "True True"
    assert _printed(USUAL) == ["SSLContext", state]


TYPE = "import mimetypes; print(mimetypes.guess_type('a.docx'), len(mimetypes.types_map))"
LATE_TYPES = f"""
import mimetypes
from hermes.admin.process.heap import late_types
with late_types():
    import aiohttp.web
read = []
mimetypes.MimeTypes.read, usual = lambda *file: read.append(file) or usual(*file), mimetypes.MimeTypes.read
{TYPE}
print(bool(read))
"""


def test_types_of_files_are_read_when_somebody_asks() -> None:
    """And are those of the machine, as ever."""
    assert _printed(LATE_TYPES) == [*_printed(TYPE), str(any(map(os.path.exists, mimetypes.knownfiles)))]
