"""Who may wake an agent: vendors' own vectors are taken, and nothing that differs from them in one bit."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace
from hermes.entry.http.webhooks.signatures import (
    NO_AUTH,
    SCHEMES,
    TOLERANCE,
    BadSignature,
    Headers,
    SignatureScheme,
    VerifiedSignature,
    sign,
    verify,
)

NOW = 1_614_265_330
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request as it comes in, and what the route knows."""

    headers: Pairs
    body: bytes
    secret: str
    now: float = NOW

    def verify(self, loopback: bool = True, only: SignatureScheme | None = None) -> VerifiedSignature:
        key = Secret(self.secret)
        return verify(Headers(self.headers), self.body, key, now=self.now, loopback=loopback, only=only)

    def refused(self, only: SignatureScheme | None = None) -> bool:
        try:
            self.verify(only=only)
        except BadSignature:
            return True
        return False


def _hex(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


# Published by Svix and Standard Webhooks (their libraries' tests and docs), GitHub ("Validating webhook
# deliveries") and Slack ("Verifying requests from Slack"). Stripe ("Verify manually"), Shopify and Linear
# publish what is signed and no whole example, so theirs were made with `openssl dgst -sha256 -hmac`; the
# generic schemes are ours, so their values are computed here another way.
SVIX = Sent(
    headers=(
        ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ),
    body=b'{"test": 2432232314}',
    secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
)
STANDARD = replace(
    SVIX, headers=tuple((name.replace("svix", "webhook"), text) for name, text in SVIX.headers)
)
GITHUB = Sent(
    headers=(
        (
            "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
    ),
    body=b"Hello, World!",
    secret="It's a Secret to Everybody",
)
GITLAB = Sent(headers=(("X-Gitlab-Token", "wörd of mouth"),), body=b"{}", secret="wörd of mouth")
STRIPE = Sent(
    headers=(
        (
            "Stripe-Signature",
            f"t={NOW},v1=75aa5592636f59fa07860fc9cd5270fba272aa1d81553b8fdcf1557f0adc8c59",
        ),
    ),
    body=b'{"id": "evt_1NG8Du2eZvKYlo2CUI79vXWy", "object": "event"}',
    secret="whsec_test_secret",
)
SLACK = Sent(
    headers=(
        ("X-Slack-Request-Timestamp", "1531420618"),
        ("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
    ),
    body=b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    secret="8f742231b10e8888abcd99yyyzzz85a5",
    now=1531420618,
)
SHOPIFY = Sent(
    headers=(("X-Shopify-Hmac-Sha256", "D0UMXmhjwBRi4y66TmhJrDlhQABD7zI2fm3p6/QLMo8="),),
    body=b'{"id":820982911946154508,"email":"jon@example.com"}',
    secret="hush",
)
LINEAR = Sent(
    headers=(("Linear-Signature", "dc63cea7dc7a6c3527635c148de05615c433ff99df2789674d8721d44986a61d"),),
    body=b'{"action":"create","type":"Issue","webhookTimestamp":1614265330000}',
    secret="lin_wh_secret",
)
V2 = Sent(
    headers=(
        ("X-Webhook-Timestamp", str(NOW)),
        ("X-Webhook-Signature-V2", _hex("s3cret", b'1614265330.{"a":1}')),
    ),
    body=b'{"a":1}',
    secret="s3cret",
)
V1 = Sent(headers=(("X-Webhook-Signature", _hex("s3cret", b'{"a":1}')),), body=b'{"a":1}', secret="s3cret")
GENUINE = {
    "svix": SVIX,
    "standard webhooks": STANDARD,
    "github": GITHUB,
    "gitlab": GITLAB,
    "stripe": STRIPE,
    "slack": SLACK,
    "shopify": SHOPIFY,
    "linear": LINEAR,
    "v2": V2,
    "v1": V1,
}


@pytest.mark.parametrize(
    ("sent", "proof"),
    [
        (
            SVIX,
            VerifiedSignature(scheme=SignatureScheme.SVIX, id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=NOW),
        ),
        (
            STANDARD,
            VerifiedSignature(scheme=SignatureScheme.SVIX, id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=NOW),
        ),
        (GITHUB, VerifiedSignature(scheme=SignatureScheme.GITHUB)),
        (GITLAB, VerifiedSignature(scheme=SignatureScheme.GITLAB)),
        (STRIPE, VerifiedSignature(scheme=SignatureScheme.STRIPE, timestamp=NOW)),
        (SLACK, VerifiedSignature(scheme=SignatureScheme.SLACK, timestamp=1531420618)),
        (SHOPIFY, VerifiedSignature(scheme=SignatureScheme.SHOPIFY)),
        (LINEAR, VerifiedSignature(scheme=SignatureScheme.LINEAR)),
        (V2, VerifiedSignature(scheme=SignatureScheme.GENERIC_V2, timestamp=NOW)),
        (V1, VerifiedSignature(scheme=SignatureScheme.GENERIC_V1)),
    ],
    ids=GENUINE,
)
def test_what_vendors_sign_is_taken(sent: Sent, proof: VerifiedSignature) -> None:
    taken = sent.verify()
    assert bool(taken.signed) is (proof.scheme is not SignatureScheme.GITLAB)
    assert replace(taken, signed="") == proof
    assert sent.verify(only=proof.scheme) == taken
    for other in SCHEMES:
        assert other is proof.scheme or sent.refused(other)
    proof = taken
    shouted = tuple((name.upper(), text) for name, text in sent.headers)
    assert replace(sent, headers=shouted).verify() == proof
    if proof.timestamp is not None:
        for edge in (-TOLERANCE, TOLERANCE):
            assert replace(sent, now=sent.now + edge).verify() == proof
        for beyond in (-TOLERANCE - 1, TOLERANCE + 1):
            assert replace(sent, now=sent.now + beyond).refused()


@pytest.mark.parametrize("name", ["github", "stripe", "slack", "linear", "v2", "v1"])
def test_digits_may_be_capital_letters(name: str) -> None:
    def capital(text: str) -> str:
        return re.sub("[0-9a-f]{64}", lambda digits: digits[0].upper(), text)

    sent = GENUINE[name]
    shouted = tuple((key, capital(text)) for key, text in sent.headers)
    assert shouted != sent.headers and not replace(sent, headers=shouted).refused()


@pytest.mark.parametrize(
    ("time", "taken"),
    [
        (f"{NOW}000", True),
        (f"{NOW + TOLERANCE}000", True),
        (f"{NOW + TOLERANCE + 1}000", False),
        (f"{NOW - 7 * 3600}000", True),  # Linear's last retry
        (f"{NOW - 86_401}000", False),
        (f"{NOW}", False),  # seconds
        (f'"{NOW}000"', False),
        ("null", False),
        (f"-{NOW}000", False),
        ("9" * 30, False),
    ],
)
def test_the_time_in_a_body_of_linear_counts(time: str, taken: bool) -> None:
    body = f'{{"type":"Issue","webhookTimestamp":{time}}}'.encode()
    sent = replace(LINEAR, headers=(("Linear-Signature", _hex(LINEAR.secret, body)),), body=body)
    assert sent.refused() is not taken


@pytest.mark.parametrize("body", [b"{}", b"[]", b"not json", b""])
def test_a_body_of_linear_without_a_time_is_refused(body: bytes) -> None:
    assert replace(LINEAR, headers=(("Linear-Signature", _hex(LINEAR.secret, body)),), body=body).refused()


def test_one_of_several_stripe_signatures_is_enough() -> None:
    """While a secret is being replaced, Stripe signs with both."""
    (name, text), *_ = STRIPE.headers
    several = text.replace(",v1=", f",v1={'0' * 64},v1=") + f",v0={'1' * 64}"
    assert _with(STRIPE, name, several).verify().scheme is SignatureScheme.STRIPE
    assert _with(STRIPE, name, text.replace("v1=", "v0=")).refused(), "v0 is for tests of theirs"
    assert _with(STRIPE, name, f"{text},t={NOW + 1}").refused(), "one time, or none"
    assert _with(STRIPE, name, f"t={NOW}").refused()


def test_one_of_several_svix_signatures_is_enough() -> None:
    """The example of the Standard Webhooks specification, with a rotated and a foreign signature beside."""
    several = (
        "v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo= v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= "
        "v2,MzJsNDk4MzI0K2VvdSMjMTEjQEBAQDEyMzMzMzEyMwo="
    )
    assert _with(SVIX, "svix-signature", several).verify().scheme is SignatureScheme.SVIX
    assert _with(SVIX, "svix-signature", several.replace("g0hM", "g0hN")).refused()
    assert _with(SVIX, "svix-signature", several.replace("v1,g0hM", "v2,g0hM")).refused()


def test_a_svix_secret_without_its_prefix_is_taken_as_it_is_or_as_base64() -> None:
    assert replace(SVIX, secret="MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").verify().scheme is SignatureScheme.SVIX
    signed = base64.b64encode(
        hmac.digest(b"not base64!", b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + SVIX.body, "sha256")
    )
    plain = replace(_with(SVIX, "svix-signature", f"v1,{signed.decode()}"), secret="not base64!")
    assert plain.verify().scheme is SignatureScheme.SVIX


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!!!", "whsec_===="])
def test_a_svix_secret_that_is_none_denies(secret: str) -> None:
    signed = base64.b64encode(hmac.digest(b"", b"msg_x.1614265330.{}", "sha256")).decode()
    empty_key = replace(
        _with(_with(SVIX, "svix-id", "msg_x"), "svix-signature", f"v1,{signed}"), body=b"{}", secret=secret
    )
    assert empty_key.refused()


@pytest.mark.parametrize("sent", GENUINE.values(), ids=GENUINE)
def test_an_empty_secret_denies(sent: Sent) -> None:
    for secret in ("", " ", "\t\n"):
        signed = (
            ("X-Webhook-Signature", _hex(secret, sent.body)),
            ("X-Gitlab-Token", secret),
        )
        assert replace(sent, secret=secret).refused()
        for header in signed:
            assert replace(sent, secret=secret, headers=(header,)).refused()


def test_without_authentication_only_on_loopback() -> None:
    bare = Sent(headers=(), body=b"{}", secret=NO_AUTH)
    assert bare.verify(loopback=True) == VerifiedSignature(scheme=SignatureScheme.NONE)
    with pytest.raises(BadSignature):
        bare.verify(loopback=False)


def test_no_signature_is_refused() -> None:
    assert replace(GITHUB, headers=(("X-Request-ID", "1"),)).refused()


@pytest.mark.parametrize("only", [None, *SCHEMES])
def test_a_test_of_ours_is_taken_by_every_route_and_counts_in_no_other_scheme(
    only: SignatureScheme | None,
) -> None:
    headers = sign(b"[]", Secret("pass"), now=NOW)
    sent = Sent(headers=tuple(headers.items()), body=b"[]", secret="pass")
    assert sent.verify(only=only).scheme is SignatureScheme.TEST
    assert replace(sent, now=NOW + TOLERANCE + 1).refused(only)
    as_v2 = (("X-Webhook-Timestamp", str(NOW)), ("X-Webhook-Signature-V2", sent.headers[1][1]))
    assert replace(sent, headers=as_v2).refused(only)


def test_the_first_scheme_found_decides() -> None:
    """A genuine signature in a later scheme does not mend a wrong one in an earlier scheme."""
    wrong: dict[str, Pairs] = {
        "svix": tuple((name, "0") for name, _ in SVIX.headers),
        "github": (("X-Hub-Signature-256", "sha256=" + "0" * 64),),
        "gitlab": (("X-Gitlab-Token", "no"),),
        "stripe": (("Stripe-Signature", f"t={NOW},v1={'0' * 64}"),),
        "slack": (("X-Slack-Request-Timestamp", str(NOW)), ("X-Slack-Signature", "v0=" + "0" * 64)),
        "shopify": (("X-Shopify-Hmac-Sha256", "0000"),),
        "linear": (("Linear-Signature", "0" * 64),),
        "v2": (("X-Webhook-Timestamp", str(NOW)), ("X-Webhook-Signature-V2", "0" * 64)),
    }
    order = ["svix", "github", "gitlab", "stripe", "slack", "shopify", "linear", "v2", "v1"]
    for place, later in enumerate(order):
        for earlier in order[:place]:
            genuine = GENUINE[later]
            assert not genuine.refused()
            assert replace(genuine, headers=(*genuine.headers, *wrong[earlier])).refused(), (earlier, later)


# --- forgeries ---


def _with(sent: Sent, name: str, text: str) -> Sent:
    return replace(sent, headers=tuple((key, text if key == name else old) for key, old in sent.headers))


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _flipped_body(sent: Sent, dice: random.Random) -> Sent:
    return replace(sent, body=_flip(sent.body, dice.randrange(len(sent.body) * 8)))


def _flipped_header(sent: Sent, dice: random.Random) -> Sent:
    name, text = dice.choice(sent.headers)
    while True:
        changed = _flip(text.encode(), dice.randrange(len(text.encode()) * 8)).decode(
            "utf-8", "surrogateescape"
        )
        if changed.lower() != text.lower():
            return _with(sent, name, changed)


def _cut_header(sent: Sent, dice: random.Random) -> Sent:
    name, text = dice.choice(sent.headers)
    return _with(sent, name, text[: dice.randrange(len(text))])


def _longer_header(sent: Sent, dice: random.Random) -> Sent:
    name, text = dice.choice(sent.headers)
    # Behind a comma, Stripe may add elements of other kinds.
    letters = "0a=.\u0660 " if name == "Stripe-Signature" else "0a=.\u0660 ,"
    more = "".join(dice.choice(letters) for _ in range(dice.randint(1, 4))).strip() or "0"
    glued = text + more
    return _with(sent, name, glued if dice.random() < 0.5 else more + text)


def _wrong_secret(sent: Sent, dice: random.Random) -> Sent:
    place = dice.randrange(len(sent.secret))
    other = dice.choice([letter for letter in "ABCabc123" if letter != sent.secret[place]])
    return replace(sent, secret=sent.secret[:place] + other + sent.secret[place + 1 :])


def _longer_body(sent: Sent, dice: random.Random) -> Sent:
    more = dice.choice([b" ", b"\n", b"\0", b"}", b"."])
    return replace(sent, body=sent.body + more if dice.random() < 0.5 else more + sent.body)


def _shorter_body(sent: Sent, dice: random.Random) -> Sent:
    return replace(sent, body=sent.body[: dice.randrange(len(sent.body))])


def _missing_header(sent: Sent, dice: random.Random) -> Sent:
    gone = dice.choice(sent.headers)
    return replace(sent, headers=tuple(pair for pair in sent.headers if pair != gone))


def _header_twice(sent: Sent, dice: random.Random) -> Sent:
    again = dice.choice(sent.headers)
    other = again if dice.random() < 0.3 else (again[0].upper(), "x" + again[1])
    pairs = [*sent.headers, other]
    dice.shuffle(pairs)
    return replace(sent, headers=tuple(pairs))


def _foreign_headers(sent: Sent, dice: random.Random) -> Sent:
    other = dice.choice([one for one in GENUINE.values() if one.secret != sent.secret])
    return replace(sent, headers=other.headers)


def _swapped_values(sent: Sent, dice: random.Random) -> Sent:
    texts = [text for _, text in sent.headers]
    return replace(
        sent,
        headers=tuple(
            (name, text) for (name, _), text in zip(sent.headers, texts[1:] + texts[:1], strict=True)
        ),
    )


def _stale(sent: Sent, dice: random.Random) -> Sent:
    return replace(sent, now=sent.now + dice.choice([-1, 1]) * dice.randint(TOLERANCE + 1, 10_000_000))


def _strange_time(sent: Sent, dice: random.Random) -> Sent:
    name = next(name for name, _ in sent.headers if "timestamp" in name.lower())
    arabic = str(NOW).translate({ord("0") + digit: 0x0660 + digit for digit in range(10)})
    full = str(NOW).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)})
    strange = [
        arabic,
        full,
        f"+{NOW}",
        f"{NOW}.0",
        f" {NOW}",
        f"{NOW}e0",
        f"0x{NOW:x}",
        f"{NOW:_}",
        f"-{NOW}",
    ]
    return _with(sent, name, dice.choice([*strange, f"{NOW}\n", "", "now", "9" * 40, f"0{NOW}"]))


def _signed_strange_time(sent: Sent, dice: random.Random) -> Sent:
    """Strange digits for which the signature itself is right: whoever signs must write a plain time."""
    strange = dice.choice([f"{NOW}.0", f"+{NOW}", str(NOW).replace("1", "\u0661")])
    return replace(
        V2,
        headers=(
            ("X-Webhook-Timestamp", strange),
            ("X-Webhook-Signature-V2", _hex(V2.secret, strange.encode() + b"." + V2.body)),
        ),
    )


def _other_cut(sent: Sent, dice: random.Random) -> Sent:
    """The same signed bytes, cut elsewhere between id, time and body: a later time out of the body."""
    inner = b'{"note": ".%d.' % (NOW + 10_000)
    key = base64.b64decode(SVIX.secret.removeprefix("whsec_"))
    signed = b"msg_1.%d." % NOW + inner + b'"}'
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return Sent(
        headers=(
            ("svix-id", f'msg_1.{NOW}.{{"note": "'),
            ("svix-timestamp", str(NOW + 10_000)),
            ("svix-signature", f"v1,{signature}"),
        ),
        body=b'"}',
        secret=SVIX.secret,
        now=NOW + 10_000,
    )


def _coarser(sent: Sent, dice: random.Random) -> Sent:
    """Spellings of the right signature that are not the right spelling."""
    name, text = next(
        pair for pair in sent.headers if any(word in pair[0] for word in ("ignature", "Token", "Hmac"))
    )
    kind, mark, rest = text.partition("," if "svix" in name or name.startswith("webhook") else "=")
    spelled = {
        text[:-1],
        f"{kind.upper()}{mark}{rest}x",
        f"sha1={rest or text}",
        f'"{text}"',
        base64.b64encode(text.encode()).decode(),
    }
    return _with(sent, name, dice.choice(sorted(spelled - {text})))


ANY: list[Callable[[Sent, random.Random], Sent]] = [
    _flipped_header,
    _cut_header,
    _longer_header,
    _wrong_secret,
    _missing_header,
    _header_twice,
    _foreign_headers,
    _coarser,
]
BODY = [_flipped_body, _longer_body, _shorter_body]
TIMED = [_stale, _strange_time, _signed_strange_time, _other_cut, _swapped_values]


def forgeries(count: int) -> Iterator[tuple[str, Sent]]:
    dice = random.Random(4)
    for number in range(count):
        name = list(GENUINE)[number % len(GENUINE)]
        sent = GENUINE[name]
        ways = [*ANY, *(BODY if name != "gitlab" else []), *(TIMED if len(sent.headers) > 1 else [])]
        way = ways[number // len(GENUINE) % len(ways)]
        yield f"{name} {way.__name__} {number}", way(sent, dice)


def test_forgeries_are_refused() -> None:
    made = list(forgeries(2000))
    taken = [name for name, sent in made if not sent.refused()]
    assert not taken, taken[:10]
    assert len({(sent.headers, sent.body, sent.secret, sent.now) for _, sent in made}) >= 200


def test_a_forgery_of_nothing_would_be_noticed() -> None:
    """The check above can fail: what is not changed is taken."""
    assert not any(sent.refused() for sent in GENUINE.values())


def test_bytes_that_are_no_text_are_refused_not_broken() -> None:
    for sent in GENUINE.values():
        for name, _ in sent.headers:
            assert _with(sent, name, "\udcff\udc00").refused()


def test_reasons_name_no_secret() -> None:
    for _, sent in forgeries(300):
        with pytest.raises(BadSignature) as refused:
            sent.verify()
        assert sent.secret not in str(refused.value)
        assert "g0hM9SsE" not in str(refused.value)
