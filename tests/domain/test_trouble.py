"""Why a connection failed, as an operator reads it in `hermes status`."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import aiohttp
import pytest

from hermes.domain.text import trouble_told

_WHERE = aiohttp.client_reqrep.ConnectionKey("chat.example", 443, True, True, None, None, None)


def untrusted() -> Exception:
    wrong = ssl.SSLCertVerificationError(1, "certificate verify failed")
    wrong.verify_message = "self-signed certificate"
    return aiohttp.ClientConnectorCertificateError(_WHERE, wrong)


def cannot_connect(inner: OSError) -> Exception:
    return aiohttp.ClientConnectorError(_WHERE, inner)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (cannot_connect(OSError(errno.ECONNREFUSED, "Connect call failed")), os.strerror(errno.ECONNREFUSED)),
        (cannot_connect(socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
        (cannot_connect(OSError(None, "Domain name not found")), "Domain name not found"),
        (untrusted(), "its certificate is not trusted: self-signed certificate"),
        (ssl.SSLError(1, "wrong version"), "it does not speak TLS as it should: "),
        (aiohttp.ClientOSError(errno.ECONNRESET, "x"), os.strerror(errno.ECONNRESET)),
        (aiohttp.ServerTimeoutError(), "it took too long"),
        (aiohttp.ServerDisconnectedError(), "server disconnected"),
    ],
)
def test_trouble_is_told_in_words(error: Exception, told: str) -> None:
    assert trouble_told(error).startswith(told)


def test_an_address_with_a_token_in_it_is_not_told() -> None:
    told = trouble_told(aiohttp.InvalidURL("http://api/bot123:secret/getMe"))
    assert told == "the address that is set, or the proxy, is none"
