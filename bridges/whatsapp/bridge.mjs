// Lends the gateway a personal WhatsApp account: a linked device of Baileys, spoken to in lines of JSON over standard
// input and output. It ends with its standard input, so never outlives the gateway. A connection that is lost is
// made again at once; one that cannot be made, or is lost too often, ends the bridge, and the gateway decides when
// to begin again.
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import makeWASocket, {
  Browsers, DEFAULT_CONNECTION_CONFIG, DisconnectReason, fetchLatestWaWebVersion, jidNormalizedUser, proto
} from 'baileys'
import qrcode from 'qrcode-terminal'
import { Calls, failure } from './calls.mjs'
import { Inbox } from './inbox.mjs'
import { deviceKeys } from './keys.mjs'
import { Store } from './store.mjs'

const ALIVE = 30_000
const MOST_LOST = 5 // in a minute
const VERSION_PATIENCE = 8_000
const SILENT = { level: 'silent', child: () => SILENT }
for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) SILENT[level] = () => {}

/** WhatsApp stops taking an old version of its web client after some months (Baileys #2376, #2679, #2731). */
async function newestVersion(store) {
  const { version, isLatest } = await fetchLatestWaWebVersion({ signal: AbortSignal.timeout(VERSION_PATIENCE) })
  const known = [DEFAULT_CONNECTION_CONFIG.version, store.get('version'), isLatest && version].filter(Boolean)
  const newest = known.reduce((one, other) => (other.at(-1) > one.at(-1) ? other : one))
  if (isLatest) store.put([['version', newest]])
  return newest
}

export function run(folder, { login = false, make = makeWASocket } = {}) {
  process.umask(0o077)
  // A library that prints would break the lines; one of Baileys' prints keys.
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) console[level] = () => {}
  const tell = content => process.stdout.write(JSON.stringify(content) + '\n')
  const store = new Store(`${folder}/device.jsonl`)
  const device = deviceKeys(store)
  const inbox = new Inbox(store, tell)
  const groups = new Map()
  let lost = []
  const calls = new Calls(store, SILENT)

  const end = (code, why) => {
    // The pipe may still hold lines; leave when they are out.
    process.stdout.write(JSON.stringify({ event: 'closed', code, why }) + '\n', () => process.exit(0))
  }
  const whoWeAre = () => {
    const { id, lid } = device.creds.me ?? {}
    return { id: id ? jidNormalizedUser(id) : '', lid: lid ? jidNormalizedUser(lid) : '' }
  }
  const groupOf = (sock, jid) => {
    if (!groups.has(jid)) groups.set(jid, sock.groupMetadata(jid).catch(() => (groups.delete(jid), undefined)))
    return groups.get(jid)
  }

  function connect(version) {
    const sock = make({
      version,
      auth: { creds: device.creds, keys: device.keys },
      logger: SILENT,
      browser: Browsers.ubuntu('Hermes'),
      makeSignalRepository: device.makeSignalRepository,
      markOnlineOnConnect: false, // the phone goes on showing notifications
      emitOwnEvents: false,
      syncFullHistory: false,
      shouldSyncHistoryMessage: () => false,
      cachedGroupMetadata: async jid => groups.get(jid),
      getMessage: async key => {
        const sent = store.get(`sent:${key.id}`)
        return sent?.message && proto.Message.decode(sent.message)
      }
    })
    let opened = false
    const beat = setInterval(() => opened && sock.ws.isOpen && tell({ event: 'alive' }), ALIVE)
    inbox.attach(sock, jid => groupOf(sock, jid))
    sock.ev.on('creds.update', device.save)
    for (const event of ['groups.update', 'groups.upsert', 'group-participants.update']) {
      sock.ev.on(event, () => groups.clear())
    }
    sock.ev.on('connection.update', ({ connection, qr, lastDisconnect }) => {
      if (qr && !login) end(DisconnectReason.loggedOut, 'no device is linked')
      else if (qr) qrcode.generate(qr, { small: true }, drawing => tell({ event: 'qr', drawing }))
      if (connection === 'open') {
        opened = true
        tell({ event: 'open', ...whoWeAre() })
        calls.open(sock)
        inbox.readAgain(sock)
      }
      if (connection === 'close') {
        const { statusCode, message } = failure(lastDisconnect?.error)
        calls.close()
        clearInterval(beat)
        lost = [...lost.filter(at => at > Date.now() - 60_000), Date.now()]
        if (statusCode === DisconnectReason.loggedOut) device.forget()
        const passing = ![DisconnectReason.loggedOut, DisconnectReason.forbidden,
          DisconnectReason.multideviceMismatch, DisconnectReason.connectionReplaced].includes(statusCode)
        if (statusCode === DisconnectReason.restartRequired || (opened && passing && lost.length <= MOST_LOST)) connect(version)
        else end(statusCode, message)
      }
    })
  }

  createInterface({ input: process.stdin }).on('line', async line => {
    const { id, do: what, ...asked } = JSON.parse(line)
    if (what === 'stored') return inbox.stored(asked.names)
    if (what === 'read') return void calls.read(asked).catch(() => {})
    tell({ id, ...(await calls.answer(what, asked)) })
  }).on('close', () => process.exit(0))
  calls.forgetOld()
  tell({ event: 'me', ...whoWeAre() })
  inbox.tellLeft()
  newestVersion(store).then(connect)
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) run(process.argv[2], { login: process.argv[3] === 'login' })
