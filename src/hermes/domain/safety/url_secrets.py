"""Whether an address carries a credential. Such an address is not sent on to a third party, like a service
that reads pages for an agent."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from hermes.domain.safety.late_pattern import late_pattern

_MOST_PAIRS = 200
_KEY_NAMES = """token accesstoken authtoken idtoken refreshtoken sessiontoken xamzsecuritytoken apitoken
    privatetoken bearer key apikey accesskey secretkey privatekey subscriptionkey sig signature xamzsignature
    xgoogsignature xamzcredential awsaccesskeyid password passwd pwd pass secret clientsecret credential
    credentials auth authorization jwt session sessionid sid code magic invite otp"""
_NAMES = frozenset(_KEY_NAMES.split())
_VALUE = late_pattern(
    r"(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)?[-_A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|hermes-broker-[0-9a-f]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
)
_FILLER = late_pattern(r"[^a-z0-9]+")


def credential_in(url: str) -> str:
    """The name of what looks like a credential in an address: a parameter of its query or fragment, `login`
    for a name or password before the host, `path` for a token in the path; empty if nothing does. What cannot
    be read does."""
    try:
        parts = urlsplit(url)
        named = [
            *parse_qsl(parts.query, max_num_fields=_MOST_PAIRS),
            *parse_qsl(parts.fragment.partition("?")[2] or parts.fragment, max_num_fields=_MOST_PAIRS),
        ]
    except ValueError:
        return "query"
    if "@" in parts.netloc:
        return "login"
    for name, value in named:
        if value and (_FILLER.sub("", name.lower()) in _NAMES or _VALUE.search(value)):
            return name
    return "path" if _VALUE.search(parts.path) else ""
