"""The compliance cases of Open Responses, judged by the standard's own types.

`open_responses.py <address> <key>` prints, for each case, “ok” or what is wrong."""

import json
import sys
import urllib.request
from typing import Union

from openresponses_types import types as standard
from pydantic import TypeAdapter

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
RESPONSE = TypeAdapter(standard.ResponseResource)
EVENT = TypeAdapter(
    Union[tuple(each for name, each in vars(standard).items() if name.endswith("StreamingEvent"))]  # noqa: UP007
)


def message(role, words):
    return {"type": "message", "role": role, "content": words}


def basic():
    return whole(input=[message("user", "Say hello.")])


def streaming():
    return streamed(input=[message("user", "Count from 1 to 5.")])


def system_prompt():
    return whole(input=[message("system", "You are a pirate."), message("user", "Say hello.")])


def tool_calling():
    response = whole(input=[message("user", "the weather in Paris")], tools=[WEATHER])
    assert [item["type"] for item in response["output"]].count("function_call") == 1, response["output"]
    return response


def tool_calling_streaming():
    response = streamed(input=[message("user", "the weather in Paris")], tools=[WEATHER])
    assert [item["type"] for item in response["output"]].count("function_call") == 1, response["output"]
    return response


def image_input():
    parts = [
        {"type": "input_text", "text": "What is in this picture?"},
        {"type": "input_image", "image_url": PIXEL},
    ]
    return whole(input=[{"type": "message", "role": "user", "content": parts}])


def multi_turn():
    said = [
        message("user", "My name is Ann."),
        message("assistant", "Hello Ann."),
        message("user", "My name?"),
    ]
    return whole(input=said)


def post(**body):
    request = urllib.request.Request(
        f"{address}/v1/responses",
        data=json.dumps({"model": "hermes-agent", **body}).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=100) as answer:
        return answer.read().decode()


def whole(**body):
    response = json.loads(post(**body))
    RESPONSE.validate_python(response)
    assert response["status"] == "completed", response["status"]
    assert response["output"], "nothing came"
    return response


def streamed(**body):
    events = post(**body, stream=True).strip().split("\n\n")
    assert events.pop() == "data: [DONE]", "the stream does not end with [DONE]"
    told = []
    for event in events:
        name, data = event.split("\n")
        told.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {told[-1]['type']}", name
        EVENT.validate_python(told[-1])
    assert told[-1]["type"] == "response.completed", told[-1]["type"]
    assert told[-1]["response"]["output"], "nothing came"
    return told[-1]["response"]


def judge(case):
    try:
        case()
    except Exception as error:
        return str(error)[:1000]
    return "ok"


if __name__ == "__main__":
    address, key = sys.argv[1:]
    cases = (basic, streaming, system_prompt, tool_calling, tool_calling_streaming, image_input, multi_turn)
    print(json.dumps({case.__name__: judge(case) for case in cases}))
