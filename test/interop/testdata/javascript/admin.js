// The admin of kafkajs resets a group to either end of a topic, and a consumer reads from there.
const { Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  brokers: [process.env.BROKER],
  logLevel: logLevel.ERROR,
  sasl: { mechanism: 'scram-sha-512', username: 'seb', password: process.env.KEY },
})
const topic = 'plants'
const groupId = 'gardeners'

async function read(fromBeginning, count) {
  const consumer = kafka.consumer({ groupId, rebalanceTimeout: 10000, sessionTimeout: 10000 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning })
  const got = []
  const all = new Promise((resolve) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        got.push(message.value.toString())
        if (got.length === count) resolve()
      },
    })
  })
  await all
  await consumer.disconnect()
  return got.join(' ')
}

function want(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what}: ${got}, want ${wanted}`)
  console.log(what)
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'rose' }, { value: 'lily' }] })
  want('read', await read(true, 2), 'rose lily')

  for (const [earliest, offset, count, records] of [[true, '-2', 3, 'rose lily tulip'], [false, '-1', 0, '']]) {
    await admin.resetOffsets({ groupId, topic, earliest })
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    want(`reset to ${earliest ? 'the earliest' : 'the latest'}`, partitions[0].offset, offset)
    if (count === 0) continue
    await producer.send({ topic, messages: [{ value: 'tulip' }] })
    want('read after it', await read(true, count), records)
  }
  await producer.disconnect()
  await admin.disconnect()
}

main().catch((err) => {
  console.error(err)
  process.exit(1)
})
