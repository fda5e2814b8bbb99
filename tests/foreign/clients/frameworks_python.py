"""Agent frameworks for Python talk with the gateway: `frameworks_python.py <address> <key> <framework>`.

Runs in an environment of its own and prints, as JSON, what each case of the framework came to."""

import asyncio
import json
import sys
import warnings

MODEL = "hermes-agent"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def openai_agents(address, key):
    from agents import (
        Agent,
        ModelSettings,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI
    from pydantic import BaseModel

    set_tracing_disabled(True)

    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    class City(BaseModel):
        city: str

    def agent(kind, client, **more):
        return Agent(name="A", model=kind(model=MODEL, openai_client=client), **more)

    async def told(streamed):
        kinds = []
        async for event in streamed.stream_events():
            if event.type == "run_item_stream_event":
                kinds.append(event.name)
        return {"text": streamed.final_output, "items": kinds}

    async def run(kind):
        async with AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
            plain, armed = agent(kind, client), agent(kind, client, tools=[get_weather])
            forced = agent(
                kind, client, tools=[get_weather], model_settings=ModelSettings(tool_choice="required")
            )
            shaped = agent(kind, client, output_type=City)
            first = await Runner.run(plain, "hello")
            again = [*first.to_input_list(), {"role": "user", "content": "again"}]
            own = await Runner.run(plain, "read")
            after = [*own.to_input_list(), {"role": "user", "content": "thanks"}]
            return {
                "plain": first.final_output,
                "history": (await Runner.run(plain, again)).final_output,
                "stream": (await told(Runner.run_streamed(plain, "hello")))["text"],
                "own tool": own.final_output,
                "history after an own tool": (await Runner.run(plain, after)).final_output,
                "own tool, streamed": (await told(Runner.run_streamed(plain, "read")))["text"],
                "failing tool": (await Runner.run(plain, "failing")).final_output,
                "function": (await Runner.run(armed, "the weather")).final_output,
                "function, streamed": (await told(Runner.run_streamed(armed, "the weather")))["text"],
                "function beside an own tool": (
                    await Runner.run(armed, "the weather, and look")
                ).final_output,
                "forced": (await Runner.run(forced, "anything")).final_output,
                "output type": (await Runner.run(shaped, "a city")).final_output.model_dump(),
                "failure": await failure(Runner.run(plain, "no key")),
            }

    async def both():
        return {
            "responses": await run(OpenAIResponsesModel),
            "chat": await run(OpenAIChatCompletionsModel),
        }

    return asyncio.run(both())


async def failure(work):
    try:
        return await work
    except Exception as error:
        return type(error).__name__


def pydantic_ai(address, key):
    from openai import AsyncOpenAI
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class City(BaseModel):
        city: str

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    async def run(kind):
        async with AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
            model = kind(MODEL, provider=OpenAIProvider(openai_client=client))
            plain, armed = Agent(model), Agent(model, tools=[get_weather])
            own = await plain.run("read")

            async def streamed(agent, words):
                async with agent.run_stream(words) as result:
                    return await result.get_output()

            return {
                "plain": (await plain.run("hello")).output,
                "stream": await streamed(plain, "hello"),
                "own tool": own.output,
                "history after an own tool": (
                    await plain.run("thanks", message_history=own.all_messages())
                ).output,
                "own tool, streamed": await streamed(plain, "read"),
                "function": (await armed.run("the weather")).output,
                "function beside an own tool": (await armed.run("the weather, and look")).output,
                "output tool": (await Agent(model, output_type=City).run("a city")).output.model_dump(),
                "native output": (
                    await Agent(model, output_type=NativeOutput(City)).run("a city")
                ).output.model_dump(),
                "failure": await failure(plain.run("no key")),
            }

    async def both():
        return {"responses": await run(OpenAIResponsesModel), "chat": await run(OpenAIChatModel)}

    return asyncio.run(both())


def instructor(address, key):
    import instructor
    from openai import OpenAI
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    modes = ("TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA", "RESPONSES_TOOLS")
    heard = {}
    with OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
        for mode in modes:
            patched = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
            said = [{"role": "user", "content": "a city"}]
            try:
                city = patched.chat.completions.create(
                    model=MODEL, messages=said, response_model=City, max_retries=0
                )
                heard[mode] = city.model_dump()
            except Exception as error:
                heard[mode] = f"{type(error).__name__}: {str(error)[:300]}"
    return heard


def langchain(address, key):
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    class City(BaseModel):
        """A city."""

        city: str

    @tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    def run(responses):
        model = ChatOpenAI(
            model=MODEL,
            base_url=f"{address}/v1",
            api_key=key,
            max_retries=0,
            use_responses_api=responses,
            output_version="v1",
        )

        def ask(agent, words):
            return agent.invoke({"messages": [("user", words)]})["messages"][-1].text

        def streamed(words):
            return "".join(chunk.text for chunk in model.stream(words))

        plain, armed = create_agent(model, tools=[]), create_agent(model, tools=[get_weather])
        own = plain.invoke({"messages": [("user", "read")]})["messages"]
        after = plain.invoke({"messages": [*own, ("user", "thanks")]})["messages"]
        heard = {
            "plain": ask(plain, "hello"),
            "stream": streamed("hello"),
            "own tool": own[-1].text,
            "steps": len(own),
            "history after an own tool": after[-1].text,
            "own tool, streamed": streamed("read"),
            "function": ask(armed, "the weather"),
            "function beside an own tool": ask(armed, "the weather, and look"),
        }
        for method in ("function_calling", "json_schema"):
            heard[method] = model.with_structured_output(City, method=method).invoke("a city").model_dump()
        try:
            heard["failure"] = model.invoke("no key").text
        except Exception as error:
            heard["failure"] = type(error).__name__
        return heard

    return {"responses": run(True), "chat": run(False)}


def llama_index(address, key):
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        model=MODEL,
        api_base=f"{address}/v1",
        api_key=key,
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    def said(words):
        return [ChatMessage(role="user", content=words)]

    async def agent(words):
        armed = FunctionAgent(tools=[get_weather], llm=model, streaming=False)
        return str(await armed.run(words))

    return {
        "plain": model.chat(said("hello")).message.content,
        "stream": "".join(part.delta or "" for part in model.stream_chat(said("hello"))),
        "own tool": model.chat(said("read")).message.content,
        "own tool, streamed": "".join(part.delta or "" for part in model.stream_chat(said("read"))),
        "agent": asyncio.run(agent("the weather")),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    where, secret, framework = sys.argv[1:]
    print(json.dumps(globals()[framework](where, secret)))
