"""The official SDK of a vendor judges a request of ours by its types: `request_shapes.py <vendor> <file>`.

Runs in an environment of its own; prints the kinds of what it took. A field that a type does not have is
dropped when it is read, so what is read must be what was given."""

import json
import sys

from pydantic import TypeAdapter

vendor, file = sys.argv[1:]
with open(file) as given:
    request = json.load(given)
taken = []


def judge(type_, value):
    adapter = TypeAdapter(type_)  # lists are read when they are looked at, so it has to live until then
    read = adapter.validate_python(value)
    plain = (str, dict, bool)
    whole = {name: part if isinstance(part, plain) else list(part) for name, part in read.items()}
    assert whole == value, (whole, value)
    taken.append(value.get("type") or "tool")


if vendor == "anthropic":
    from anthropic.types import ToolParam, ToolReferenceBlockParam, ToolResultBlockParam

    for tool in request["tools"]:
        judge(ToolParam, tool)
    for message in request["messages"]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                judge(ToolResultBlockParam, block)
                for part in block["content"] if isinstance(block["content"], list) else ():
                    judge(ToolReferenceBlockParam, part)
else:
    from openai.types.responses import FunctionToolParam, ToolSearchToolParam
    from openai.types.responses.response_function_tool_call_param import ResponseFunctionToolCallParam
    from openai.types.responses.response_input_item_param import ToolSearchCall
    from openai.types.responses.response_tool_search_output_item_param_param import (
        ResponseToolSearchOutputItemParamParam,
    )

    kinds = {"function": FunctionToolParam, "tool_search": ToolSearchToolParam}
    kinds |= {"tool_search_call": ToolSearchCall, "function_call": ResponseFunctionToolCallParam}
    kinds |= {"tool_search_output": ResponseToolSearchOutputItemParamParam}
    for item in [*request["tools"], *request["input"]]:
        if item["type"] in kinds:
            judge(kinds[item["type"]], item)
print(json.dumps(taken))
