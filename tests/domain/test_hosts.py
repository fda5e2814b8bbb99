"""Which addresses on the web lead into this machine or its network, as far as their words tell."""

from __future__ import annotations

import pytest

from hermes.domain.safety.hosts import leads_inside


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://169.254.169.254/latest",
        "https://10.1.2.3:8443/a.png",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[fe80::1%25eth0]/",
        "http://localhost:11434/",
        "http://LOCALHOST./",
        "http://printer/",
        "http://nas.local/",
        "http://metadata.google.internal/",
        "http://me:pw@192.168.0.1/",
        "http://[broken/",
        "http:///nothing",
        "http://0/",
        "http://①⑥⑨.254.169.254/",
        "http://127.0.0。1/",
        "http://127.0．0.1/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[fec0::1]/",
        "http://[5f00::1]/",
        "http://[3fff::1]/",
        "http://192.88.99.1/",
        "http://192.0.0.8/",
    ],
)
def test_inside(url: str) -> None:
    assert leads_inside(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://pictures.example/cat.png",
        "http://8.8.8.8/x",
        "https://[2606:4700::1111]/",
        "https://a.b.co.uk",
    ],
)
def test_outside(url: str) -> None:
    assert not leads_inside(url)
