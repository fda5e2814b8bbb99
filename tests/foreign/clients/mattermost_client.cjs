// Mattermost's own client against a server: `mattermost_client.cjs <address> <token> <private channel> <channel>`.
// Prints what it heard as JSON. Run from the folder in which the client is installed.
const { createRequire } = require("node:module");
const { pathToFileURL } = require("node:url");

const { Client4, WebSocketClient } = createRequire(pathToFileURL(process.cwd() + "/"))("@mattermost/client");
const [address, token, own, shared] = process.argv.slice(2);
const told = { errors: [] };
console.log = () => {};

const client = new Client4();
client.setUrl(address);
client.setToken(token);

async function wrong(name, work) {
  try {
    await work();
    told.errors.push([name, "no error"]);
  } catch (error) {
    told.errors.push([name, error.status_code ?? null, error.server_error_id ?? null]);
  }
}

function until(what, name) {
  return new Promise((done, fail) => {
    const end = Date.now() + 20000;
    const look = () => {
      if (what()) done();
      else if (Date.now() > end) fail(new Error(`never: ${name}`));
      else setTimeout(look, 5);
    };
    look();
  });
}

async function main() {
  // The WebSocket: challenge, hello, ping, typing, events in their order.
  const heard = [];
  let missed = 0;
  let closed = 0;
  const socket = new WebSocketClient({ minWebSocketRetryTime: 10, reconnectJitterRange: 1 });
  socket.addMessageListener((message) => heard.push(message));
  socket.addMissedMessageListener(() => missed++);
  socket.addCloseListener(() => closed++);
  socket.initialize(`${address.replace("http", "ws")}/api/v4/websocket`, token);
  await until(() => heard.length > 0, "hello");
  told.hello = [heard[0].event, heard[0].seq, /^[a-z0-9]{26}$/.test(heard[0].data.connection_id)];
  const answer = await new Promise((done) => socket.userTyping(own, "", done));
  told.typing = [answer.status, answer.seq_reply > 0];
  const pong = await new Promise((done) => socket.ping(done));
  told.ping = pong.data.text;

  // REST, and what of it is told over the WebSocket.
  const me = await client.getMe();
  told.me = [me.username, me.is_bot];
  told.channels = (await client.getAllTeamsChannels()).map((one) => one.type);
  const begin = Date.now() - 1;
  const post = { channel_id: own, message: "hello *you* 😀", pending_post_id: `${me.id}:1`, props: { mine: "x" } };
  const first = await client.createPost(post);
  const again = await client.createPost(post);
  told.created = [first.message, first.user_id === me.id, again.id === first.id, first.props.mine];
  await until(() => heard.some((one) => one.event === "posted"), "posted");
  const event = heard.find((one) => one.event === "posted");
  told.posted = [JSON.parse(event.data.post).id === first.id, event.data.channel_type, event.data.sender_name];
  told.broadcast = event.broadcast.channel_id === own;
  const reply = await client.createPost({ channel_id: own, message: "below", root_id: first.id });
  told.reply = reply.root_id === first.id;
  const edited = await client.patchPost({ id: first.id, message: "hello again" });
  told.edited = [edited.message, edited.edit_at > 0, edited.props.mine];
  await until(() => heard.some((one) => one.event === "post_edited"), "post_edited");
  const reaction = await client.addReaction(me.id, first.id, "eyes");
  const there = await client.getReactionsForPost(first.id);
  const back = await client.removeReaction(me.id, first.id, "eyes");
  const left = await client.getReactionsForPost(first.id);
  told.reaction = [reaction.emoji_name, reaction.post_id === first.id, there.length, back.status, left.length];

  const form = new FormData();
  form.append("channel_id", own);
  form.append("files", new Blob(["abc"], { type: "text/plain" }), "a.txt");
  const uploaded = (await client.uploadFile(form)).file_infos[0];
  const carrying = await client.createPost({ channel_id: own, message: "", file_ids: [uploaded.id] });
  const bytes = await fetch(client.getFileUrl(uploaded.id, 0), { headers: { Authorization: `BEARER ${token}` } });
  const facts = carrying.metadata.files[0];
  told.file = [facts.name, facts.size, facts.mime_type, await bytes.text()];

  const since = await client.getPostsSince(own, begin);
  told.since = [since.order.length, since.order.every((one) => since.posts[one].channel_id === own)];
  const page = await client.getPosts(own, 0, 2);
  told.page = [page.order.length, page.order[0] === carrying.id];
  const before = await client.getPostsBefore(own, carrying.id, 0, 1);
  told.before = before.order[0] === reply.id;
  told.people = (await client.getProfilesByIds([me.id])).map((one) => one.username);
  told.channel = (await client.getChannel(shared)).type;

  const integration = { url: `${address}/none`, context: { value: "q" } };
  const actions = [{ id: "choice0", name: "Yes", type: "button", integration }];
  const asked = await client.createPost({ channel_id: own, message: "May I?", props: { attachments: [{ actions }] } });
  const shown = asked.props.attachments[0].actions[0];
  told.button = [shown.name, shown.integration === undefined];
  await wrong("press", () => client.doPostAction(asked.id, "choice0"));
  told.deleted = (await client.deletePost(reply.id)).status;
  await until(() => heard.some((one) => one.event === "post_deleted"), "post_deleted");

  await wrong("gone", () => client.patchPost({ id: reply.id, message: "x" }));
  await wrong("too long", () => client.createPost({ channel_id: own, message: "x".repeat(16384) }));
  await wrong("nowhere", () => client.createPost({ channel_id: "a".repeat(26), message: "x" }));
  await wrong("no thread", () => client.createPost({ channel_id: own, message: "x", root_id: "b".repeat(26) }));
  await wrong("too fast", () => client.createPost({ channel_id: shared, message: "x" }));
  const stranger = new Client4();
  stranger.setUrl(address);
  stranger.setToken("z".repeat(26));
  await wrong("wrong token", () => stranger.getMe());

  // A number left out: the client hangs up, and learns with the next hello that it missed something.
  told.quiet = [missed, closed];
  console.error("SKIP");
  await until(() => missed > 0, "a missing event noticed");
  told.missed = [missed, heard.filter((one) => one.event === "hello").length];
  socket.close();
  process.stdout.write(JSON.stringify(told));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
