// Sends the events of a file, or prints the answer to a query.
// usage: client.js send FILE | query TEXT    (environment: PORT)
const fs = require('fs')
const riemann = require('riemann')

const [command, argument] = process.argv.slice(2)
const client = riemann.createClient({ host: '127.0.0.1', port: process.env.PORT })

// answer sends a payload over TCP and returns the answer.
function answer(payload) {
  return new Promise((resolve) => {
    client.once('data', resolve)
    client.send(payload, client.tcp)
  })
}

async function main() {
  if (command === 'query') {
    const { events } = await answer(client.Query({ string: argument }))
    for (const e of events) {
      // An absent field is that of the prototype.
      const kind = ['metricSint64', 'metricD', 'metricF'].find((k) => Object.hasOwn(e, k))
      const { host, service, state, description, tags, ttl } = e
      const attributes = Object.fromEntries(e.attributes.map((a) => [a.key, a.value]))
      console.log(JSON.stringify({ host, service, state, description, tags, ttl, attributes, time: Number(e.time), metric: e[kind].toString() }))
    }
  } else {
    for (const line of fs.readFileSync(argument, 'utf8').trim().split('\n')) {
      const { kind, metric, attributes, ...e } = JSON.parse(line)
      e[{ sint64: 'metricSint64', d: 'metricD', f: 'metricF' }[kind]] = kind === 'sint64' ? metric : Number(metric)
      e.attributes = Object.entries(attributes).map(([key, value]) => ({ key, value }))
      const { ok, error } = await answer(client.Event(e))
      if (!ok) throw new Error(`not acknowledged: ${error}`)
    }
  }
  client.disconnect()
}

client.on('error', (err) => { throw err })
client.once('connect', () => {
  main().catch((err) => {
    console.error(err)
    process.exit(1)
  })
})
