"""One conversation of the `openai` package with the gateway: `openai_python.py <address> <key> <case>`.

Runs in an environment of its own, prints what it heard as JSON."""

import json
import sys

from openai import APIStatusError, NotFoundError, OpenAI

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
MODEL = "hermes-agent"


def user(words):
    return [{"role": "user", "content": words}]


def models(client):
    return [model.id for model in client.models.list()]


def chat(client):
    answer = client.chat.completions.create(model=MODEL, messages=user("hello"))
    return {"text": answer.choices[0].message.content, "usage": answer.usage.total_tokens > 0}


def stream(client):
    words, usage = "", None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=user("hello"), stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        words += "".join(choice.delta.content or "" for choice in chunk.choices)
    return {"text": words, "usage": usage is not None and usage.total_tokens > 0}


def tools(client):
    said = user("the weather, please")
    first = client.chat.completions.create(model=MODEL, messages=said, tools=[WEATHER]).choices[0]
    call = first.message.tool_calls[0]
    said += [
        first.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    last = client.chat.completions.create(model=MODEL, messages=said, tools=[WEATHER]).choices[0]
    return {
        "reason": first.finish_reason,
        "call": [call.function.name, json.loads(call.function.arguments)],
        "text": last.message.content,
    }


def tools_stream(client):
    name, arguments, reason = "", "", None
    said = user("the weather, please")
    for chunk in client.chat.completions.create(model=MODEL, messages=said, tools=[WEATHER], stream=True):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    return {"reason": reason, "call": [name, json.loads(arguments)]}


def images(client):
    parts = [{"type": "text", "text": "a picture"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    return client.chat.completions.create(model=MODEL, messages=user(parts)).choices[0].message.content


def errors(client):
    found = []
    for bad in (
        lambda: client.chat.completions.create(model="no-such-model", messages=user("hi")),
        lambda: client.chat.completions.create(model=MODEL, messages=[]),
        lambda: client.with_options(api_key="wrong").models.list(),
    ):
        try:
            bad()
        except APIStatusError as error:
            found.append([type(error).__name__, error.status_code, error.code])
    return found


def disconnect(client):
    with client.chat.completions.create(model=MODEL, messages=user("hang"), stream=True) as chunks:
        for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                return chunk.choices[0].delta.content
    return None


def responses(client):
    first = client.responses.create(model=MODEL, input="hello")
    second = client.responses.create(model=MODEL, input="again", previous_response_id=first.id)
    kept = client.responses.retrieve(first.id)
    client.responses.delete(first.id)
    try:
        client.responses.retrieve(first.id)
        gone = False
    except NotFoundError:
        gone = True
    return {"texts": [first.output_text, second.output_text, kept.output_text], "gone": gone}


def responses_stream(client):
    words, kinds, numbers = "", [], []
    for event in client.responses.create(model=MODEL, input="hello", stream=True):
        kinds.append(event.type)
        numbers.append(event.sequence_number)
        words += event.delta if event.type == "response.output_text.delta" else ""
    return {"text": words, "ends": [kinds[0], kinds[-1]], "in order": numbers == sorted(set(numbers))}


def responses_tools(client):
    weather = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}
    first = client.responses.create(model=MODEL, input="the weather, please", tools=[weather])
    [call] = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = client.responses.create(
        model=MODEL, input=[result], previous_response_id=first.id, tools=[weather]
    )
    return {"call": [call.name, json.loads(call.arguments)], "text": second.output_text}


if __name__ == "__main__":
    address, key, case = sys.argv[1:]
    with OpenAI(base_url=address + "/v1", api_key=key, max_retries=0, timeout=100) as opened:
        print(json.dumps(globals()[case](opened)))
