"""One conversation of `litellm` with the gateway: `litellm_python.py <address> <key> <case>`."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices otherwise

import litellm

MODEL = "openai/hermes-agent"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


def user(words):
    return [{"role": "user", "content": words}]


def chat(ask):
    return ask(messages=user("hello")).choices[0].message.content


def stream(ask):
    return "".join(chunk.choices[0].delta.content or "" for chunk in ask(messages=user("hello"), stream=True))


def tools(ask):
    said = user("the weather, please")
    first = ask(messages=said, tools=[WEATHER]).choices[0].message
    call = first.tool_calls[0]
    said += [first.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    return [call.function.name, ask(messages=said, tools=[WEATHER]).choices[0].message.content]


def own_tools(ask):
    said = "".join(chunk.choices[0].delta.content or "" for chunk in ask(messages=user("read"), stream=True))
    return [ask(messages=user("read")).choices[0].message.content, said]


def responses(ask):
    given = {"model": MODEL, "api_base": f"{address}/v1", "api_key": key, "max_retries": 0}
    whole = litellm.responses(input="read", **given)
    words = "".join(
        event.delta
        for event in litellm.responses(input="read", stream=True, **given)
        if event.type == "response.output_text.delta"
    )
    return [[item.type for item in whole.output], whole.output_text, words]


def errors(ask):
    try:
        ask(messages=user("hi"), model="openai/no-such-model")
    except litellm.NotFoundError as error:
        return error.status_code
    return None


if __name__ == "__main__":
    address, key, case = sys.argv[1:]

    def ask(model=MODEL, **given):
        return litellm.completion(model=model, api_base=address + "/v1", api_key=key, max_retries=0, **given)

    print(json.dumps(globals()[case](ask)))
