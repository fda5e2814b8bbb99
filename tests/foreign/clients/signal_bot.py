"""signalbot, a client of signal-cli-rest-api that we did not write, uses a server as it would use that: it
receives, sends, types, reacts and gets a file. The server and the numbers are the arguments, and a file with
events to hold against its models; what it saw is printed as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from signalbot._client import ConnectionMode, SendError, SignalAPI
from signalbot._generated import (
    MessageEnvelope,
    SendMessageV2,
    SendReactionRequest,
    TypingIndicatorRequest,
)


async def main(server: str, number: str, ann: str, events: str) -> None:
    api = SignalAPI(server, number, connection_mode=ConnectionMode.HTTP_ONLY)
    found: dict[str, object] = {"there": await api.check_signal_service()}
    about = await api.general.about()
    found["about"] = [about.mode, "quotes" in about.capabilities["v2/send"]]
    seen: list[MessageEnvelope] = []
    async for raw in api.messages.receive():
        seen.append(MessageEnvelope.model_validate(json.loads(raw)["envelope"]))
        if len(seen) == 2:
            break
    found["seen"] = [[one.source_number, one.data_message.message] for one in seen]
    file = seen[1].data_message.attachments[0]
    found["file"] = [file.content_type, (await api.attachments.download(file))[:8]]
    message = SendMessageV2(
        message="hello", number=number, recipients=[ann], quote_timestamp=1, quote_author=ann
    )
    (sent,) = await api.messages.send(message)
    found["sent"] = sent.timestamp.isdigit()
    picture = "data:image/png;filename=a.png;base64,iVBORw=="
    await api.messages.send(
        SendMessageV2(message="", number=number, recipients=[ann], base64_attachments=[picture])
    )
    await api.messages.start_typing(TypingIndicatorRequest(recipient=ann))
    reaction = SendReactionRequest(reaction="👍", recipient=ann, target_author=ann, timestamp=5)
    await api.reactions.react(reaction)
    try:
        await api.messages.send(SendMessageV2(message="x", number=number, recipients=["+15550000404"]))
    except SendError as error:
        found["error"] = str(error)[:200]
    lines = Path(events).read_text().splitlines()  # noqa: ASYNC240
    kept = [MessageEnvelope.model_validate(json.loads(line)["envelope"]) for line in lines]
    found["events"] = len(kept)
    await api.close()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
