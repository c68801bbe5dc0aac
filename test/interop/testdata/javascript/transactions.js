// Transactions of kafkajs: commit, abort, neither with records, two topics, offsets, a fenced producer and a timeout.
const { Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  brokers: [process.env.BROKER],
  logLevel: logLevel.NOTHING,
  sasl: { mechanism: 'scram-sha-512', username: 'seb', password: process.env.KEY },
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 40 },
})
const prefix = process.argv[2]
const groupId = prefix + 'group'
const admin = kafka.admin()
const plain = kafka.producer()

function same(what, got, wanted) {
  if (String(got) !== String(wanted)) throw new Error(`${what}: ${got}, want ${wanted}`)
}

async function create(name) {
  await admin.createTopics({ topics: [{ topic: prefix + name, numPartitions: 1 }] })
  return prefix + name
}

async function transactional(name, timeout) {
  const p = kafka.producer({ transactionalId: prefix + name, maxInFlightRequests: 1, idempotent: true, transactionTimeout: timeout || 60000 })
  await p.connect()
  return p
}

// The values of a topic until "end" came a number of times.
async function read(topic, readUncommitted, ends = 1) {
  const consumer = kafka.consumer({ groupId: `${topic}-${readUncommitted}-${ends}`, readUncommitted, sessionTimeout: 10000, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const got = []
  await new Promise((resolve) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        const value = message.value.toString()
        if (value !== 'end') got.push(value)
        else if (--ends === 0) resolve()
      },
    })
  })
  await consumer.disconnect()
  return got
}

async function refused(what, action) {
  try {
    await action()
  } catch (err) {
    return
  }
  throw new Error(what + ': no error')
}

const end = (topic) => plain.send({ topic, messages: [{ value: 'end' }] })

async function ends() {
  const one = await create('one')
  const two = await create('two')
  const p = await transactional('ends')
  for (let n = 0; n < 6; n++) {
    const t = await p.transaction()
    await t.send({ topic: one, messages: [{ value: 'a' + n }, { value: 'b' + n }] })
    await t.send({ topic: two, messages: [{ value: 'c' + n }] })
    if (n % 3 === 1) await t.abort()
    else await t.commit()
  }
  await (await p.transaction()).commit() // neither has records
  await (await p.transaction()).abort()
  await p.disconnect()
  await end(one)
  await end(two)
  same('committed', await read(one, false), 'a0,b0,a2,b2,a3,b3,a5,b5')
  same('all', await read(one, true), 'a0,b0,a1,b1,a2,b2,a3,b3,a4,b4,a5,b5')
  same('the second topic', await read(two, false), 'c0,c2,c3,c5')
  console.log('commit, abort, empty, two topics')
}

async function offsets() {
  const topic = await create('in')
  const p = await transactional('offsets')
  for (const [offset, commit, want] of [['1', true, '1'], ['2', false, '1'], ['3', true, '3']]) {
    const t = await p.transaction()
    await t.send({ topic, messages: [{ value: 'x' + offset }] })
    await t.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset }] }] })
    if (commit) await t.commit()
    else await t.abort()
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    same('the committed offset', partitions[0].offset, want)
  }
  await p.disconnect()
  await end(topic)
  same('committed', await read(topic, false), 'x1,x3')
  console.log('offsets')
}

async function fencing() {
  const topic = await create('fenced')
  const old = await transactional('fenced')
  const first = await old.transaction()
  await first.send({ topic, messages: [{ value: 'old' }] })
  const now = await transactional('fenced')
  const second = await now.transaction()
  await second.send({ topic, messages: [{ value: 'new' }] })
  await refused('commit of a fenced producer', () => first.commit())
  await second.commit()
  await now.disconnect()
  await end(topic)
  same('committed', await read(topic, false), 'new')
  console.log('fencing')
}

async function timeout() {
  const topic = await create('timeout')
  const p = await transactional('timeout', 1000)
  const t = await p.transaction()
  await t.send({ topic, messages: [{ value: 'late' }] })
  await end(topic)
  same('after the timeout', await read(topic, false), '')
  await refused('a commit after the timeout', () => t.commit())
  console.log('timeout')
}

async function main() {
  await admin.connect()
  await plain.connect()
  for (const scene of [ends, offsets, fencing, timeout]) await scene()
  process.exit(0)
}

main().catch((err) => {
  console.error(err)
  process.exit(1)
})
