// Discord's description of its HTTP API as an OpenAPI document of some routes: `discord_openapi.mjs "GET /gateway/bot" …`,
// printed as JSON. npm `discord-api-spec` has the operations as TypeScript types and their bodies as zod schemas, both made
// from the file that Discord publishes. Run from the folder in which it is installed.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const installed = (name) => pathToFileURL(`${process.cwd()}/node_modules/${name}`);
const z = await import(installed("zod/index.js"));
const spec = await import(installed("discord-api-spec/build/discord-api-spec.zod.js"));
const types = readFileSync(installed("discord-api-spec/build/discord-api-spec.ts"), "utf8");

// --- the operations: one interface, read with a parser for the little that it consists of ---

const start = types.indexOf("export interface Paths ") + "export interface Paths ".length;
const tokens = types
  .slice(start)
  .replace(/\/\*[^]*?\*\//g, "")
  .matchAll(/"(?:[^"\\]|\\.)*"|[A-Za-z_$][\w$]*|-?\d[\d.]*|[^\s]/g);
let next = tokens.next().value[0];

function take(wanted) {
  const token = next;
  if (wanted !== undefined && token !== wanted) throw new Error(`${wanted} expected, found ${token}`);
  next = tokens.next().value?.[0];
  return token;
}

function union() {
  if (next === "|") take();
  const members = [array()];
  while (next === "|") {
    take();
    members.push(array());
  }
  return members.length === 1 ? members[0] : { anyOf: members };
}

function array() {
  let found = single();
  while (next === "[") {
    take("[");
    take("]");
    found = { type: "array", items: found };
  }
  return found;
}

function single() {
  if (next === "{") return { members: members() };
  if (next === "[") return { list: list() };
  if (next === "(") {
    take("(");
    const inner = union();
    take(")");
    return inner;
  }
  const word = take();
  if (/^["\d-]/.test(word)) return { const: JSON.parse(word) };
  if (["string", "number", "boolean", "null"].includes(word)) return { type: word };
  if (["unknown", "never", "undefined", "any"].includes(word)) return { nothing: true };
  return { $ref: `#/components/schemas/${word}` };
}

function list() {
  const found = [];
  take("[");
  while (next !== "]") {
    found.push(union());
    if (next === ",") take();
  }
  take("]");
  return found;
}

function members() {
  const found = {};
  take("{");
  while (next !== "}") {
    let name = take().replace(/^"|"$/g, "");
    if (name === "[") while (take() !== "]") name = "*";
    if (next === "?") take();
    take(":");
    found[name] = union();
    if (next === ";" || next === ",") take();
  }
  take("}");
  return found;
}

const paths = members();

// --- the bodies ---

const registry = z.registry();
for (const [name, schema] of Object.entries(spec)) {
  if (name.endsWith("Schema")) registry.add(schema, { id: name.slice(0, -"Schema".length) });
}
const schemas = z.toJSONSchema(registry, { uri: (id) => `#/components/schemas/${id}`, io: "input", unrepresentable: "any" }).schemas;

// What zod adds: addresses of its own, and that times end with Z, which Discord's do not.
function plain(node) {
  if (Array.isArray(node)) return node.map(plain);
  if (node === null || typeof node !== "object") return node;
  const { $id, $schema, ...rest } = node;
  if (rest.format === "date-time") delete rest.pattern;
  return Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, plain(value)]));
}

// A field that Discord does not know is a mistake of ours; where schemas are added up, each knows only its own.
function strict(node, summand = false) {
  if (Array.isArray(node)) return node.map((one) => strict(one, summand));
  if (node === null || typeof node !== "object") return node;
  const found = Object.fromEntries(
    Object.entries(node).map(([name, value]) => [name, strict(value, name === "allOf")]),
  );
  const counts = node.type === "object" && node.properties !== undefined && node.properties.type !== "object";
  if (counts && !summand && node.additionalProperties === undefined) found.additionalProperties = false;
  return found;
}

// The file has numbers for the codes in nested errors; the service and its documents have words.
const words = { type: "object", properties: { code: { type: "string" }, message: { type: "string" } } };
schemas.InnerErrors.properties._errors.items = { ...words, required: ["code", "message"] };

const components = {};
function needed(node) {
  if (node === null || typeof node !== "object") return;
  const name = node.$ref?.split("/").at(-1);
  if (name !== undefined && components[name] === undefined) {
    const found = plain(schemas[name]);
    components[name] = SUMMANDS.has(name) ? found : strict(found);
    needed(components[name]);
  }
  Object.values(node).forEach(needed);
}
const SUMMANDS = new Set(
  [...JSON.stringify(schemas).matchAll(/"allOf":\[([^\]]*)\]/g)].flatMap(([, inside]) =>
    [...inside.matchAll(/schemas\/(\w+)/g)].map(([, name]) => name),
  ),
);

// --- the document ---

const json = (schema) => ({ "application/json": { schema } });

function operation(told) {
  const parts = told.parameters.members;
  const parameters = ["path", "query"].flatMap((place) =>
    Object.entries(parts[place].members ?? {}).map(([name, schema]) => ({
      name,
      in: place,
      required: place === "path",
      schema,
    })),
  );
  const responses = {};
  for (const [status, schema] of Object.entries(told.responses.members)) {
    responses[status] = { description: status, ...(schema.nothing ? {} : { content: json(schema) }) };
  }
  const security = told.security.list.map((one) =>
    Object.fromEntries(Object.keys(one.members).map((name) => [name, []])),
  );
  const found = { parameters, responses, security };
  // Files come beside `payload_json`, of which the file tells nothing: the test hands that in by itself.
  const files = { "multipart/form-data": { schema: { type: "object" } } };
  if (!told.requestBody.nothing) found.requestBody = { content: { ...json(told.requestBody), ...files } };
  return found;
}

const document = { openapi: "3.1.0", info: { title: "Discord", version: "10" }, paths: {} };
for (const route of process.argv.slice(2)) {
  const [method, path] = route.split(" ");
  const told = paths[path]?.members[method.toLowerCase()];
  if (told === undefined) throw new Error(`Discord has no ${route}`);
  (document.paths[path] ??= {})[method.toLowerCase()] = operation(told.members);
}
needed(document.paths);
const securitySchemes = {
  BotToken: { type: "apiKey", in: "header", name: "Authorization" },
  OAuth2: { type: "http", scheme: "bearer" },
};
document.components = { schemas: components, securitySchemes };
console.log(JSON.stringify(document));
