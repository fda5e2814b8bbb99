"""Conversations of the `openai` package with the gateway: `openai_python.py <address> <key> <cases>…`.

Runs in an environment of its own, prints what each case heard as JSON."""

import json
import sys
import time

from openai import APIError, APIStatusError, NotFoundError, OpenAI
from pydantic import BaseModel

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
FUNCTION = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": False}
MODEL = "hermes-agent"


class City(BaseModel):
    city: str


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
    first = client.responses.create(model=MODEL, input="the weather, please", tools=[FUNCTION])
    [call] = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = client.responses.create(
        model=MODEL, input=[result], previous_response_id=first.id, tools=[FUNCTION]
    )
    return {"call": [call.name, json.loads(call.arguments)], "text": second.output_text}


def own_tools(client):
    ask = client.chat.completions.create
    answers = [ask(model=MODEL, messages=user(words)) for words in ("read", "failing")]
    return [answer.choices[0].message.content for answer in answers]


def streamed(client, said):
    """The loop of the manual: every chunk has a choice."""
    words, thoughts = "", ""
    for chunk in client.chat.completions.create(model=MODEL, messages=said, stream=True):
        words += chunk.choices[0].delta.content or ""
        thoughts += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
    return [words, thoughts]


def own_tools_stream(client):
    return streamed(client, user("read"))[0]


def thoughts(client):
    whole = client.chat.completions.create(model=MODEL, messages=user("think")).choices[0].message
    return [[whole.content, whole.reasoning_content], streamed(client, user("think"))]


def question(client):
    """A client without a session answers after the whole conversation."""
    said = user("danger")
    asked, _ = streamed(client, said)
    said += [{"role": "assistant", "content": asked}, *user("yes")]
    return ["(Question q_" in asked, streamed(client, said)[0]]


def failures(client):
    found = []
    for words in ("no key", "too long", "withheld", "no key midway"):
        for stream in (False, True):
            try:
                answer = client.chat.completions.create(model=MODEL, messages=user(words), stream=stream)
                list(answer if stream else ())
            except APIError as error:
                found.append([type(error).__name__, error.code])
    return found


def retries(client):
    """A failed turn is not made again, however often the client would try."""
    words = f"after work, no key {client.api_key[:3]}{id(client)}{time.time_ns()}"
    try:
        client.with_options(max_retries=2).chat.completions.create(model=MODEL, messages=user(words))
    except APIStatusError as error:
        failed = error.status_code
    did = client.chat.completions.create(model=MODEL, messages=user("did what")).choices[0].message.content
    return [failed, sum(words in each for each in json.loads(did))]


def limits(client):
    try:
        client.chat.completions.create(model=MODEL, messages=user("too many"))
    except APIStatusError as error:
        return [error.status_code, error.code, int(error.response.headers["retry-after"]) > 0]
    return None


def structured(client):
    answer = client.chat.completions.parse(model=MODEL, messages=user("a city"), response_format=City)
    response = client.responses.parse(model=MODEL, input="a city", text_format=City)
    return [answer.choices[0].message.parsed.city, response.output_parsed.city]


def responses_own_tools(client):
    heard = []
    for words in ("read", "failing"):
        response = client.responses.create(model=MODEL, input=words)
        heard.append([[item.type, item.status] for item in response.output] + [response.output_text])
    return heard


def responses_own_tools_stream(client):
    with client.responses.stream(model=MODEL, input="read") as events:
        kinds = {event.type for event in events}
        final = events.get_final_response()
    return {"text": final.output_text, "own": sorted(kind for kind in kinds if "mcp_call." in kind)}


def responses_both(client):
    """The agent's own tool and the client's function in one reply, with words beside the result."""
    first = client.responses.create(model=MODEL, input="the weather, and look", tools=[FUNCTION])
    [call] = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    words = {"role": "user", "content": "what came of it?"}
    second = client.responses.create(model=MODEL, input=[result, words], previous_response_id=first.id)
    return {"types": [item.type for item in first.output], "text": second.output_text}


def responses_approval(client):
    heard = []
    for approve in (True, False):
        asked = client.responses.create(model=MODEL, input="danger")
        request = asked.output[-1]
        answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
        done = client.responses.create(model=MODEL, input=[answer], previous_response_id=asked.id)
        heard.append([asked.status, request.type, request.name, done.output_text])
    return heard


def responses_clarify(client):
    asked = client.responses.create(model=MODEL, input="clarify")
    done = client.responses.create(model=MODEL, input="blue", previous_response_id=asked.id)
    return [asked.output_text.partition(" (Question q_")[0], done.output_text]


def responses_reference(client):
    first = client.responses.create(model=MODEL, input="read")
    named = [{"type": "item_reference", "id": item.id} for item in first.output]
    words = [*user("read"), *named, *user("and then?")]
    return client.responses.create(model=MODEL, input=words).output_text


def responses_thoughts(client):
    asked = {"model": MODEL, "input": "think", "reasoning": {"summary": "auto"}}
    with client.responses.stream(**asked) as stream:
        heard = "".join(event.delta for event in stream if "summary_text.delta" in event.type)
        streamed = stream.get_final_response()
    whole = client.responses.create(**asked)
    found = [[item.type for item in each.output] for each in (streamed, whole)]
    return [*found, heard, whole.output[0].summary[0].text, whole.output_text]


def responses_failures(client):
    found = []
    for fault in ("too long", "too many", "no key", "withheld"):
        try:
            client.responses.create(model=MODEL, input=fault)
        except APIStatusError as error:
            told = [error.status_code, error.code]
        events = [event.type for event in client.responses.create(model=MODEL, input=fault, stream=True)]
        found.append([*told, events[-1]])
    return found


def responses_refusals(client):
    found = []
    for more in ({"tools": [{"type": "web_search"}]}, {"top_logprobs": 3}, {"extra_body": {"colour": "red"}}):
        try:
            client.responses.create(model=MODEL, input="hello", **more)
        except APIStatusError as error:
            found.append([error.status_code, error.param])
    return found


if __name__ == "__main__":
    address, key, *cases = sys.argv[1:]
    with OpenAI(base_url=address + "/v1", api_key=key, max_retries=0, timeout=100) as opened:
        print(json.dumps({case: globals()[case](opened) for case in cases}))
