"""What Twilio says of messages: calls (twilio.com/docs/messaging/guides/webhook-request) and entries of the
list (twilio.com/docs/messaging/api/message-resource)."""

from __future__ import annotations

from typing import Any

from tests.platforms.sms.server import NUMBER, PATH, SID

ANN = "+15551234567"
_SM, _MM, _ME = "SM" + "0" * 31 + "1", "MM" + "0" * 31 + "2", "ME" + "0" * 31 + "3"
_CALL = {
    "ToCountry": "US", "ToState": "CA", "SmsMessageSid": _SM, "NumMedia": "0", "ToCity": "",
    "FromZip": "94105",
    "SmsSid": _SM, "FromState": "CA", "SmsStatus": "received", "FromCity": "OAKLAND", "Body": "Hello 😀",
    "FromCountry": "US", "To": NUMBER, "ToZip": "", "NumSegments": "1", "MessageSid": _SM, "AccountSid": SID,
    "From": ANN, "ApiVersion": "2010-04-01",
}  # fmt: skip
_MEDIA = f"https://api.twilio.com{PATH}/Messages/{_MM}/Media/{_ME}"
_LISTED = {
    "sid": _SM, "account_sid": SID, "body": "Hello again", "direction": "inbound", "from": ANN, "to": NUMBER,
    "date_created": "Thu, 24 Aug 2023 05:01:45 +0000", "date_sent": "Thu, 24 Aug 2023 05:01:45 +0000",
    "num_media": "0", "num_segments": "1", "status": "received", "error_code": None, "price": None,
}  # fmt: skip
MESSAGES: dict[str, dict[str, Any]] = {
    "text": _CALL,
    "picture": {**_CALL, "MessageSid": _MM, "Body": "", "NumMedia": "1", "MediaContentType0": "image/jpeg",
                "MediaUrl0": _MEDIA},
    "stop": {**_CALL, "Body": "STOP", "OptOutType": "STOP"},
    "other_number": {**_CALL, "To": "+15005550009"},
    "listed": _LISTED,
    "listed_picture": {**_LISTED, "sid": _MM, "body": "", "num_media": "1", "media": [
        {"sid": _ME, "content_type": "image/png", "uri": f"{PATH}/Messages/{_MM}/Media/{_ME}.json"}
    ]},
    "ours": {**_LISTED, "direction": "outbound-api", "from": NUMBER, "to": ANN},
}  # fmt: skip
REPORT = {"MessageSid": _SM, "MessageStatus": "undelivered", "ErrorCode": "30003", "To": ANN, "From": NUMBER}
