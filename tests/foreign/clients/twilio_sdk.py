"""Twilio's own SDK, which we did not write, uses a server as it would use Twilio's: it sends, lists, reads
media and errors, and validates what the server signed. The server and the credentials are the arguments, and
a file with signed calls; what it saw is printed as JSON."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from twilio.base.exceptions import TwilioException, TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.request_validator import RequestValidator
from twilio.rest import Client


class Elsewhere(TwilioHttpClient):
    """The SDK has no other way to another host."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base

    def request(self, method, url, *more, **named):
        return super().request(method, url.replace("https://api.twilio.com", self.base), *more, **named)


def main(base: str, sid: str, token: str, number: str, ann: str, calls: str) -> None:
    client, found = Client(sid, token, http_client=Elsewhere(base)), {}
    found["account"] = client.api.accounts(sid).fetch().friendly_name
    listed = client.messages.list(to=number, date_sent_after=datetime(2020, 1, 1, tzinfo=UTC))
    found["listed"] = [[one.direction, one.body, one.num_media] for one in listed]
    (media,) = client.messages(listed[0].sid).media.list()
    found["media"] = media.content_type
    sent = client.messages.create(
        to=ann, from_=number, body="hello", status_callback="https://x.invalid/?key=1"
    )
    found["sent"] = [sent.status, sent.direction, sent.sid[:2]]
    (phone,) = client.incoming_phone_numbers.list(phone_number=number)
    found["phone"] = phone.sms_url.startswith("http")
    wrong = {}
    for name, form in {
        "to": {"to": "nobody", "from_": number, "body": "x"},
        "from": {"to": ann, "from_": "+15005550001", "body": "x"},
        "body": {"to": ann, "from_": number},
        "long": {"to": ann, "from_": number, "body": "x" * 1601},
    }.items():
        try:
            client.messages.create(**form)
        except TwilioRestException as error:
            wrong[name] = [error.status, error.code]
    try:
        Client(sid, "wrong", http_client=Elsewhere(base)).messages.list(limit=1, to=number)
    except TwilioException as error:
        wrong["token"] = error.args[1].status_code
    found["errors"] = wrong
    validator = RequestValidator(token)
    signed = [json.loads(line) for line in Path(calls).read_text().splitlines()]
    found["signed"] = [validator.validate(call["url"], call["params"], call["signature"]) for call in signed]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
