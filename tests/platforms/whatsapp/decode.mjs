// Baileys encodes and decodes messages (a list in JSON on standard input), and prints what they are then.
const { proto } = await import(`${process.argv[2]}/node_modules/baileys/lib/index.js`)
let raw = ''
for await (const piece of process.stdin) raw += piece
const decoded = JSON.parse(raw).map(one => {
  const bytes = proto.WebMessageInfo.encode(proto.WebMessageInfo.fromObject({ key: one.key, message: one.message })).finish()
  return { ...one, message: proto.WebMessageInfo.decode(bytes).message }
})
console.log(JSON.stringify(decoded))
