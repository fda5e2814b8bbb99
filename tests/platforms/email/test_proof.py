"""Who wrote a mail: the lines of real providers prove it, forged ones never do, and a deaf mailbox says so.

The shapes of the lines are those of public mails; the mails are made up. iCloud, Yahoo and AOL: test data of
chatmail/core; Gmail and Fastmail: mails quoted in guides and tests of several projects; Microsoft: MimeKit
issues 490 and 527, go-msgauth issue 64."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.email.convert import (
    EmailIdentity,
    MailLocation,
    ParsedMail,
    proof_found,
    read_mail,
)
from hermes.entry.platforms.email.proof import SenderPolicy, read_proof
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.email.bed import NOW, EmailBed, checked, written
from tests.platforms.email.offices import ADDRESS
from tests.platforms.email.test_command import examined

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
BODY = """\
From: Ann <ann@example.org>
To: hermes@example.org
Subject: Lunch
Date: Mon, 16 Nov 2026 11:58:59 +0000
Message-ID: <1@example.org>

Shall we?
"""
CAME = (
    "Received: from out.example.org (out.example.org [192.0.2.7])\n by mx.example.net (Postfix) with ESMTPS\n"
)
GMAIL = """\
Delivered-To: hermes@gmail.com
Received: by 2002:a05:6402:11c8:b0:4a1:2b3c with SMTP id j8csp1; Mon, 16 Nov 2026 03:59:00 -0800 (PST)
X-Received: by 2002:a17:906:1 with SMTP id x1; Mon, 16 Nov 2026 03:59:00 -0800 (PST)
ARC-Authentication-Results: i=1; mx.google.com; dmarc=pass header.from=example.org
Return-Path: <ann@example.org>
Received: from out.example.org (out.example.org. [192.0.2.7])
        by mx.google.com with ESMTPS id a1 for <hermes@gmail.com>; Mon, 16 Nov 2026 03:59:00 -0800 (PST)
Received-SPF: pass (google.com: domain of ann@example.org designates 192.0.2.7 as permitted sender)
Authentication-Results: mx.google.com;
       dkim=pass header.i=@example.org header.s=s1 header.b=Abc;
       spf=pass (google.com: domain of ann@example.org designates 192.0.2.7 as permitted sender)
       smtp.mailfrom=ann@example.org{dmarc}
DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=s1
"""
ICLOUD = """\
Received: from p01-gateway (localhost [127.0.0.1]) by p01-store (mailgateway) with SMTP id 77
Original-recipient: rfc822;hermes@icloud.com
X-Apple-UUID: 1
Received: from out.example.org (out.example.org [192.0.2.7]) by st43p00.me.com (Postfix) with ESMTPS id 39
X-ICL-SCORE: 3.3
Authentication-Results: bimi.icloud.com; bimi=skipped reason="insufficient dmarc"
X-ARC-Info: policy=fail; arc=none
Authentication-Results: arc.icloud.com; arc=none
Authentication-Results: dmarc.icloud.com; dmarc={dmarc} header.from=example.org
X-DMARC-Info: pass=pass; dmarc-policy=none; s=r0; d=r1; pdomain=example.org
Authentication-Results: dkim-verifier.icloud.com;
\tdkim=pass (2048-bit key) header.d=example.org header.i=@example.org header.b=Abc
Authentication-Results: spf.icloud.com; spf=pass (spf.icloud.com: domain of "SRS0=Z8=qq=x@example.net"
 designates 192.0.2.7 as permitted sender) smtp.mailfrom="SRS0=Z8=qq=x@example.net"
Received-SPF: pass (spf.icloud.com: domain of x@example.net designates 192.0.2.7 as permitted sender)
"""
YAHOO = """\
Received: from 127.0.0.1
 by atlas-production.v2-mail-prod1-{site}.omega.yahoo.com with HTTP; Mon, 16 Nov 2026 11:59:00 +0000
Return-Path: <ann@example.org>
X-Originating-Ip: [192.0.2.7]
Received-SPF: pass (domain of example.org designates 192.0.2.7 as permitted sender)
Authentication-Results: atlas-production.v2-mail-prod1-{site}.omega.yahoo.com;
 dkim=pass header.i=@example.org header.s=s1;
 spf=pass smtp.mailfrom=example.org;
 dmarc={dmarc} header.from=example.org;
X-Apparently-To: hermes@yahoo.com; Mon, 16 Nov 2026 11:59:00 +0000
Received: from 192.0.2.7 (EHLO out.example.org) by 10.1.2.3 with SMTPs; Mon, 16 Nov 2026 11:59:00 +0000
"""
FASTMAIL = """\
Return-Path: <ann@example.org>
Received: from phl-compute-04.internal by sloti1 (Cyrus 3.11) with LMTPA; Mon, 16 Nov 2026 06:59:00 -0500
X-Cyrus-Session-Id: sloti1-1
Received: from phl-mx-07.messagingengine.com by phl-compute-04.internal (Postfix) with ESMTP id 1
ARC-Seal: i=1; a=rsa-sha256; d=messagingengine.com
Authentication-Results: phl-mx-07.messagingengine.com;
    x-csa=none; x-ptr=pass smtp.helo=out.example.org policy.ptr=out.example.org
Authentication-Results: phl-mx-07.messagingengine.com; arc=none (no signatures found)
Authentication-Results: phl-mx-07.messagingengine.com;
    dkim=pass (2048-bit rsa key sha256) header.d=example.org header.s=s1 x-bits=2048;
    dmarc={dmarc} policy.published-domain-policy=none header.from=example.org;
    spf=pass smtp.mailfrom=ann@example.org
Received: from out.example.org (out.example.org [192.0.2.7]) by phl-mx-07.messagingengine.com (Postfix)
"""
MICROSOFT = """\
Received: from AM0PR01.eurprd01.prod.outlook.com (::1) by DB7PR01.eurprd01.prod.outlook.com with HTTPS
ARC-Seal: i=1; a=rsa-sha256; s=arcselector9901; d=microsoft.com
Received: from AM5EUR02.protection.outlook.com by AM0PR01.outlook.office365.com with Microsoft SMTP Server
Authentication-Results: spf=pass (sender IP is 192.0.2.7)
 smtp.mailfrom=example.org; hermes.example; dkim=pass (signature was verified)
 header.d=example.org;hermes.example; dmarc={dmarc} action=none
 header.from=example.org;compauth=pass reason=100
Received-SPF: Pass (protection.outlook.com: domain of example.org designates 192.0.2.7 as permitted sender)
Received: from out.example.org (192.0.2.7) by AM5EUR02.mail.protection.outlook.com with Microsoft SMTP Server
"""
PROVIDERS = {
    "imap.gmail.com": GMAIL.replace(
        "{dmarc}", ";\n       dmarc={dmarc} (p=REJECT sp=REJECT dis=NONE) header.from=example.org"
    ),
    "imap.mail.me.com": ICLOUD,
    "imap.mail.yahoo.com": YAHOO.replace("{site}", "gq1").replace("{dmarc}", "{dmarc}(p=NONE,sp=QUARANTINE)"),
    "imap.aol.com": YAHOO.replace("{site}", "bf1"),
    "imap.fastmail.com": FASTMAIL,
    "outlook.office365.com": MICROSOFT,
    "imap-mail.outlook.com": MICROSOFT.replace("7)\n smtp", "7);\n smtp").replace(
        "verified)\n", "verified);\n"
    ),
}
"""What a mail begins with that lies in a mailbox there."""


def context(**said: str) -> AdapterContext:
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
    )


def judged(head: str, proof: SenderPolicy) -> ParsedMail:
    raw = (head + BODY).replace("\n", "\r\n").encode()
    return read_mail(raw, EmailIdentity(address=ADDRESS, proof=proof), MailLocation(arrived=NOW))


def heard(head: str, proof: SenderPolicy) -> bool:
    found = judged(head, proof)
    assert (found.item is None) == bool(found.why) == bool(found.unproved)
    return found.item is not None


# --- what providers write ---


@pytest.mark.parametrize("host", PROVIDERS)
def test_a_sender_whom_the_provider_proved_is_heard(host: str) -> None:
    proof = read_proof(context(), host)
    assert heard(PROVIDERS[host].replace("{dmarc}", "pass"), proof)
    assert not heard(PROVIDERS[host].replace("{dmarc}", "fail"), proof)


@pytest.mark.parametrize("host", PROVIDERS)
@pytest.mark.parametrize("dmarc", ["fail", "none", "unknown", "temperror"])
def test_a_forged_line_directly_below_counts_for_nothing(host: str, dmarc: str) -> None:
    """As from a sender who proved a domain of their own, and wears another's address."""
    head = PROVIDERS[host].replace("{dmarc}", dmarc).replace("example.org", "evil.example")
    ours = [line for line in head.splitlines() if line.startswith("Authentication-Results: ")]
    name = "" if "=" in ours[0].split()[1] else ours[-1].split()[1]
    for forged in (name, "dmarc.icloud.com;" if "icloud" in name else name, "x.omega.yahoo.com;"):
        line = f"Authentication-Results: {forged} dmarc=pass header.from=example.org\n"
        assert not heard(head + line, read_proof(context(), host))
        assert not heard(head + CAME + line + CAME, read_proof(context(), host))


def test_gmail_as_it_was_set_up_before_goes_on() -> None:
    head = PROVIDERS["imap.gmail.com"].replace("{dmarc}", "pass")
    assert heard(head, read_proof(context(EMAIL_AUTHSERV="mx.google.com"), "imap.gmail.com"))
    assert heard(head, read_proof(context(EMAIL_AUTHSERV="mx.google.com"), "imap.example.net"))


def test_a_domain_without_dmarc_is_proved_by_what_dmarc_would_ask_for() -> None:
    proof, line = read_proof(context(), "imap.gmail.com"), "Authentication-Results: mx.google.com; "
    assert heard(GMAIL.replace("{dmarc}", ""), proof)
    assert heard(f"{line}spf=softfail smtp.mailfrom=x@example.net; dkim=pass header.d=example.org\n", proof)
    assert not heard(f"{line}spf=fail smtp.mailfrom=example.org; dkim=pass header.d=example.org\n", proof)
    assert not heard(
        f"{line}spf=pass smtp.mailfrom=evil.example\n{line}dkim=pass header.d=example.org\n", proof
    )
    # A forwarded mail fails SPF and passes DMARC.
    assert heard(f"{line}spf=fail smtp.mailfrom=x@example.net; dmarc=pass header.from=example.org\n", proof)


# --- a server of one's own ---

MINE = SenderPolicy(names=("mx.example.net",))


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ("mx.example.net; dmarc=pass header.from=example.org", ""),
        ("mx.example.net; spf=pass smtp.mailfrom=ann@example.org", ""),
        ("mx.example.net; spf=pass smtp.mailfrom=ann@mail.example.org", "not proved"),
        ("mx.example.net; dmarc=none; spf=pass smtp.mailfrom=ann@mail.example.org", "not proved"),
        ("mx.example.net; dkim=pass header.d=mail.example.org", "not proved"),
        ("mx.example.net; dkim=pass header.i=@mail.example.org", "not proved"),
        ("mx.example.net; dmarc=none; dkim=pass header.i=@example.org", ""),
        ("MX.example.net 1; dkim=pass (2048 bit; (very) ok) header.d=example.org header.s=x", ""),
        ("mx.example.net; dmarc=pass header.from=evil.example", "not proved"),
        ("mx.example.net; spf=pass smtp.mailfrom=evil.example.com; dmarc=fail", "not proved"),
        ("mx.example.net; dmarc=pass; dmarc=none", "not proved"),
        ("mx.example.net; dkim=pass header.d=org", "not proved"),
        ("mx.example.net; dkim=pass", "not proved"),
        ("mx.example.net; none", "nothing was checked"),
        ("mx.example.net.evil.example; dmarc=pass header.from=example.org", "says nothing"),
        ("evilmx.example.net; dmarc=pass header.from=example.org", "says nothing"),
        ("dmarc=pass header.from=example.org", "says nothing"),
        ("", "says nothing"),
        # The address that a mail is returned to stands in the server's own line, as its sender chose it.
        ('mx.example.net; spf=pass smtp.mailfrom="x; dmarc=pass "@evil.example', "more than one way"),
        (
            'mx.example.net; spf=pass (for "a) dmarc=pass; (b"@evil.example) smtp.mailfrom=e',
            "more than one way",
        ),
        ('mx.example.net; spf=pass smtp.mailfrom="x smtp.mailfrom=example.org y"@evil.example', "not proved"),
        ("mx.example.net; spf=pass smtp.mailfrom==?utf-8?q?a=3Bdmarc=3Dpass?=@evil.example", "not proved"),
        ("mx.example.net; spf=pass (one ) smtp.mailfrom=example.org (", "more than one way"),
        (
            'mx.example.net; spf=pass smtp.mailfrom=x"; dmarc=pass header.from=example.org',
            "more than one way",
        ),
        (
            'mx.example.net; spf=pass smtp.helo="a smtp.mailfrom=example.org b" smtp.mailfrom=e.example',
            "not p",
        ),
        ("mx.example.net; spf=pass smtp.mailfrom=evil.example smtp.mailfrom=example.org", "not proved"),
        ("mx.example.net; dmarc=pass action=none; header.from=evil.example", "not proved"),
        (
            'mx.example.net; spf=pass smtp.mailfrom="x;y"@evil.example\nAuthentication-Results:'
            " mx.example.net; dmarc=pass header.from=example.org",
            "more than one way",
        ),
    ],
)
def test_what_a_line_says(results: str, why: str) -> None:
    found = judged((f"Authentication-Results: {results}\n" if results else "") + CAME, MINE)
    assert (found.item is None) == bool(why)
    assert why in found.why


PASS = "Authentication-Results: mx.example.net; dmarc=pass header.from=example.org\n"
LMTP = (
    "Received: from mx.example.net\n by store.example.net with LMTP\n id 7 (envelope-from <a@example.org>)\n"
)
HELO = (
    "Received: from evil by x with LMTP (out.example.org [192.0.2.7])\n by mx.example.net with ESMTP id 4F\n"
)


@pytest.mark.parametrize(
    ("head", "above", "below"),
    [
        (PASS + CAME, True, True),
        (
            f"Return-Path: <ann@example.org>\nDelivered-To: hermes@example.org\nX-Spam: no\n{PASS}{CAME}",
            True,
            True,
        ),
        (LMTP + PASS + CAME, True, True),
        # Where no line is the server's, what came with the mail begins right here.
        (CAME + PASS, False, True),
        (CAME + PASS + CAME, False, True),
        (LMTP + CAME + PASS + CAME, False, True),
        # The sender chose these words of the server's line.
        (HELO + PASS + CAME, False, True),
        (HELO.replace("LMTP (", "LMTP ( (") + PASS + CAME, False, True),
        (HELO.replace("LMTP (", 'LMTP "x (') + PASS + CAME, False, True),
        (
            HELO.replace("LMTP (", "LMTP ( (").replace("id 4F", 'for <")"@example.net>') + PASS + CAME,
            False,
            True,
        ),
        (PASS, False, True),
        ("Subject: x\n" + PASS + CAME, False, False),
        (CAME + "To: hermes@example.org\n" + PASS, False, False),
        (CAME + "Resent-From: x\n" + PASS + CAME, False, False),
    ],
)
def test_only_what_the_server_itself_wrote_counts(head: str, above: bool, below: bool) -> None:
    assert heard(head, MINE) == above
    assert heard(head, replace(MINE, below=True)) == below


@pytest.mark.parametrize("below", [False, True])
def test_any_line_of_the_server_can_take_a_proof_away(below: bool) -> None:
    fails = "Authentication-Results: mx.example.net; dmarc=fail header.from=example.org\n"
    assert not heard(fails + PASS + CAME, replace(MINE, below=below))
    assert not heard(PASS + fails + CAME, replace(MINE, below=below))


# --- settings ---


def test_nothing_is_believed_unless_somebody_said_so() -> None:
    proof = read_proof(context(), "imap.example.net")
    assert not proof.possible and not heard(PASS + CAME, proof) and SenderPolicy() == proof
    assert heard(CAME, read_proof(context(EMAIL_TRUST_FROM="true"), "imap.example.net"))


def test_several_names_and_all_below_one() -> None:
    proof = read_proof(context(EMAIL_AUTHSERV="mx1.example.net, *.mx.example"), "imap.example.net")
    assert proof == SenderPolicy(names=("mx1.example.net", "*.mx.example"))
    line = "Authentication-Results: {}; dmarc=pass header.from=example.org\n" + CAME
    names = ["mx1.example.net", "a.b.mx.example", "mx.example", "evilmx.example", "mx2.example.net"]
    assert [heard(line.format(name), proof) for name in names] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("said", "host", "below"),
    [
        ({}, "imap.gmail.com", True),
        ({"EMAIL_AUTHSERV": "dmarc.icloud.com"}, "imap.mail.me.com", True),
        ({"EMAIL_AUTHSERV": "-"}, "outlook.office365.com", True),
        ({"EMAIL_AUTHSERV": "-"}, "imap.example.net", False),
        ({"EMAIL_AUTHSERV": "mx.example.net"}, "imap.gmail.com", False),
        ({"EMAIL_AUTHSERV": "mx.google.com mx.example.net"}, "imap.gmail.com", False),
        ({"EMAIL_AUTHSERV": "mx.example.net", "EMAIL_AUTHSERV_PLACE": "below"}, "imap.example.net", True),
        ({"EMAIL_AUTHSERV_PLACE": "above"}, "imap.gmail.com", False),
    ],
)
def test_where_the_servers_part_ends(said: dict[str, str], host: str, below: bool) -> None:
    assert read_proof(context(**said), host).below == below


@pytest.mark.parametrize(
    "said",
    [
        {"EMAIL_TRUST_FROM": "perhaps"},
        {"EMAIL_AUTHSERV_PLACE": "beside"},
        {"EMAIL_AUTHSERV": "*.com"},
        {"EMAIL_AUTHSERV": "*"},
        {"EMAIL_AUTHSERV": "spf=pass"},
        {"EMAIL_AUTHSERV": "mx.example.net", "EMAIL_TRUST_FROM": "true"},
    ],
)
def test_what_cannot_be_read_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(UserError) as caught:
        read_proof(context(**said), "imap.gmail.com")
    assert next(iter(said)) in str(caught.value)


# --- who is told ---


@pytest.mark.parametrize(
    ("heads", "proof", "good", "told"),
    [
        (
            [PASS + CAME, CAME],
            MINE,
            True,
            ["Of the newest 2 mails 1 prove", "ann@example.org: mx.example.net says"],
        ),
        ([CAME], MINE, False, ["0 prove", "Have your server check senders"]),
        ([CAME + PASS], MINE, False, ["0 prove", "set EMAIL_AUTHSERV_PLACE below"]),
        (
            [PASS + CAME],
            SenderPolicy(names=("other",)),
            False,
            ["0 prove", "config set EMAIL_AUTHSERV mx.example.net"],
        ),
        (
            [CAME + PASS],
            SenderPolicy(),
            False,
            ["No mail is read", "EMAIL_AUTHSERV mx.example.net, and", "PLACE below"],
        ),
        ([], SenderPolicy(), False, ["No mail is read", "EMAIL_TRUST_FROM=true", "check senders"]),
        ([], MINE, True, ["no mail yet", "Write one"]),
        ([CAME], SenderPolicy(trust_from=True), True, ["believed", "whoever forges"]),
    ],
)
def test_what_a_check_makes_of_the_newest_mails(
    heads: list[str], proof: SenderPolicy, good: bool, told: list[str]
) -> None:
    mails = [(head + BODY).encode() for head in heads]
    ours = BODY.replace("ann@example.org", ADDRESS).encode()
    finding = proof_found([*mails, ours, b"From: nobody\n\n"], EmailIdentity(address=ADDRESS, proof=proof))
    assert finding.good == good
    for words in told:
        assert words in f"{finding.text} {finding.hint}"


async def test_the_command_reads_the_newest_mails(tmp_path: Path) -> None:
    async with EmailBed() as bed:
        bed.listened = True
        await bed.put(checked(written("ann@example.org", "hello")))
        await bed.put(written("bob@example.org", "hello"))
        said = {"EMAIL_TRUST_FROM": "", "EMAIL_AUTHSERV": "mx.example.net"}
        told = " ".join(await examined(bed, tmp_path, said))
        assert "✓ Of the newest 2 mails 1 prove their sender" in told and "bob@example.org" in told
        assert "✗ No mail is read" in " ".join(await examined(bed, tmp_path, {"EMAIL_TRUST_FROM": ""}))


async def test_who_is_left_out_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def welcomes(source: Source) -> bool:
        return source.user == "ann@example.org"

    async with EmailBed() as bed:
        bed.said |= {"EMAIL_TRUST_FROM": "", "EMAIL_AUTHSERV": "mx.example.net"}
        platform = bed.connect()
        platform._context = replace(platform._context, welcomes=welcomes)
        inboxes = Inboxes()
        async with running(platform, inboxes.accept, None):
            for sender in ("ann@example.org", "spam@example.com", "ann@example.org"):
                await bed.put(written(sender, "forged"))
            await bed.put(checked(written("ann@example.org", "real")))
            await until(lambda: len(inboxes.items) == 1, "she is not heard")
        assert inboxes.items[0].text == "real"
        assert (
            platform.notice().startswith("2 mails in the name of people")
            and "platforms test" in platform.notice()
        )
    warned = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warned) == 1 and warned[0].startswith("email.unproved from=ann@example.org")


async def test_what_nothing_could_prove_waits_until_something_can(caplog: pytest.LogCaptureFixture) -> None:
    async with EmailBed() as bed:
        bed.said["EMAIL_TRUST_FROM"] = ""
        first, alive = Inboxes(), []

        async def accept(items: object, cursor: str | None) -> None:
            alive.append(cursor)
            await first.accept(items, cursor)  # type: ignore[arg-type]

        platform = bed.connect()
        async with running(platform, accept, None):
            await until(lambda: len(alive) > 1, "it gives no sign of life")
            await bed.put(checked(written("ann@example.org", "m1")))
            seen = len(alive)
            await until(lambda: len(alive) > seen + 1, "it gives no sign of life")
        assert not first.items and "EMAIL_TRUST_FROM=true" in platform.notice()
        assert "email.not_read" in caplog.text
        cursor = next(one for one in alive if one)
        bed.said["EMAIL_AUTHSERV"] = "mx.example.net"
        second = Inboxes()
        async with running(bed.connect(), second.accept, cursor):
            await until(lambda: len(second.items) == 1, "it was passed over")


@pytest.mark.parametrize("way", ["with", "with (Postfix)", "by mx.example.net with"])
def test_a_received_line_that_ends_early_is_no_local_delivery(way: str) -> None:
    mail = f"Received: from out.example.org by mx.example.net {way}\n{BODY}".encode()
    me = EmailIdentity(address=ADDRESS, proof=SenderPolicy(names=("mx.example.net",)))
    finding = proof_found([mail], me)
    assert not finding.good and "says nothing about its sender" in finding.text


@pytest.mark.parametrize(
    ("line", "proved"),
    [
        ("(a note) mx.example.net; dmarc=pass header.from=example.org", True),
        ("(a (nested; one)) (two)\n mx.example.net(v2) 1; dmarc=pass header.from=example.org", True),
        ("(mx.example.net) evil.example; dmarc=pass header.from=example.org", False),
        ("(a note (mx.example.net; dmarc=pass header.from=example.org", False),
        ("(a \\) mx.example.net; dmarc=pass header.from=example.org)", False),
        ("(only a note)", False),
    ],
)
def test_comments_around_the_name_of_the_server(line: str, proved: bool) -> None:
    mail = f"Authentication-Results: {line}\n{CAME}{BODY}".encode()
    me = EmailIdentity(address=ADDRESS, proof=SenderPolicy(names=("mx.example.net",)))
    assert proof_found([mail], me).good is proved
