"""Secrets of many kinds, shaped as their vendors say, and harmless lines that look a bit like some."""

from __future__ import annotations

import base64
import json
import random
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

_ALNUM = ascii_letters + digits
_URL = _ALNUM + "-_"
_HEX = "0123456789abcdef"
_B64 = _ALNUM + "+/"
Maker = Callable[[random.Random], str]


def _of(prefix: str, count: int, signs: str = _ALNUM, suffix: str = "") -> Maker:
    return lambda rng: prefix + "".join(rng.choices(signs, k=count)) + suffix


def _joined(sign: str, *makers: Maker) -> Maker:
    return lambda rng: sign.join(make(rng) for make in makers)


def _jwt(rng: random.Random) -> str:
    def part(data: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")

    head, body = (
        {"alg": "HS256", "typ": "JWT"},
        {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9)},
    )
    return f"{part(head)}.{part(body)}.{''.join(rng.choices(_URL, k=43))}"


def pem(rng: random.Random, kind: str = "RSA ") -> str:
    lines = "\n".join("".join(rng.choices(_B64, k=64)) for _ in range(6))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


VENDORS: dict[str, Maker] = {
    "github": _of("ghp_", 36),
    "github oauth": _of("gho_", 36),
    "github app": _of("ghs_", 36),
    "github fine": lambda rng: f"github_pat_{_of('', 22)(rng)}_{_of('', 59)(rng)}",
    "gitlab": _of("glpat-", 20, _URL),
    "gitlab deploy": _of("gldt-", 20, _URL),
    "openai": _of("sk-", 48),
    "openai project": _of("sk-proj-", 120, _URL),
    "anthropic": _of("sk-ant-api03-", 93, _URL, "AA"),
    "openrouter": _of("sk-or-v1-", 64, _HEX),
    "xai": _of("xai-", 80),
    "groq": _of("gsk_", 52),
    "google": _of("AIza", 35, _URL),
    "google oauth": _of("ya29.a0", 120, _URL),
    "google client": _of("GOCSPX-", 28, _URL),
    "aws": _of("AKIA", 16, ascii_uppercase + "234567"),
    "aws session": _of("ASIA", 16, ascii_uppercase + "234567"),
    "hugging face": _of("hf_", 34),
    "replicate": _of("r8_", 37),
    "npm": _of("npm_", 36),
    "pypi": _of("pypi-AgEIcHlwaS5vcmc", 130, _URL),
    "digital ocean": _of("dop_v1_", 64, _HEX),
    "shopify": _of("shpat_", 32, _HEX),
    "stripe": _of("sk_live_", 24),
    "stripe restricted": _of("rk_live_", 99),
    "stripe webhook": _of("whsec_", 32),
    "slack bot": _joined("-", _of("xoxb-", 12, digits), _of("", 13, digits), _of("", 24)),
    "slack user": _joined("-", _of("xoxp-", 12, digits), _of("", 32, _HEX)),
    "slack app": _joined("-", _of("xapp-1-A", 10, ascii_uppercase), _of("", 12, digits), _of("", 64, _HEX)),
    "sendgrid": lambda rng: f"SG.{_of('', 22, _URL)(rng)}.{_of('', 43, _URL)(rng)}",
    "mailgun": _of("key-", 32, _HEX),
    "twilio": _of("SK", 32, _HEX),
    "square": _of("sq0atp-", 22, _URL),
    "linear": _of("lin_api_", 40),
    "notion": _of("ntn_", 46),
    "figma": _of("figd_", 40, _URL),
    "databricks": _of("dapi", 32, _HEX),
    "postman": lambda rng: f"PMAK-{_of('', 24, _HEX)(rng)}-{_of('', 34, _HEX)(rng)}",
    "new relic": _of("NRAK-", 27, ascii_uppercase + digits),
    "grafana": lambda rng: f"glsa_{_of('', 32)(rng)}_{_of('', 8, _HEX)(rng)}",
    "vault": _of("hvs.CAES", 90, _URL),
    "tailscale": lambda rng: f"tskey-auth-{_of('', 12)(rng)}-{_of('', 32)(rng)}",
    "docker": _of("dckr_pat_", 27, _URL),
    "atlassian": _of("ATATT3xFfGF0", 170, _URL),
    "planetscale": _of("pscale_tkn_", 43, _URL),
    "rubygems": _of("rubygems_", 48, _HEX),
    "perplexity": _of("pplx-", 48),
    "nvidia": _of("nvapi-", 64, _URL),
    "langsmith": lambda rng: f"lsv2_pt_{_of('', 32, _HEX)(rng)}_{_of('', 10, _HEX)(rng)}",
    "supabase": _of("sbp_", 40, _HEX),
    "airtable": lambda rng: f"pat{_of('', 14)(rng)}.{_of('', 64, _HEX)(rng)}",
    "doppler": _of("dp.pt.", 43),
    "netlify": _of("nfp_", 36),
    "brevo": lambda rng: f"xkeysib-{_of('', 64, _HEX)(rng)}-{_of('', 16)(rng)}",
    "tavily": _of("tvly-dev-", 32),
    "age": _of("AGE-SECRET-KEY-1", 58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "telegram": lambda rng: f"{rng.randrange(10**8, 10**10)}:AA{_of('', 33, _URL)(rng)}",
    "discord": lambda rng: f"M{_of('', 23)(rng)}.{_of('G', 5)(rng)}.{_of('', 38, _URL)(rng)}",
    "jwt": _jwt,
}
"""Keys that tell by themselves what they are."""

NAMED: dict[str, Maker] = {
    "AWS_SECRET_ACCESS_KEY={}": _of("", 40, _B64),
    "api_key = '{}'": _of("", 32, _HEX),
    '"password": "{}"': _of("", 14, _ALNUM + "!%+~"),
    "client_secret: {}": _of("", 40, _URL),
    "Authorization: Bearer {}": _of("", 40, _URL),
    "authorization: Basic {}": _of("", 36, _B64, "=="),
    "X-Api-Key: {}": _of("", 32),
    "postgres://app:{}@db.internal:5432/main": _of("", 18, _ALNUM),
    "https://bot:{}@example.org/x.git": _of("", 30),
    "--token {}": _of("", 36),
    "DB_PASSWORD={}": _of("Pw", 12),
    "AccountKey={};EndpointSuffix=core": _of("", 86, _B64, "=="),
    "<secret>{}</secret>": _of("", 24),
    "https://hooks.slack.com/services/{}": _joined(
        "/", _of("T", 8, ascii_uppercase), _of("B", 8, ascii_uppercase), _of("", 24)
    ),
    "https://discord.com/api/webhooks/123456789012345678/{}": _of("", 68, _URL),
    "https://x.blob.core/a?sv=2024&sig={}&se=1": _of("", 43, _ALNUM, "%3D"),
    "Cookie: session={}; theme=dark": _of("", 40, _URL),
    "export SIGNING_KEY={}": _of("", 44, _B64),
    '{{"refresh_token": "{}"}}': _of("", 48, _URL),
    "the password is {}": _of("x9", 10),
    "access_token={}&scope=all": _of("", 40),
    "secretKey: '{}',": _of("", 32),
}
"""Keys that tell by what stands beside them."""


def foreign_secrets(each: int, seed: int = 15) -> Iterator[tuple[str, str]]:
    """A secret, and a line with it."""
    rng = random.Random(seed)
    lines = ("it says {} there", "KEY={}", '{{"value": "{}"}}', "\\n{}\\n")
    for make in VENDORS.values():
        for number in range(each):
            secret = make(rng)
            yield secret, lines[number % len(lines)].format(secret)
    for line, make in NAMED.items():
        for _ in range(each):
            secret = make(rng)
            yield secret, line.format(secret)
    for kind in ("RSA ", "", "EC ", "OPENSSH "):
        key = pem(rng, kind)
        yield key.split("\n")[2], key


def loaded_secrets(count: int, seed: int = 15) -> dict[str, str]:
    """Name → value, of many shapes, also such as no pattern could tell."""
    rng = random.Random(seed)
    shapes: list[Maker] = [
        *VENDORS.values(),
        _of("", 16),
        _of("", 40, _B64),
        _of("", 64, _HEX),
        _of("pä$ß/", 9),
        _of("", 12, ascii_lowercase),
        _of("two words & <tags> ", 8),
        _of("", 7, digits + ascii_lowercase),
        lambda rng: str(uuid.UUID(int=rng.getrandbits(128))),
        pem,
        _of("quote\"'\\", 12),
        _of("", 300, _URL),
    ]
    return {f"S{number}_API_KEY": shapes[number % len(shapes)](rng) for number in range(count)}


# --- harmless ----------------------------------------------------------------------------------------


def _made(rng: random.Random) -> Iterator[str]:
    for _ in range(25):
        sha, ident = "".join(rng.choices(_HEX, k=40)), uuid.UUID(int=rng.getrandbits(128))
        yield f"commit {sha}"
        yield f"sha256:{''.join(rng.choices(_HEX, k=64))}  release-{rng.randrange(99)}.tar.gz"
        yield f"request_id={ident} status=200 tokens={rng.randrange(9999)}"
        yield f'  "integrity": "sha512-{"".join(rng.choices(_B64, k=86))}==",'
        yield f"IMG_{rng.randrange(10**8)}_{rng.randrange(10**6)}.jpg  {rng.randrange(10**7)} bytes"
        yield f"session=20261118_{rng.randrange(10**6):06}_{sha[:8]} turn.done seconds={rng.random():.2f}"
        yield f"max_tokens: {rng.randrange(9999)}, top_p: 1, key: n{rng.randrange(9)}"
        yield f"https://example.org/wiki/Page_{rng.randrange(999)}?id={ident}&page={rng.randrange(99)}"
        yield f"cache_key={sha[:16]} primary_key=id{rng.randrange(99)} public_key_id={sha[:8]}"
        yield f"Docker image registry.example.org/team/app@sha256:{''.join(rng.choices(_HEX, k=64))}"


_ABOUT = re.compile(r"token|secret|passw|key|auth|hash|cookie|credential|://", re.IGNORECASE)


_LOOKING_ALIKE = r"""PWD=/workspace
OLDPWD=/workspace
PWD=/home/Alice/Project
declare -x PWD="/workspace"
PWD=/root
bypass: v1.2.3-rc1
compass: N45E12
compass=north12
--low-pass 12000Hz
sox --high-pass 300000
first-pass optimizer2 run
pass: src/test_a.py::test_b1
pass: test_foo1_bar
pass: 1234567 tests
cwd=pwd, pass=1234567
first pass: 12.5 seconds
pass=100%25 done
password = settings.password2
password=self.password_v2,
const password = formData.password1;
password: hashedPassword2,
password: z.string().min(8),
password: !vault |
password: ${DB_PASSWORD}
pwd: process.cwd()
token = tokens[i+1]
token=token_v2_abc
x_signature=compute_signature_v2(data)
signature=inspect_signature_of_function
?sig=abcdef_this_is_a_function
https://host:8443?x=y@z
fetch http://localhost:3000?x=@a
docker://registry:5000@sha256:abcdef
see http://localhost:3000/@vite/client
private_key: /etc/ssl/private/My1.key
Cookie: consent=accepted_all_cookies_2024
basic understanding_of_v2_things
token: 人工智能2024年的研究包括机器人和语言识别
key: 专家系统"""
LOOKING_ALIKE = _LOOKING_ALIKE.split("\n")
"""Lines that were once taken for secrets."""


def harmless_lines(count: int, seed: int = 15) -> list[str]:
    """Lines that were made up, and lines of Python's own library that speak of keys and tokens."""
    rng = random.Random(seed)
    made = [*_made(rng), *LOOKING_ALIKE]
    library = Path(random.__file__).parent
    files = sorted(path for path in library.glob("*.py") if path.stat().st_size < 300_000)
    files += sorted((library / "http").glob("*.py")) + sorted((library / "urllib").glob("*.py"))
    lines = [
        line
        for path in files
        for line in path.read_text("utf-8", "replace").splitlines()
        if len(line) > 20 and _ABOUT.search(line)
    ]
    assert sys.version_info[:2] == (3, 11) and len(lines) > count, "other lines of another library"
    return made + rng.sample(lines, count - len(made))
