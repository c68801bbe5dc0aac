const { Kafka } = require('kafkajs')

const kafka = new Kafka({
  brokers: [process.env.BROKER],
  sasl: { mechanism: 'scram-sha-512', username: 'seb', password: process.env.KEY },
})

async function main() {
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  await producer.send({
    topic: 'plants',
    messages: [
      { key: 'rose', value: 'red', headers: { from: 'javascript' } },
      { key: 'lily', value: 'white' },
    ],
  })
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: 'gardeners' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['plants'], fromBeginning: true })
  let left = 2
  await consumer.run({
    eachMessage: async ({ message }) => {
      console.log(`${message.key} is ${message.value} at ${message.offset}`)
      if (--left === 0) setTimeout(() => consumer.disconnect())
    },
  })
}

main()
