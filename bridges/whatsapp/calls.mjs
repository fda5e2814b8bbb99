// What the gateway may ask for. A message has the id that the gateway made for it: one that WhatsApp has taken is
// not sent again, and one whose fate is unknown goes out again under the same id, which apps show once.
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { downloadMediaMessage, isPnUser, proto } from 'baileys'

const DAY = 24 * 3600 * 1000
const REMEMBERED = 7 * DAY
const EDITABLE = 14 * 60 * 1000 // WhatsApp's apps ignore edits after 15 minutes
const MOST_FETCHED = 100 * 1024 * 1024
const PATIENCE = 40_000

class Refusal extends Error {
  constructor(kind, why) {
    super(why)
    this.kind = kind
  }
}

/** The number and the words of an error of Baileys'. */
export function failure(error) {
  const statusCode = error?.output?.statusCode ?? error?.data ?? error?.status
  return { statusCode: Number(statusCode) || 0, message: String(error?.message ?? error ?? 'no reason given') }
}

export class Calls {
  #store
  #logger
  #acks = new Map()
  #there = new Map()
  #sock
  #isOpen

  constructor(store, logger) {
    this.#store = store
    this.#logger = logger
    this.#await()
  }

  #await() {
    this.ready = new Promise(go => { this.#isOpen = go })
  }

  open(sock) {
    this.#sock = sock
    sock.ws.on('CB:ack,class:message', ({ attrs }) => this.#acks.get(attrs.id)?.(attrs.error ?? ''))
    this.#isOpen()
  }

  close() {
    if (this.#sock) this.#await()
    this.#sock = undefined
    for (const settle of [...this.#acks.values()]) settle('lost')
  }

  /** Forget messages that nobody will send again or ask for. */
  forgetOld() {
    const old = this.#store.names('sent:').filter(name => this.#store.get(name).at < Date.now() - REMEMBERED)
    if (old.length) this.#store.put(old.map(name => [name, null]))
  }

  async answer(what, asked) {
    try {
      await this.ready
      const call = { send: 'send', edit: 'edit', delete: 'delete', react: 'react', typing: 'typing', fetch: 'fetch' }[what]
      if (!call) throw new Refusal('refused', `the bridge knows no “${what}”`)
      return { result: (await this[call](asked)) ?? {} }
    } catch (error) {
      if (error instanceof Refusal) return { error: { kind: error.kind, why: error.message } }
      const { statusCode, message } = failure(error)
      const kind = statusCode === 429 ? 'slower' : [401, 403, 404, 406].includes(statusCode) ? 'refused' : 'doubtful'
      return { error: { kind, why: message } }
    }
  }

  async send({ to, message, text, file, quote }) {
    if (this.#store.get(`sent:${message}`)) return
    const content = file ? { ...mediaOf(file), ...(text ? { caption: text } : {}) } : { text, linkPreview: null }
    const quoted = quote && { key: quote.key, message: { conversation: quote.text } }
    const sent = await this.#relay(to, () => content, { messageId: message, quoted })
    const kept = Buffer.from(proto.Message.encode(sent.message).finish())
    this.#store.put([[`sent:${message}`, { at: Date.now(), message: kept }]])
  }

  async edit({ to, target, text }) {
    const sent = this.#store.get(`sent:${target}`)
    if (!sent || sent.gone) throw new Refusal('refused', 'the message is gone')
    if (sent.at < Date.now() - EDITABLE) throw new Refusal('refused', 'WhatsApp takes edits for 15 minutes')
    await this.#relay(to, jid => ({ text, edit: { remoteJid: jid, fromMe: true, id: target }, linkPreview: null }))
  }

  async delete({ to, target }) {
    await this.#relay(to, jid => ({ delete: { remoteJid: jid, fromMe: true, id: target } }))
    const sent = this.#store.get(`sent:${target}`)
    if (sent) this.#store.put([[`sent:${target}`, { ...sent, gone: true }]])
  }

  async react({ to, key, emoji }) {
    await this.#relay(to, jid => ({ react: { key: { ...key, remoteJid: jid }, text: emoji } }))
  }

  async typing({ to }) {
    await this.#sock.sendPresenceUpdate('composing', await this.#find(to))
  }

  async read({ keys }) {
    await this.#sock.readMessages(keys)
  }

  async fetch({ path, message }) {
    const whole = { ...message, message: proto.Message.fromObject(message.message) }
    const around = { logger: this.#logger, reuploadRequest: one => this.#sock.updateMediaMessage(one) }
    const stream = await downloadMediaMessage(whole, 'stream', {}, around).catch(error => {
      const { statusCode, message: why } = failure(error)
      throw statusCode >= 500 || !statusCode ? new Refusal('doubtful', why) : new Refusal('refused', 'the file is gone')
    })
    let size = 0
    const limit = new Transform({
      transform: (piece, _, next) => {
        size += piece.length
        next(size > MOST_FETCHED ? new Refusal('refused', 'the file is too large') : null, piece)
      }
    })
    await pipeline(Readable.from(stream), limit, fs.createWriteStream(path, { mode: 0o600 }))
  }

  /** Who has a number; asked once for each. Some have another one for WhatsApp, without Brazil's ninth digit say. */
  async #find(jid) {
    if (!isPnUser(jid)) return jid
    if (!this.#there.has(jid)) {
      const found = await this.#sock.onWhatsApp(jid)
      if (found?.length === 0 || found?.[0]?.exists === false) throw new Refusal('refused', 'nobody has that number on WhatsApp')
      this.#there.set(jid, isPnUser(found?.[0]?.jid) ? found[0].jid : jid)
    }
    return this.#there.get(jid)
  }

  /** Send something, and wait until WhatsApp says that it took it. */
  async #relay(to, contentFor, { messageId = ownId(), ...options } = {}) {
    const jid = await this.#find(to)
    let timer
    const acknowledged = new Promise(go => {
      timer = setTimeout(() => go('lost'), PATIENCE)
      this.#acks.set(messageId, go)
    })
    try {
      const sent = await this.#sock.sendMessage(jid, contentFor(jid), { messageId, ...options })
      const answer = await acknowledged
      if (answer) throw refusal(answer)
      return sent
    } finally {
      clearTimeout(timer)
      this.#acks.delete(messageId)
    }
  }
}

function refusal(code) {
  if (code === 'lost') return new Refusal('doubtful', 'the connection to WhatsApp was lost')
  if (code === '429') return new Refusal('slower', 'too many messages (429)')
  if (code === '463') return new Refusal('refused', 'WhatsApp does not let this account begin chats now (463)')
  if (code.startsWith('5')) return new Refusal('doubtful', `WhatsApp has a fault of its own (${code})`)
  return new Refusal('refused', `WhatsApp does not take it (${code})`)
}

function mediaOf({ kind, path, mime, name }) {
  const mimetype = mime ?? undefined
  switch (kind) {
    case 'image': return { image: { url: path }, mimetype }
    case 'video': return { video: { url: path }, mimetype }
    case 'audio': return { audio: { url: path }, mimetype }
    case 'voice': return { audio: { url: path }, mimetype: 'audio/ogg; codecs=opus', ptt: true }
    case 'sticker': return { sticker: { url: path }, mimetype }
    default: return { document: { url: path }, mimetype: mimetype ?? 'application/octet-stream', fileName: name }
  }
}

const ownId = () => '3EB0' + randomBytes(9).toString('hex').toUpperCase()
