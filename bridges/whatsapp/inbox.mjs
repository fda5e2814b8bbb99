// What comes in, from WhatsApp's stanza to the gateway's receipt. Baileys tells WhatsApp that a message has arrived
// before it hands it out, so a stanza is kept before Baileys sees it, the message takes its place in the same write,
// and it goes when the gateway has stored it. What a crash has left in either form comes again at the next start.
import { isJidGroup, isLidUser, jidNormalizedUser, proto } from 'baileys'
import { plainName } from './keys.mjs'
import { digest } from './store.mjs'

const MOST_TRIES = 5
const UNREADABLE = proto.WebMessageInfo.StubType.CIPHERTEXT
const DEEPEST = 24 // parts within parts; what people write has a quote in a wrapper or two
const BULKY = new Set(['jpegThumbnail', 'streamingSidecar', 'scansSidecar', 'waveform', 'midQualityFileSha256'])

const bare = jid => (jid ? jidNormalizedUser(jid) : '')
const named = (chat, participant, id) => digest([bare(chat), bare(participant), id].join('|'))
const nameOf = key => named(key.remoteJid, key.participant, key.id)
const nameOfStanza = ({ attrs }) => named(attrs.recipient ?? attrs.from, attrs.participant, attrs.id)

export class Inbox {
  #store
  #tell
  #order = Promise.resolve()

  constructor(store, tell) {
    this.#store = store
    this.#tell = tell
  }

  /** Hand over what an earlier life was not told to be stored. */
  tellLeft() {
    for (const name of this.#store.names('in:')) this.#hand(name)
  }

  /** Listen to a socket, before anybody else hears of a message. */
  attach(sock, groupOf) {
    sock.ws.prependListener('CB:message', node => {
      const name = `stanza:${nameOfStanza(node)}`
      this.#store.put([[name, { node, tries: (this.#store.get(name)?.tries ?? 0) + 1 }]])
    })
    sock.ev.on('messages.upsert', ({ messages, type }) => {
      for (const message of messages) {
        this.#order = this.#order.then(() => this.#take(sock, message, type, groupOf))
      }
    })
  }

  /** Let a connected socket read again what it had no time to read. */
  readAgain(sock) {
    for (const name of this.#store.names('stanza:')) {
      const { node, tries } = this.#store.get(name)
      if (tries > MOST_TRIES) this.#store.put([[name, null], ...this.#plain(node)])
      else sock.ws.emit('CB:message', node)
    }
  }

  stored(names) {
    this.#store.put(names.map(name => [`in:${name}`, null]))
  }

  async #take(sock, message, type, groupOf) {
    const name = nameOf(message.key)
    const stanza = this.#store.get(`stanza:${name}`)
    if (!stanza && type !== 'notify') return // of the history, or of ourselves
    const done = stanza ? [[`stanza:${name}`, null], ...this.#plain(stanza.node)] : []
    if (message.messageStubType === UNREADABLE || !message.message) {
      if (done.length) this.#store.put(done) // its sender is asked for it again
      return
    }
    cut(message.message, DEEPEST)
    const key = { ...message.key }
    key.remoteJidAlt ??= await phoneOf(sock, key.remoteJid)
    key.participantAlt ??= await phoneOf(sock, key.participant)
    const group = isJidGroup(key.remoteJid) ? await groupOf(key.remoteJid) : undefined
    const told = {
      key,
      message: proto.Message.decode(proto.Message.encode(message.message).finish()),
      messageTimestamp: Number(message.messageTimestamp),
      pushName: message.pushName,
      groupName: group?.subject,
      byAdmin: group?.participants.some(one => one.admin && isOneOf(one, key))
    }
    this.#store.put([[`in:${name}`, JSON.stringify(told, slim)], ...done])
    this.#hand(`in:${name}`)
  }

  #plain(node) {
    const parts = Array.isArray(node.content) ? node.content : []
    return parts.filter(one => one.content instanceof Uint8Array).map(one => [plainName(one.content), null])
  }

  #hand(name) {
    this.#tell({ event: 'message', name: name.slice(3), message: JSON.parse(this.#store.get(name)) })
  }
}

function slim(name, value) {
  return BULKY.has(name) ? undefined : value
}

/** Nobody's quotes of quotes may be deeper than whoever reads them next can follow. */
function cut(part, levels) {
  for (const [name, inner] of Object.entries(part)) {
    if (inner === null || typeof inner !== 'object' || inner instanceof Uint8Array) continue
    if (levels) cut(inner, levels - 1)
    else delete part[name]
  }
}

function isOneOf(member, { participant, participantAlt }) {
  const writer = [participant, participantAlt].filter(Boolean).map(bare)
  return [member.id, member.lid, member.phoneNumber].some(jid => jid && writer.includes(bare(jid)))
}

async function phoneOf(sock, jid) {
  if (!isLidUser(jid)) return undefined
  return (await sock.signalRepository.lidMapping.getPNForLID(jid).catch(() => null)) ?? undefined
}
