"""The proxy through which a platform is reached: what the operator said for the platform, or the names that
programs usually look at (HTTPS_PROXY, ALL_PROXY, NO_PROXY). SOCKS needs a package, loaded when it is used."""

from __future__ import annotations

import ipaddress
import re
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import urlsplit

import aiohttp

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import UserError

_SHAPE = re.compile(r"(https?|socks4a?|socks5h?)://[^\s/?#]+/?")
_SOCKS = re.compile(r"(socks[45])[ah]?(?=://)")
_PACKAGE = "aiohttp_socks"
_REMEDY = "Run: hermes platforms install socks"


def proxy_for(context: AdapterContext, variable: str, url: str) -> str | None:
    """The proxy for an address; None if it is reached without one."""
    value, name = context.setting(variable), variable
    if not value:
        name, value = _usual(context, url)
    if not value:
        return None
    if "://" not in value:
        value = f"http://{value}"
    if not _SHAPE.fullmatch(value):
        # It may hold a password, so it is not repeated.
        raise UserError(
            f"{name} is no proxy: an address is wanted, like http://127.0.0.1:3128 or socks5://127.0.0.1:1080."
        )
    if is_socks(value) and find_spec(_PACKAGE) is None:
        raise UserError(f"{name} is a SOCKS proxy, for which a package is missing.", hint=_REMEDY)
    return value


def _usual(context: AdapterContext, url: str) -> tuple[str, str]:
    """What the variables of the whole machine say, and which of them."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or _is_here(host):
        return "", ""
    usual = (f"{parts.scheme}_proxy", "all_proxy")
    for name in [spelled for small in usual for spelled in (small, small.upper())]:
        if value := context.setting(name):
            return ("", "") if _is_spared(context, host) else (name, value)
    return "", ""


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_spared(context: AdapterContext, host: str) -> bool:
    listed = context.setting("no_proxy") or context.setting("NO_PROXY")
    names = [name.strip().lower().lstrip(".") for name in listed.split(",")]
    return any(name == "*" or (name and (host == name or host.endswith(f".{name}"))) for name in names)


def is_socks(proxy: str | None) -> bool:
    return proxy is not None and _SOCKS.match(proxy) is not None


def socks_connector(proxy: str) -> aiohttp.BaseConnector:
    """Names are looked up behind the proxy: where a service is shut out, its name often is, too."""
    made = import_module(_PACKAGE).ProxyConnector.from_url(_SOCKS.sub(r"\1", proxy), rdns=True)
    connector: aiohttp.BaseConnector = made
    return connector


def socks_errors() -> tuple[type[Exception], ...]:
    """What it means that no connection came about behind a SOCKS proxy."""
    package = import_module(_PACKAGE)
    return (package.ProxyConnectionError, package.ProxyError, package.ProxyTimeoutError)
