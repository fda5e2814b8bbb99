// Agent frameworks for Node talk with the gateway: `frameworks_node.mjs <address> <key> <framework>`.
// Prints, as JSON, what each case of the framework came to. Run from the folder in which they are installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href).then((m) => m.default?.__esModule ? m.default : m);
const [address, key, framework] = process.argv.slice(2);
const baseURL = `${address}/v1`;
const MODEL = "hermes-agent";

const failure = async (work) => {
  try {
    return await work();
  } catch (error) {
    return error.name;
  }
};

async function vercel() {
  const ai = await load("ai");
  const { createOpenAI } = await load("@ai-sdk/openai");
  const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
  const { z } = await load("zod");
  const openai = createOpenAI({ baseURL, apiKey: key });
  const compatible = createOpenAICompatible({ name: "hermes", baseURL, apiKey: key });
  const city = z.object({ city: z.string() });
  const get_weather = ai.tool({ description: "The weather.", inputSchema: city, execute: async () => "sunny" });

  const streamed = async (options) => {
    const errors = [], kinds = [];
    const result = ai.streamText({ ...options, maxRetries: 0, onError: ({ error }) => errors.push(String(error)) });
    let text = "";
    for await (const part of result.fullStream) {
      if (!kinds.includes(part.type)) kinds.push(part.type);
      if (part.type === "text-delta") text += part.text;
    }
    return { text, errors, called: kinds.includes("tool-call") };
  };

  const run = async (model, more = {}) => {
    const ask = (options) => ai.generateText({ model, maxRetries: 0, ...more, ...options });
    const own = await ask({ prompt: "read" });
    const first = await ask({ prompt: "hello" });
    const next = [{ role: "user", content: "hello" }, ...first.response.messages, { role: "user", content: "again" }];
    const after = [{ role: "user", content: "read" }, ...own.response.messages, { role: "user", content: "thanks" }];
    const tools = { get_weather }, stopWhen = ai.stepCountIs(5);
    return {
      plain: first.text,
      history: (await ask({ messages: next })).text,
      stream: await streamed({ model, ...more, prompt: "hello" }),
      "own tool": own.text,
      "history after an own tool": (await ask({ messages: after })).text,
      "own tool, streamed": await streamed({ model, ...more, prompt: "read" }),
      function: (await ask({ prompt: "the weather", tools, stopWhen })).text,
      "function, streamed": (await streamed({ model, ...more, prompt: "the weather", tools, stopWhen })).text,
      "function beside an own tool": (await ask({ prompt: "the weather, and look", tools, stopWhen })).text,
      forced: (await ask({ prompt: "anything", tools, toolChoice: "required" })).toolCalls.map((call) => call.toolName),
      object: (await ask({ prompt: "a city", output: ai.Output.object({ schema: city }) })).output,
      failure: await failure(() => ask({ prompt: "no key" })),
      "failure, streamed": (await streamed({ model, ...more, prompt: "no key" })).errors.length > 0,
    };
  };

  // An own tool that needs an approval, which the program gives in the SDK's own way.
  const approve = async (approved) => {
    const model = openai(MODEL);
    const asking = [{ role: "user", content: "danger" }];
    const asked = await ai.generateText({ model, maxRetries: 0, messages: asking });
    const [request] = asked.content.filter((part) => part.type === "tool-approval-request");
    const answer = { type: "tool-approval-response", approvalId: request.approvalId, approved, providerExecuted: true };
    const messages = [...asking, ...asked.response.messages, { role: "tool", content: [answer] }];
    const done = await ai.generateText({ model, maxRetries: 0, messages });
    return { asked: request.toolCall.toolName, text: done.text };
  };

  // With its default settings the SDK repeats what failed, and counts no tries: a tool must act once all the same.
  const repeated = async (model, name) => {
    const prompt = `after work, no key (${name})`;
    const error = await failure(() => ai.generateText({ model, prompt }));
    const did = JSON.parse((await ai.generateText({ model, prompt: "did what" })).text);
    return { error, acted: did.filter((each) => each.includes(prompt)).length };
  };

  // A question of the agent, answered by a program that sends the whole conversation.
  const answered = async (model, more = {}) => {
    const asking = [{ role: "user", content: "clarify" }];
    const asked = await ai.generateText({ model, ...more, messages: asking });
    const messages = [...asking, ...asked.response.messages, { role: "user", content: "2" }];
    return (await ai.generateText({ model, ...more, messages })).text;
  };

  return {
    answered: [
      await answered(openai(MODEL)), await answered(openai(MODEL), { providerOptions: { openai: { store: false } } }),
      await answered(openai.chat(MODEL)),
    ],
    repeated: [
      await repeated(openai(MODEL), "responses"), await repeated(openai.chat(MODEL), "chat"),
      await repeated(compatible(MODEL), "compatible"),
    ],
    responses: await run(openai(MODEL)),
    "responses, not stored": await run(openai(MODEL), { providerOptions: { openai: { store: false } } }),
    chat: await run(openai.chat(MODEL)),
    compatible: await run(compatible(MODEL)),
    approved: await approve(true),
    denied: await approve(false),
  };
}

async function agents() {
  const sdk = await load("@openai/agents");
  const { z } = await load("zod");
  const { default: OpenAI } = await load("openai");
  sdk.setTracingDisabled(true);
  const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
  const get_weather = sdk.tool({
    name: "get_weather", description: "The weather.", parameters: z.object({ city: z.string() }), execute: async () => "sunny",
  });

  const run = async (model) => {
    const make = (more = {}) => new sdk.Agent({ name: "A", model, ...more });
    const ask = async (agent, words) => (await sdk.run(agent, words)).finalOutput;
    const streamed = async (agent, words) => {
      const result = await sdk.run(agent, words, { stream: true });
      await result.completed;
      return result.finalOutput;
    };
    const armed = make({ tools: [get_weather] });
    const own = await sdk.run(make(), "read");
    const after = [...own.history, { role: "user", content: "thanks" }];
    return {
      plain: await ask(make(), "hello"),
      stream: await streamed(make(), "hello"),
      "own tool": own.finalOutput,
      "history after an own tool": (await sdk.run(make(), after)).finalOutput,
      "own tool, streamed": await streamed(make(), "read"),
      function: await ask(armed, "the weather"),
      "function, streamed": await streamed(armed, "the weather"),
      "function beside an own tool": await ask(armed, "the weather, and look"),
      "output type": await ask(make({ outputType: z.object({ city: z.string() }) }), "a city"),
      failure: await failure(() => ask(make(), "no key")),
    };
  };

  return {
    responses: await run(new sdk.OpenAIResponsesModel(client, MODEL)),
    chat: await run(new sdk.OpenAIChatCompletionsModel(client, MODEL)),
  };
}

console.log(JSON.stringify(await { vercel, agents }[framework]()));
