"""Mails as programs write them: one of each kind that there is, sane and otherwise."""

from __future__ import annotations

from textwrap import dedent

_HEAD = """\
Return-Path: <ann@example.org>
Received: from mail.example.org by mx.example.net; Mon, 16 Nov 2026 11:59:00 +0000
From: =?utf-8?q?Ann_=C3=96ther?= <Ann@Example.org>
To: hermes@example.org
Date: Mon, 16 Nov 2026 11:58:59 +0000
Message-ID: <{name}@example.org>
"""


def mail(name: str, rest: str, head: str = _HEAD) -> bytes:
    return (head.format(name=name) + dedent(rest)).replace("\n", "\r\n").encode()


MAILS: dict[str, bytes] = {
    "plain": mail("plain", "Subject: Lunch\n\nShall we?\n"),
    "reply": mail(
        "reply",
        """\
        Subject: Re: Lunch
        In-Reply-To: <hermes.0123456789012345678901234567890123456789@example.org>
        References: <plain@example.org>
         <hermes.0123456789012345678901234567890123456789@example.org>
        MIME-Version: 1.0
        Content-Type: text/plain; charset=utf-8; format=flowed

        Yes, at noon, and please bring{sp}
        the plans.

        --{sp}
        Ann, Chief of Lunch

        On Mon, 16 Nov 2026 at 11:50, Hermes
        <hermes@example.org> wrote:
        > Where?
        > And when?
        """.replace("{sp}", " "),
    ),
    "outlook": mail(
        "outlook",
        """\
        Subject: AW: Lunch
        In-Reply-To: <other@example.org>
        MIME-Version: 1.0
        Content-Type: text/plain; charset=windows-1252
        Content-Transfer-Encoding: quoted-printable

        F=FCr mich um zw=F6lf =96 gern.

        ________________________________
        Von: Hermes <hermes@example.org>
        Gesendet: Montag
        An: Ann

        Wann?
        """,
    ),
    "html": mail(
        "html",
        """\
        Subject: =?utf-8?B?UGzDpG5l?=
        MIME-Version: 1.0
        Content-Type: text/html; charset=utf-8

        <html><head><title>no</title><style>p {color: red}</style></head><body>
        <p>Hello&nbsp;<b>you</b>,<br>see <a href="https://example.org/a?b=1&amp;c=2">the plan</a>.</p>
        <script>alert(1)</script><ul><li>one<li>two</ul><ol start="3"><li>three</li></ol>
        <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
        <blockquote>quoted<br>twice</blockquote><pre>  as
          it is</pre><img alt="a cat" src="http://example.org/track.gif"></body></html>
        """,
    ),
    "alternative": mail(
        "alternative",
        """\
        Subject: Both
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary="outer"

        A preamble that nobody sees.
        --outer
        Content-Type: multipart/related; boundary="rel"

        --rel
        Content-Type: multipart/alternative; boundary="alt"

        --alt
        Content-Type: text/plain; charset=utf-8

        The plain words.
        --alt
        Content-Type: text/html; charset=utf-8

        <p>The <b>other</b> words.</p>
        --alt--
        --rel
        Content-Type: image/png; name="in.png"
        Content-Transfer-Encoding: base64
        Content-ID: <cat>
        Content-Disposition: inline; filename="in.png"

        iVBORw0KGgo=
        --rel--
        --outer
        Content-Type: application/pdf
        Content-Transfer-Encoding: base64
        Content-Disposition: attachment; filename*=utf-8''Pl%C3%A4ne%2F..%5Cx.pdf

        JVBERi0=
        --outer
        Content-Type: message/rfc822

        From: bob@example.org
        Subject: forwarded

        Inner words.
        --outer
        Content-Type: application/pgp-signature; name="signature.asc"

        -----BEGIN PGP SIGNATURE-----
        --outer--
        """,
    ),
    "latin1 without a word": mail("latin1", "Subject: Gr\u00fc\u00dfe\n\nplain\n").replace(
        "Gr\u00fc\u00dfe".encode(), "Gr\u00fc\u00dfe".encode("latin-1")
    ),
    "unknown charset": mail(
        "charset", 'Content-Type: text/plain; charset="x-klingon"\nSubject: x\n\nqapla\u2019\n'
    ),
    "command": mail("command", "Subject: status\n\n/status now\n"),
    "only a subject": mail("subject", "Subject: What is the time?\n\n\n"),
    "attachment only": mail(
        "file",
        """\
        MIME-Version: 1.0
        Content-Type: audio/ogg; name=talk.ogg
        Content-Transfer-Encoding: base64
        Content-Disposition: attachment; filename=talk.ogg

        T2dnUw==
        """,
    ),
    "no boundary": mail("nob", "Content-Type: multipart/mixed\nSubject: x\n\nstill words\n"),
    "bad base64": mail(
        "bad64", "Content-Type: text/plain\nContent-Transfer-Encoding: base64\nSubject: x\n\n!!!not base64=\n"
    ),
    "bad headers": mail("badh", "Subject: =?utf-8?b?!!!?= =?x?q?=zz?=\nContent-Type: ;;;\nDate\n\nwords\n"),
    "no message id": mail("", "Subject: x\n\nanonymous id\n").replace(b"Message-ID: <@example.org>\r\n", b""),
    "bounce": mail(
        "bounce", "Subject: Undeliverable\nContent-Type: multipart/report; boundary=b\n\n--b\n\nx\n--b--\n"
    ),
}
# fmt: off
MACHINES: dict[str, bytes] = {
    name: mail("m", f"{header}\nSubject: x\n\nwords\n")
    for name, header in {
        "vacation": "Auto-Submitted: auto-replied (vacation)",
        "cron": "Auto-Submitted: auto-generated",
        "bulk": "Precedence: bulk",
        "list": "List-Id: <news.example.org>",
        "newsletter": "List-Unsubscribe: <mailto:leave@example.org>",
        "exchange": "X-Auto-Response-Suppress: DR, OOF, AutoReply",
        "autoreply": "X-Autoreply: yes",
        "failed": "X-Failed-Recipients: bob@example.org",
        "report": "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
    }.items()
} | {
    "no return path": mail("m", "Subject: x\n\nwords\n").replace(b"<ann@example.org>\r\nRec", b"<>\r\nRec"),
    "no-reply": mail("m", "Subject: x\n\nwords\n").replace(b"Ann@Example", b"no-reply@Example"),
    "daemon": mail("m", "Subject: x\n\nwords\n").replace(b"Ann@Example", b"MAILER-DAEMON@Example"),
    "ourselves": mail("m", "Subject: x\n\nwords\n").replace(b"Ann@Example", b"Hermes@example"),
    "two senders": mail("m", "From: bob@example.org\nSubject: x\n\nwords\n"),
    "two in one line": mail("m", "Subject: x\n\nwords\n").replace(b"<Ann@Example.org>", b"<a@b.c>, <d@e.f>"),
    "nobody": mail("m", "Subject: x\n\nwords\n").replace(b"<Ann@Example.org>", b""),
}
# fmt: on
_REPORT = """\
MIME-Version: 1.0
From: MAILER-DAEMON@mx.example.net (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
Auto-Submitted: auto-replied
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain; charset=us-ascii

I'm sorry.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net
Arrival-Date: Mon, 16 Nov 2026 11:58:59 +0000

Final-Recipient: rfc822; bob@example.com
Action: failed
Status: {status}
Diagnostic-Code: smtp; 550 5.1.1 <bob@example.com>:
    User unknown

--b
{original}
--b--
"""
OUR_ID = "<hermes.0123456789012345678901234567890123456789@example.org>"
ORIGINALS = {
    "whole": f"Content-Type: message/rfc822\n\nMessage-ID: {OUR_ID}\nSubject: x\n\nwords\n",
    "headers": f"Content-Type: text/rfc822-headers\n\nMessage-ID: {OUR_ID}\nSubject: x\n",
}


def report(status: str, original: str) -> bytes:
    return _REPORT.format(status=status, original=original).replace("\n", "\r\n").encode()
