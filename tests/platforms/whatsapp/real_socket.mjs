// The bridge with Baileys' real socket, connected to a server that never answers. Told `first`, a person's encrypted
// message comes in, and the process is killed the moment Baileys has told WhatsApp that it arrived, before anybody
// was handed it. Told `again`, it comes up as after a connection that was let in.
import { readFileSync } from 'node:fs'

const [, , folder, what] = process.argv
const { url, place } = JSON.parse(readFileSync(`${folder}/fake.json`, 'utf8'))
const baileys = await import(`${place}/node_modules/baileys/lib/index.js`)
const { run } = await import(`${place}/bridge.mjs`)
const { Store } = await import(`${place}/store.mjs`)
const { deviceKeys } = await import(`${place}/keys.mjs`)
globalThis.fetch = async () => { throw new Error('nobody else is asked') }
const BOB = '15550009999@s.whatsapp.net'
const ANN = '15551110001@s.whatsapp.net'
const LID = '88888000000001@lid'
const logger = { level: 'silent', child: () => logger, trace() {}, debug() {}, info() {}, warn() {}, error() {}, fatal() {} }

async function annsMessage(device, text) {
  const ann = deviceKeys(new Store(`${folder}/ann/device.jsonl`))
  const keys = baileys.addTransactionCapability(ann.keys, logger, { maxCommitRetries: 1, delayBetweenTriesMs: 1 })
  const repository = ann.makeSignalRepository({ creds: ann.creds, keys }, logger)
  const { creds } = device
  const session = {
    registrationId: creds.registrationId,
    identityKey: baileys.generateSignalPubKey(creds.signedIdentityKey.public),
    signedPreKey: {
      keyId: creds.signedPreKey.keyId, signature: creds.signedPreKey.signature,
      publicKey: baileys.generateSignalPubKey(creds.signedPreKey.keyPair.public)
    },
    preKey: undefined
  }
  await repository.injectE2ESession({ jid: BOB, session })
  const data = baileys.encodeWAMessage(baileys.proto.Message.fromObject({ conversation: text }))
  const { type, ciphertext } = await repository.encryptMessage({ jid: BOB, data })
  return {
    tag: 'message',
    attrs: { from: LID, sender_pn: ANN, id: 'AC0123456789', t: '1793000000', notify: 'Ann', type: 'text' },
    content: [{ tag: 'enc', attrs: { v: '2', type }, content: Buffer.from(ciphertext) }]
  }
}

function make(config) {
  const sock = baileys.default({ ...config, waWebSocketUrl: url.replace('http', 'ws') + '/silent' })
  const { socket } = sock.ws
  const send = socket.send.bind(socket)
  let frames = 0
  socket.send = (data, done) => send(data, async error => {
    done?.(error)
    frames += 1 // the first is the handshake's, the second the receipt
    if (what === 'again' && frames === 1) sock.ev.emit('connection.update', { connection: 'open' })
    if (what === 'first' && frames === 2) process.kill(process.pid, 'SIGKILL')
    if (what === 'first' && frames === 1) sock.ws.emit('CB:message', await annsMessage(config.auth, 'only once'))
  })
  return sock
}

if (what === 'first') {
  const device = deviceKeys(new Store(`${folder}/device.jsonl`))
  device.creds.me = { id: BOB, name: 'Hermes' }
  device.save()
}
run(folder, { make })
