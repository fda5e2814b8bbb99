"""Addresses that carry a credential are told from those that do not."""

from __future__ import annotations

import pytest

from hermes.domain.safety.url_secrets import credential_in


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a.example/?token=abc", "token"),
        ("https://a.example/?x=1&access_token=abc", "access_token"),
        ("https://a.example/?Api-Key=abc", "Api-Key"),
        ("https://a.example/?X-Amz-Signature=abc&X-Amz-Date=1", "X-Amz-Signature"),
        ("https://a.example/?sv=1&sig=abc", "sig"),
        ("https://a.example/#access_token=abc&state=1", "access_token"),
        ("https://a.example/#/page?password=abc", "password"),
        ("https://a.example/?q=ghp_0123456789abcdefghijABCDEFGHIJ", "q"),
        ("https://a.example/?q=sk-ant-0123456789abcdefghij", "q"),
        ("https://a.example/?j=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "j"),
        ("https://a.example/?h=hermes-broker-0123456789abcdef", "h"),
        ("https://a.example/hook/xoxb-0123456789-abc", "path"),
        ("https://me:word@a.example/", "login"),
        ("https://me@a.example/", "login"),
        ("https://a.example/?" + "&".join(f"a{n}=1" for n in range(500)), "query"),
        ("https://[::1/", "query"),
    ],
)
def test_a_credential_is_named(url: str, name: str) -> None:
    assert credential_in(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/",
        "https://a.example/?q=how+to+get+a+token",
        "https://a.example/?page=2&sort=key_name",
        "https://a.example/?token=",
        "https://a.example/tokens/list?keyword=apple&passport=no",
        "https://a.example/#section-3",
        "https://a.example/sk-learn/docs",
    ],
)
def test_what_is_none(url: str) -> None:
    assert credential_in(url) == ""
