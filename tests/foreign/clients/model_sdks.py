"""The official SDK of a vendor hears our fake model server: `model_sdks.py <address> <key> <vendor>`.

Runs in an environment of its own, prints what it understood as JSON."""

import json
import sys

TOOL = {"type": "object", "properties": {"path": {"type": "string"}}}


def anthropic(address, key):
    from anthropic import Anthropic, APIStatusError

    client = Anthropic(base_url=address.removesuffix("/v1"), api_key=key, max_retries=0)
    tools = [{"name": "write_file", "input_schema": TOOL}]
    asked = {"model": "fake-model", "max_tokens": 100, "tools": tools}

    def told(message):
        blocks = [block.model_dump(exclude_none=True, exclude={"caller"}) for block in message.content]
        usage = message.usage
        return {
            "blocks": [{name: block[name] for name in block if name != "citations"} for block in blocks],
            "stop": message.stop_reason,
            "usage": [
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_input_tokens,
                usage.cache_creation_input_tokens,
            ],
        }

    def user(words):
        return [{"role": "user", "content": words}]

    heard = {}
    for words in ("plain", "think", "call", "long", "filtered"):
        with client.messages.stream(messages=user(words), **asked) as stream:
            seen = [event.type for event in stream]
            heard[words] = told(stream.get_final_message())
        assert seen[0] == "message_start" and seen[-1] == "message_stop", seen
        whole = told(client.messages.create(messages=user(words), **asked))
        assert whole == heard[words], (whole, heard[words])
    for words in ("limited", "wrong"):
        try:
            client.messages.create(messages=user(words), **asked)
        except APIStatusError as error:
            heard[words] = [type(error).__name__, error.body["error"]["type"]]
    return heard


def openai(address, key):
    from openai import APIStatusError, OpenAI

    client = OpenAI(base_url=address, api_key=key, max_retries=0)
    tools = [{"type": "function", "name": "write_file", "parameters": TOOL, "strict": False}]
    asked = {"model": "fake-model", "store": False, "tools": tools}

    def told(response):
        items = [item.model_dump(exclude_none=True) for item in response.output]
        usage = response.usage
        return {
            "types": [item["type"] for item in items],
            "text": response.output_text,
            "calls": [[item["name"], item["arguments"]] for item in items if item["type"] == "function_call"],
            "thoughts": [part["text"] for item in items for part in item.get("summary", ())],
            "sealed": [item["encrypted_content"] for item in items if item.get("encrypted_content")],
            "status": response.status,
            "why": response.incomplete_details.reason if response.incomplete_details else None,
            "usage": [
                usage.input_tokens,
                usage.output_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.input_tokens_details.cache_write_tokens,
            ],
        }

    heard = {}
    for words in ("plain", "think", "call", "long", "filtered"):
        with client.responses.stream(input=words, **asked) as stream:
            events = list(stream)
        last = events[-1]
        heard[words] = told(last.response)
        seen = [event.type for event in events]
        assert seen[0] == "response.created", seen
        numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
        assert numbers == sorted(numbers)
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert deltas == heard[words]["text"]
        whole = told(client.responses.create(input=words, **asked))
        assert whole == heard[words], (whole, heard[words])
    for words in ("limited", "wrong"):
        try:
            client.responses.create(input=words, **asked)
        except APIStatusError as error:
            heard[words] = [type(error).__name__, error.body.get("code")]
    return heard


address, key, vendor = sys.argv[1:]
print(json.dumps({"anthropic": anthropic, "openai": openai}[vendor](address, key)))
