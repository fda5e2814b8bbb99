"""pywa, a client of WhatsApp's Cloud API that we did not write, uses a server as it would use Meta's: it
takes signed webhooks, sends every kind of message, and moves files. The server's address, ids and secrets
are the arguments, and the port on which it is called; what it saw is printed as JSON."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pywa import WhatsApp, errors, types


def main(url: str, phone: str, token: str, secret: str, word: str, port: str, wanted: str) -> None:
    seen: list[object] = []
    done = threading.Event()
    wa = WhatsApp(phone, token, server=None, verify_token=word, app_secret=secret)
    wa.api._session.base_url = url

    def saw(*what: object) -> None:
        seen.append(what)
        if len(seen) >= int(wanted):
            done.set()

    @wa.on_message
    def _(client: WhatsApp, message: types.Message) -> None:
        kind = message.type.value
        file = message.media
        saw(kind, message.text or message.caption, message.from_user.wa_id, message.from_user.name)
        if file is not None:
            saw("file", file.mime_type, client.get_media_bytes(client.get_media_url(file.id).url).hex()[:8])
        if message.reply_to_message is not None:
            saw("reply", message.reply_to_message.id)

    @wa.on_callback_button
    def _(client: WhatsApp, press: types.CallbackButton) -> None:
        saw("button", press.data, press.title)

    @wa.on_callback_selection
    def _(client: WhatsApp, choice: types.CallbackSelection) -> None:
        saw("list", choice.data, choice.title)

    @wa.on_edited_message
    def _(client: WhatsApp, edit: types.EditedMessage) -> None:
        saw("edit", edit.message.text, edit.original_message_id[:6])

    @wa.on_deleted_message
    def _(client: WhatsApp, gone: types.DeletedMessage) -> None:
        saw("revoke", gone.original_message_id[:6])

    @wa.on_message_status
    def _(client: WhatsApp, status: types.MessageStatus) -> None:
        saw("status", status.status.value, status.tracker, status.error and status.error.code)

    @wa.on_phone_number_change
    def _(client: WhatsApp, change: types.PhoneNumberChange) -> None:
        saw("moved", change.new_wa_id)

    class Called(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            text, status = wa.webhook_challenge_handler(
                asked["hub.verify_token"][0], asked["hub.challenge"][0]
            )
            self._answer(text or "", status)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            wrong = wa.webhook_update_validator(body, self.headers.get("X-Hub-Signature-256"))
            text, status = wrong or wa.webhook_update_handler(body)
            self._answer(text, status)

        def _answer(self, text: str, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *what: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Called)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert done.wait(60), seen
    print(json.dumps({"seen": seen, "sent": sent_by(wa)}))


def sent_by(wa: WhatsApp) -> dict[str, object]:
    ann, found = "16505551234", {}
    first = wa.send_message(ann, "hello", tracker="k1")
    found["text"] = [first.id[:6], first.input]
    wa.send_message(ann, "again", reply_to_message_id=first.id)
    wa.send_message(ann, "May I?", buttons=[types.Button(title="Yes", callback_data="q_1:yes")])
    rows = [types.SectionRow(title=str(one), callback_data=f"q_1:{one}") for one in range(4)]
    lists = types.SectionList(button_title="Choose", sections=[types.Section(title="x", rows=rows)])
    wa.send_message(ann, "Which?", buttons=lists)
    media = wa.upload_media(b"\x89PNG1234", mime_type="image/png", filename="a.png")
    found["media"] = wa.get_media_bytes(wa.get_media_url(media.id).url).hex()
    wa.send_image(ann, image=media.id, caption="look")
    wa.send_voice(ann, voice=wa.upload_media(b"OggS", mime_type="audio/ogg", filename="a.ogg").id)
    wa.send_document(ann, document=media.id, filename="plan.pdf", caption="plan")
    wa.send_reaction(ann, "👍", message_id=first.id)
    wa.remove_reaction(ann, message_id=first.id)
    wrong = {}
    for chat in ("131056", "130429", "190", "131026"):
        try:
            wa.send_message(f"1650555{chat}", "x")
        except errors.WhatsAppError as error:
            wrong[chat] = [type(error).__name__, error.code]
    found["errors"] = wrong
    try:
        wa.send_message(ann, "x" * 4097)
    except errors.WhatsAppError as error:
        found["too long"] = error.code
    number = wa.get_business_phone_number()
    found["number"] = [number.display_phone_number, bool(number.webhook_configuration)]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
