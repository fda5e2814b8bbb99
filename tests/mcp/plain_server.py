"""A small MCP server of the older protocol, without the SDK. It misbehaves as its argument says."""

import json
import os
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": "echo", "description": os.environ.get("ABOUT", "Say it again."), "inputSchema": SCHEMA}]
if HOW == "bad-schema":
    TOOLS.append(
        {
            "name": "bad",
            "description": "x",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}},
        }
    )
if HOW == "structured":
    slow = {"type": "string", "pattern": "^(a+)+$"}
    TOOLS[0]["outputSchema"] = {"type": "object", "properties": {"n": slow}}

LISTED = []


def tell(ident, result):
    print(json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}), flush=True)


def answer(message):
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        able = {
            "tools": {"listChanged": True},
            **({"resources": {}, "prompts": {}} if HOW == "pages" else {}),
        }
        info = {"name": "plain", "version": "1"}
        tell(ident, {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
    elif method == "tools/list":
        if HOW.startswith("changes"):
            with open(os.environ["NOTES"], "a") as notes:
                notes.write("listed\n")
        if HOW == "changes-unlisted" and LISTED:
            return
        LISTED.append(ident)
        result = {"tools": TOOLS}
        if HOW == "endless-list":
            result["nextCursor"] = str(time.monotonic())
        tell(ident, result)
    elif method in ("resources/list", "prompts/list"):
        start = int((message.get("params") or {}).get("cursor") or 0)
        names = [f"n{number}" for number in range(start, start + 50)]
        what = method.partition("/")[0]
        result = {what: [{"name": name, "uri": f"note://{name}"} for name in names]}
        if start + 50 < 120 or what == "prompts":  # of which there is no end
            result["nextCursor"] = str(start + 50)
        tell(ident, result)
    elif method == "tools/call":
        call(ident, message["params"])
    elif ident is not None:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}), flush=True)


def call(ident, params):
    text = str(params.get("arguments", {}).get("text", ""))
    if HOW == "hang":
        time.sleep(600)
    if HOW == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(9)
    if HOW == "lie":
        tell(ident, {"content": "not a list"})
        return
    if HOW == "cut":
        print(f'{{"jsonrpc": "2.0", "id": {ident}, "result": {{"content": ['
              '{"type": "text", "text": "a\\ud83d"}]}}', flush=True)  # fmt: skip
        return
    if HOW == "pictures":
        bodies = ["PGh0bWw+", "SUkqAAAAAAA=", "iVBORw0KGgoAAAAA"]  # a page, a TIFF, a PNG
        tell(ident, {"content": [{"type": "image", "data": one, "mimeType": "image/png"} for one in bodies]})
        return
    if HOW == "no-answer":
        print(json.dumps({"jsonrpc": "2.0", "id": ident, "error": "boom"}), flush=True)
        return
    if HOW == "wrong-id":
        tell(ident + 1000 if isinstance(ident, int) else "other", {"content": []})
        return
    if HOW == "flood":
        while True:
            os.write(
                1,
                b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
                * 500,
            )
    if HOW == "long-line":
        while True:
            os.write(1, b"x" * 65536)
    if HOW.startswith("changes"):
        changed = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
        os.write(1, changed.encode() * 300)
    if HOW == "structured":
        tell(ident, {"content": [], "structuredContent": {"n": "a" * 60 + "!"}})
        return
    if HOW == "elicit":
        request = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}}
        print(
            json.dumps({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": request}),
            flush=True,
        )
        reply = json.loads(sys.stdin.readline())
        tell(ident, {"content": [{"type": "text", "text": reply["result"]["action"]}]})
        return
    if HOW == "open" and not os.path.exists(os.environ["NOTES"]):
        wanted = {"mode": "url", "elicitationId": "1", "url": "https://login.test/go", "message": "Log in."}
        error = {"code": -32042, "message": "Not yet.", "data": {"elicitations": [wanted]}}
        print(json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}), flush=True)
        return
    if HOW == "look":
        seen = os.path.exists(text) if text.startswith("/") else os.environ.get(text, "(none)")
        tell(ident, {"content": [{"type": "text", "text": str(seen)}]})
        return
    if HOW == "sample":
        words = {"role": "user", "content": {"type": "text", "text": "How are you?"}}
        request = {"messages": [words], "maxTokens": 10}
        wish = {"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": request}
        print(json.dumps(wish), flush=True)
        reply = json.loads(sys.stdin.readline())
        text = reply.get("result", {}).get("content", {}).get("text") or reply["error"]["message"]
    if HOW == "notes":
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(text + "\n")
        time.sleep(float(os.environ.get("NAP", "0")))
    tell(ident, {"content": [{"type": "text", "text": text}]})


if HOW == "silent":
    time.sleep(600)
if HOW == "noise":
    print("Listening on stdio …", flush=True)
if HOW == "gone":
    print("no such database", file=sys.stderr)
    sys.exit(3)
for line in sys.stdin:
    answer(json.loads(line))
if HOW == "stays":
    time.sleep(600)
