// The keys of the linked device, and decryption that can be repeated. WhatsApp's encryption moves its keys on with
// each message, so what was decrypted once cannot be decrypted again: the words go to disk in the same write as
// the moved keys, and a message that comes again after a crash is answered from there.
import { AsyncLocalStorage } from 'node:async_hooks'
import { DEFAULT_CONNECTION_CONFIG, initAuthCreds, proto } from 'baileys'
import { digest } from './store.mjs'

const PATIENCE = 2000

export const plainName = ciphertext => `plain:${digest(ciphertext)}`

export function deviceKeys(store) {
  const decrypting = new AsyncLocalStorage()
  const open = new Map() // name of a key → the decryption that has moved it and is not on disk yet
  const creds = store.get('creds') ?? initAuthCreds()

  const keys = {
    get: async (type, ids) => {
      const found = {}
      for (const id of ids) {
        let value = store.get(`key:${type}:${id}`)
        if (type === 'app-state-sync-key' && value) value = proto.Message.AppStateSyncKeyData.fromObject(value)
        if (value !== undefined) found[id] = value
      }
      return found
    },
    set: async data => {
      const pairs = Object.entries(data).flatMap(([type, values]) =>
        Object.entries(values).map(([id, value]) => [`key:${type}:${id}`, value]))
      const mine = decrypting.getStore()
      if (mine && !mine.over) {
        store.hold(pairs)
        for (const [name] of pairs) open.set(name, mine)
        return
      }
      const waited = pairs.map(([name]) => open.get(name)?.done).filter(Boolean)
      if (waited.length) await Promise.race([Promise.all(waited), new Promise(go => setTimeout(go, PATIENCE).unref())])
      store.put(pairs)
    }
  }

  async function once(ciphertext, decrypt) {
    const name = plainName(ciphertext)
    const known = store.get(name)
    if (known) return known
    const mine = { over: false }
    mine.done = new Promise(end => { mine.end = end })
    let words = []
    try {
      const plain = await decrypting.run(mine, decrypt)
      words = [[name, Buffer.from(plain)]]
      return plain
    } finally {
      mine.over = true
      const held = [...open].filter(([, one]) => one === mine).map(([key]) => key)
      if (held.length || words.length) store.put(words, held)
      for (const key of held) open.delete(key)
      mine.end()
    }
  }

  /** Baileys' own repository, whose decryption survives a crash. */
  function makeSignalRepository(...around) {
    const inner = DEFAULT_CONNECTION_CONFIG.makeSignalRepository(...around)
    return {
      ...inner,
      decryptMessage: asked => once(asked.ciphertext, () => inner.decryptMessage(asked)),
      decryptGroupMessage: asked => once(asked.msg, () => inner.decryptGroupMessage(asked))
    }
  }

  const save = () => store.put([['creds', creds]])
  const forget = () => store.put([['creds', null], ...store.names('key:').map(name => [name, null])])
  return { creds, keys, makeSignalRepository, save, forget }
}
