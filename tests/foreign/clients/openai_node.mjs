// Conversations of OpenAI's client for Node with the gateway: `openai_node.mjs <address> <key> <cases>…`.
// Prints what each case heard as JSON. Run from the folder in which the client is installed.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const { default: OpenAI } = await import(pathToFileURL(require.resolve("openai")).href).then((m) => m.default?.default ? m.default : m);

const [address, key, ...names] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: key, maxRetries: 0, timeout: 100000 });
const model = "hermes-agent";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { type: "function", function: { name: "get_weather", parameters } };
const user = (content) => [{ role: "user", content }];
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// The loop of the manual: every chunk has its choices.
async function streamed(messages) {
  let text = "", thoughts = "";
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    thoughts += chunk.choices[0]?.delta?.reasoning_content ?? "";
  }
  return [text, thoughts];
}

const cases = {
  async models() {
    const found = [];
    for await (const one of client.models.list()) found.push(one.id);
    return found;
  },
  async chat() {
    const answer = await client.chat.completions.create({ model, messages: user("hello") });
    return { text: answer.choices[0].message.content, usage: answer.usage.total_tokens > 0 };
  },
  async stream() {
    let text = "", usage = null;
    const chunks = await client.chat.completions.create({
      model, messages: user("hello"), stream: true, stream_options: { include_usage: true },
    });
    for await (const chunk of chunks) {
      usage = chunk.usage ?? usage;
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    return { text, usage: usage !== null && usage.total_tokens > 0 };
  },
  async tools() {
    const messages = user("the weather, please");
    const first = (await client.chat.completions.create({ model, messages, tools: [weather] })).choices[0];
    const call = first.message.tool_calls[0];
    messages.push(first.message, { role: "tool", tool_call_id: call.id, content: "sunny" });
    const last = await client.chat.completions.create({ model, messages, tools: [weather] });
    return {
      reason: first.finish_reason,
      call: [call.function.name, JSON.parse(call.function.arguments)],
      text: last.choices[0].message.content,
    };
  },
  async tools_stream() {
    let called = "", given = "", reason = null;
    const messages = user("the weather, please");
    const chunks = await client.chat.completions.create({ model, messages, tools: [weather], stream: true });
    for await (const chunk of chunks)
      for (const choice of chunk.choices) {
        reason = choice.finish_reason ?? reason;
        for (const call of choice.delta.tool_calls ?? []) {
          called += call.function?.name ?? "";
          given += call.function?.arguments ?? "";
        }
      }
    return { reason, call: [called, JSON.parse(given)] };
  },
  async images() {
    const parts = [{ type: "text", text: "a picture" }, { type: "image_url", image_url: { url: pixel } }];
    const answer = await client.chat.completions.create({ model, messages: user(parts) });
    return answer.choices[0].message.content;
  },
  async errors() {
    const wrong = new OpenAI({ baseURL: `${address}/v1`, apiKey: "wrong", maxRetries: 0 });
    const found = [];
    for (const bad of [
      () => client.chat.completions.create({ model: "no-such-model", messages: user("hi") }),
      () => client.chat.completions.create({ model, messages: [] }),
      () => wrong.models.list(),
    ])
      await bad().catch((error) => found.push([error.constructor.name, error.status, error.code]));
    return found;
  },
  async disconnect() {
    const chunks = await client.chat.completions.create({ model, messages: user("hang"), stream: true });
    for await (const chunk of chunks) {
      const words = chunk.choices[0]?.delta?.content;
      if (words) {
        chunks.controller.abort();
        return words;
      }
    }
  },
  async responses() {
    const first = await client.responses.create({ model, input: "hello" });
    const second = await client.responses.create({ model, input: "again", previous_response_id: first.id });
    const kept = await client.responses.retrieve(first.id);
    await client.responses.delete(first.id);
    const gone = await client.responses.retrieve(first.id).then(() => false, (error) => error.status === 404);
    return { texts: [first.output_text, second.output_text, kept.output_text], gone };
  },
  async responses_stream() {
    let text = "";
    const kinds = [], numbers = [];
    for await (const event of await client.responses.create({ model, input: "hello", stream: true })) {
      kinds.push(event.type);
      numbers.push(event.sequence_number);
      text += event.type === "response.output_text.delta" ? event.delta : "";
    }
    const ordered = numbers.every((number, at) => at === 0 || number > numbers[at - 1]);
    return { text, ends: [kinds[0], kinds.at(-1)], "in order": ordered };
  },
  async responses_tools() {
    const tools = [{ type: "function", name: "get_weather", parameters, strict: false }];
    const first = await client.responses.create({ model, input: "the weather, please", tools });
    const call = first.output.find((item) => item.type === "function_call");
    const input = [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }];
    const second = await client.responses.create({ model, input, previous_response_id: first.id, tools });
    return { call: [call.name, JSON.parse(call.arguments)], text: second.output_text };
  },
  async own_tools() {
    const heard = [];
    for (const words of ["read", "failing"])
      heard.push((await client.chat.completions.create({ model, messages: user(words) })).choices[0].message.content);
    return heard;
  },
  own_tools_stream: async () => (await streamed(user("read")))[0],
  async thoughts() {
    const whole = (await client.chat.completions.create({ model, messages: user("think") })).choices[0].message;
    return [[whole.content, whole.reasoning_content], await streamed(user("think"))];
  },
  async question() {
    const messages = user("danger");
    const [asked] = await streamed(messages);
    messages.push({ role: "assistant", content: asked }, ...user("yes"));
    return [asked.includes("(Question q_"), (await streamed(messages))[0]];
  },
  async failures() {
    const found = [];
    for (const words of ["no key", "too long", "withheld", "no key midway"])
      for (const stream of [false, true])
        try {
          const answer = await client.chat.completions.create({ model, messages: user(words), stream });
          if (stream) for await (const chunk of answer) void chunk;
        } catch (error) {
          found.push([error.constructor.name, error.code]);
        }
    return found;
  },
  async retries() {
    const words = `after work, no key ${process.pid} ${Date.now()}`;
    const eager = client.withOptions({ maxRetries: 2 });
    const failed = await eager.chat.completions.create({ model, messages: user(words) }).catch((e) => e.status);
    const did = await client.chat.completions.create({ model, messages: user("did what") });
    return [failed, JSON.parse(did.choices[0].message.content).filter((each) => each.includes(words)).length];
  },
  async limits() {
    const error = await client.chat.completions.create({ model, messages: user("too many") }).catch((e) => e);
    return [error.status, error.code, Number(error.headers.get("retry-after")) > 0];
  },
  async structured() {
    const schema = { name: "city", schema: parameters, strict: true };
    const answer = await client.chat.completions.parse({
      model, messages: user("a city"), response_format: { type: "json_schema", json_schema: schema },
    });
    const response = await client.responses.parse({
      model, input: "a city", text: { format: { type: "json_schema", ...schema } },
    });
    return [JSON.parse(answer.choices[0].message.content).city, JSON.parse(response.output_text).city];
  },
  async responses_own_tools() {
    const heard = [];
    for (const input of ["read", "failing"]) {
      const response = await client.responses.create({ model, input });
      heard.push([...response.output.map((item) => [item.type, item.status]), response.output_text]);
    }
    return heard;
  },
  async responses_own_tools_stream() {
    const kinds = new Set();
    const events = client.responses.stream({ model, input: "read" });
    for await (const event of events) kinds.add(event.type);
    const own = [...kinds].filter((kind) => kind.includes("mcp_call.")).sort();
    return { text: (await events.finalResponse()).output_text, own };
  },
  async responses_both() {
    const tools = [{ type: "function", name: "get_weather", parameters, strict: false }];
    const first = await client.responses.create({ model, input: "the weather, and look", tools });
    const call = first.output.find((item) => item.type === "function_call");
    const input = [
      { type: "function_call_output", call_id: call.call_id, output: "sunny" },
      { role: "user", content: "what came of it?" },
    ];
    const second = await client.responses.create({ model, input, previous_response_id: first.id });
    return { types: first.output.map((item) => item.type), text: second.output_text };
  },
  async responses_approval() {
    const heard = [];
    for (const approve of [true, false]) {
      const asked = await client.responses.create({ model, input: "danger" });
      const request = asked.output.at(-1);
      const input = [{ type: "mcp_approval_response", approval_request_id: request.id, approve }];
      const done = await client.responses.create({ model, input, previous_response_id: asked.id });
      heard.push([asked.status, request.type, request.name, done.output_text]);
    }
    return heard;
  },
  async responses_clarify() {
    const asked = await client.responses.create({ model, input: "clarify" });
    const done = await client.responses.create({ model, input: "blue", previous_response_id: asked.id });
    return [asked.output_text.split(" (Question q_")[0], done.output_text];
  },
  async responses_reference() {
    const first = await client.responses.create({ model, input: "read" });
    const named = first.output.map((item) => ({ type: "item_reference", id: item.id }));
    const input = [...user("read"), ...named, ...user("and then?")];
    return (await client.responses.create({ model, input })).output_text;
  },
  async responses_thoughts() {
    const asked = { model, input: "think", reasoning: { summary: "auto" } };
    let heard = "";
    const stream = client.responses.stream(asked);
    for await (const event of stream)
      if (event.type === "response.reasoning_summary_text.delta") heard += event.delta;
    const streamed = await stream.finalResponse();
    const whole = await client.responses.create(asked);
    const found = [streamed, whole].map((each) => each.output.map((item) => item.type));
    return [...found, heard, whole.output[0].summary[0].text, whole.output_text];
  },
  async responses_failures() {
    const found = [];
    for (const input of ["too long", "too many", "no key", "withheld"]) {
      const told = await client.responses.create({ model, input }).catch((e) => [e.status, e.code]);
      let last = null;
      for await (const event of await client.responses.create({ model, input, stream: true })) last = event.type;
      found.push([...told, last]);
    }
    return found;
  },
  async responses_refusals() {
    const found = [];
    for (const more of [{ tools: [{ type: "web_search" }] }, { top_logprobs: 3 }, { colour: "red" }])
      await client.responses.create({ model, input: "hello", ...more }).catch((e) => found.push([e.status, e.param]));
    return found;
  },
};

const heard = {};
for (const name of names) heard[name] = await cases[name]();
console.log(JSON.stringify(heard));
