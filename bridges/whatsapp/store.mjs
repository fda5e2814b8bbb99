// What the bridge keeps: one file of lines, each a batch of changes that is on disk before anything goes on.
// A line that a crash has torn counts as never written. Values are JSON, with bytes as Baileys spells them.
import fs from 'node:fs'
import { dirname } from 'node:path'
import { createHash } from 'node:crypto'
import { BufferJSON } from 'baileys'

const SLACK = 4 * 1024 * 1024

export const digest = data => createHash('sha256').update(data).digest('hex').slice(0, 40)

export class Store {
  #path
  #texts = new Map()
  #file
  #size = 0
  #live = 0

  constructor(path) {
    this.#path = path
    fs.mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const lines = fs.existsSync(path) ? fs.readFileSync(path, 'utf8').split('\n') : []
    for (const line of lines) {
      try {
        for (const [name, text] of JSON.parse(line)) this.#note(name, text)
      } catch {} // torn by a crash
    }
    this.#rewrite()
  }

  get(name) {
    const text = this.#texts.get(name)
    return text === undefined ? undefined : JSON.parse(text, BufferJSON.reviver)
  }

  names(prefix) {
    return [...this.#texts.keys()].filter(name => name.startsWith(prefix))
  }

  /** Changes that can be read at once, and are on disk with the next `put` that names them. */
  hold(pairs) {
    for (const [name, value] of pairs) this.#note(name, spell(value))
  }

  /** Changes that are on disk when this returns; `held` are names whose present values go with them. */
  put(pairs, held = []) {
    this.hold(pairs)
    const names = new Set([...held, ...pairs.map(([name]) => name)])
    const line = JSON.stringify([...names].map(name => [name, this.#texts.get(name) ?? null])) + '\n'
    fs.writeSync(this.#file, line)
    fs.fsyncSync(this.#file)
    this.#size += line.length
    if (this.#size > 2 * this.#live + SLACK) this.#rewrite()
  }

  #note(name, text) {
    const before = this.#texts.get(name)
    if (before !== undefined) this.#live -= name.length + before.length
    if (text === null) this.#texts.delete(name)
    else this.#texts.set(name, text)
    if (text !== null) this.#live += name.length + text.length
  }

  #rewrite() {
    const draft = `${this.#path}.new`
    const file = fs.openSync(draft, 'w', 0o600)
    this.#size = 0
    for (const pair of this.#texts) this.#size += fs.writeSync(file, JSON.stringify([pair]) + '\n')
    fs.fsyncSync(file)
    fs.renameSync(draft, this.#path)
    const folder = fs.openSync(dirname(this.#path), 'r')
    fs.fsyncSync(folder)
    fs.closeSync(folder)
    if (this.#file !== undefined) fs.closeSync(this.#file)
    this.#file = file
  }
}

function spell(value) {
  return value === null || value === undefined ? null : JSON.stringify(value, BufferJSON.replacer)
}
