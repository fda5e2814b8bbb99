"""Addresses in any script: one spelling for each person, and the way to them."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import default

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import Refused
from hermes.entry.platforms.email.addresses import canonical, readable
from hermes.entry.platforms.email.convert import MailLocation, read_mail
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.email.bed import ME, NOW, EmailBed
from tests.platforms.email.offices import SmallOffice

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


@pytest.mark.parametrize(
    ("text", "one", "shown"),
    [
        ("Ann@Example.ORG", "ann@example.org", "ann@example.org"),
        ("ann@Bücher.example", "ann@xn--bcher-kva.example", "ann@bücher.example"),
        ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example", "ann@bücher.example"),
        # As it is registered now, not as it was twenty years ago (strasse).
        ("a@straße.example", "a@xn--strae-oqa.example", "a@straße.example"),
        ("a@例え。テスト", "a@xn--r8jz45g.xn--zckzah", "a@例え.テスト"),
        ("JO\u0308RG@example.org", "jörg@example.org", "jörg@example.org"),
        ("用户@例え.テスト", "用户@xn--r8jz45g.xn--zckzah", "用户@例え.テスト"),
        ("a@xn--zzzzzzzzzzz.example", "a@xn--zzzzzzzzzzz.example", "a@xn--zzzzzzzzzzz.example"),
    ],
)
def test_one_spelling(text: str, one: str, shown: str) -> None:
    assert (canonical(text), readable(canonical(text))) == (one, shown)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "@example.org",
        "ann@",
        "a@b@c.org",
        "a..b@example.org",
        "a b@example.org",
        "a\u200b@example.org",
        "a\u202e@example.org",
        "a@b\u200d.org",
        "a@b/c.org",
        "a@.org",
        # The sign for Kelvin becomes a k: that would be another person.
        "\u212aarl@example.org",
    ],
)
def test_no_addresses(text: str) -> None:
    assert canonical(text) == ""


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_spelling_stays_as_it_is(local: str, domain: str) -> None:
    one = canonical(f"{local}@{domain}")
    assert canonical(one) == one and one.rpartition("@")[2].isascii()
    assert not one or canonical(readable(one)) == one


def test_who_wrote_in_another_script() -> None:
    """RFC 6532: headers in UTF-8. The domain is known in both spellings."""
    raw = (
        "From: Jörg Größe <Jörg@Bücher.example>\r\nTo: hermes@example.org\r\nSubject: Grüße\r\n"
        "Message-ID: <ü@example.org>\r\n\r\nplain\r\n"
    ).encode()
    item = read_mail(raw, ME, MailLocation(arrived=NOW)).item
    assert item is not None and item.text == "Subject: Grüße\n\nplain"
    source = item.source
    assert source.address.chat == source.user_alt == "jörg@xn--bcher-kva.example"
    assert (source.user, source.user_name) == ("jörg@bücher.example", "Jörg Größe")
    old = read_mail(raw.replace("Bücher".encode(), b"xn--bcher-kva"), ME, MailLocation(arrived=NOW)).item
    assert old is not None and old.source == source
    # An encoded word is a name, never an address.
    forged = b"From: =?utf-8?q?ann=40example=2Eorg?=\r\n\r\nx\r\n"
    assert read_mail(forged, ME, MailLocation(arrived=NOW)).item is None


async def _sent(bed: EmailBed, chat: str) -> list[str]:
    platform = bed.connect()
    async with running(platform, Inboxes().accept, None):
        await until(lambda: bool(bed.listened), "it never began")
        await platform.send(
            Address(platform="email", chat=chat), Body(text="<p>Grüße</p>"), key="k", reply_to=None
        )
        await until(
            lambda: any(came.is_set() for came in platform._copies.values()), "the copy is not known as ours"
        )
    mail = message_from_bytes(bed.smtp.taken[-1].data, policy=default)
    return [*bed.smtp.taken[-1].to, str(mail["To"])]


async def test_a_domain_in_another_script_needs_nothing_of_the_server() -> None:
    async with EmailBed() as bed:
        assert isinstance(bed.office, SmallOffice)
        there = "ann@xn--bcher-kva.example"
        assert await _sent(bed, "ann@Bücher.example") == [there, there]


async def test_a_name_in_another_script_needs_a_server_that_can() -> None:
    async with EmailBed() as bed:
        assert await _sent(bed, "Jörg@Bücher.example") == ["jörg@xn--bcher-kva.example"] * 2
    bed = EmailBed()
    assert isinstance(bed.office, SmallOffice)
    bed.office.utf8 = False
    async with bed:
        with pytest.raises(Refused, match="no SMTPUTF8") as told:
            await _sent(bed, "Jörg@Bücher.example")
        assert "\n" not in str(told.value) and bed.smtp.taken == []
