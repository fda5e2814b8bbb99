// Baileys' socket, as a fake that tests hand to the bridge: instead of WhatsApp it speaks to a server of the tests.
// Everything around the socket is Baileys' own: messages are generated, encoded, encrypted and fetched by it. Like
// Baileys it sends the receipt of a message before it hands the message out.
import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

const folder = process.argv[2]
const { url, place } = JSON.parse(readFileSync(`${folder}/fake.json`, 'utf8'))
const baileys = await import(`${place}/node_modules/baileys/lib/index.js`)
const { WebSocket } = await import(`${place}/node_modules/ws/wrapper.mjs`)
const { run } = await import(`${place}/bridge.mjs`)
const { proto, generateWAMessage, downloadMediaMessage, jidNormalizedUser } = baileys
const HOST = 'https://mmg.whatsapp.net'
const real = globalThis.fetch
const WEB = 'https://web.whatsapp.com'
globalThis.fetch = (address, ...more) => real(String(address).replace(HOST, url).replace(WEB, url), ...more)

function make(config) {
  const { creds } = config.auth
  const ws = Object.assign(new EventEmitter(), { isOpen: true })
  const ev = new EventEmitter()
  const link = new WebSocket(url.replace('http', 'ws') + '/ws')
  const say = told => link.readyState === WebSocket.OPEN && link.send(JSON.stringify(told))
  let why = { code: 428, why: 'Connection Terminated' }
  let facts = {}

  ws.on('CB:message', async ({ attrs, content }) => {
    await new Promise(setImmediate)
    say({ receipt: attrs.id })
    await new Promise(setImmediate)
    const key = {
      remoteJid: jidNormalizedUser(attrs.recipient ?? attrs.from), remoteJidAlt: attrs.alt, id: attrs.id,
      participant: jidNormalizedUser(attrs.participant), participantAlt: attrs.participant_alt,
      fromMe: attrs.mine === 'true'
    }
    const message = proto.Message.decode(content[0].content)
    ev.emit('messages.upsert', {
      type: attrs.offline ? 'append' : 'notify',
      messages: [{ key, message, messageTimestamp: Number(attrs.t), pushName: attrs.notify }]
    })
  })
  link.on('message', data => {
    const told = JSON.parse(data)
    if (told.facts) facts = told.facts
    if (told.open) {
      creds.me ??= { id: '', name: '' }
      Object.assign(creds.me, facts.me)
      ev.emit('connection.update', { connection: 'open' })
    }
    if (told.qr) ev.emit('connection.update', { qr: told.qr })
    if (told.paired) {
      creds.me = facts.me
      ev.emit('creds.update', { me: facts.me })
      why = { code: 515, why: 'Stream Errored (restart required)' }
      link.close()
    }
    if (told.stanza) {
      const { message, ...attrs } = told.stanza
      const content = typeof message === 'string'
        ? Buffer.from(message, 'base64')
        : proto.Message.encode(proto.Message.fromObject(message)).finish()
      ws.emit('CB:message', { tag: 'message', attrs, content: [{ tag: 'enc', attrs: { type: 'msg' }, content }] })
    }
    if (told.seen) ws.emit('seen')
    if (told.ack) ws.emit('CB:ack,class:message', { attrs: told.ack })
    if (told.close) { why = told.close; link.close() }
  })
  link.on('open', () => say({ hello: Boolean(creds.me), version: config.version }))
  link.on('error', () => {})
  link.on('close', () => {
    ws.isOpen = false
    const error = Object.assign(new Error(why.why), { output: { statusCode: why.code } })
    ev.emit('connection.update', { connection: 'close', lastDisconnect: { error } })
  })

  async function upload(path) {
    const answer = await real(`${url}/upload`, { method: 'POST', body: await readFile(path) })
    return await answer.json()
  }

  async function sendMessage(jid, content, options) {
    const message = await generateWAMessage(jid, content, {
      userJid: creds.me.id, upload, logger: config.logger, options: {}, ...options
    })
    const plain = proto.Message.decode(proto.Message.encode(message.message).finish())
    const kind = Object.keys(plain).find(name => plain[name]?.mediaKey)
    const file = kind && (await downloadMediaMessage({ key: message.key, message: plain }, 'buffer', {}))
    say({ send: { id: message.key.id, jid, message: plain, file: file?.toString('base64') } })
    return message
  }

  return {
    ws, ev, sendMessage, user: creds.me,
    sendPresenceUpdate: (state, jid) => new Promise(go => {
      ws.once('seen', go)
      say({ presence: [state, jid] })
    }),
    readMessages: async keys => say({ read: keys }),
    onWhatsApp: async jid => [{ jid: facts.proper?.[jid] ?? jid, exists: !facts.missing?.includes(jid) }],
    groupMetadata: async id => ({ id, subject: 'The family', participants: (facts.admins ?? []).map(jid => ({ id: jid, admin: 'admin' })) }),
    updateMediaMessage: async message => message,
    signalRepository: { lidMapping: { getPNForLID: async lid => facts.phones?.[lid] ?? null } }
  }
}

run(folder, { login: process.argv[3] === 'login', make })
