// Sends messages with @aws-sdk/client-sqs and receives them, with the same or with sqs-consumer (CONSUMER=1), beside a
// broker that is killed.
const assert = require('node:assert')
const sdk = require('@aws-sdk/client-sqs')

const numbers = Number(process.env.NUMBERS)
const name = process.env.QUEUE
const sqs = new sdk.SQSClient({ endpoint: process.env.ENDPOINT })
const call = (kind, args) => sqs.send(new sdk[kind + 'Command'](args))
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const done = new Set()

async function again (kind, args) {
  for (;;) {
    try {
      return await call(kind, args)
    } catch (e) {
      const status = e.$metadata?.httpStatusCode
      if (status && status < 500) throw e
      await sleep(100)
    }
  }
}

async function tour () {
  let url = (await call('CreateQueue', { QueueName: name + '.fifo', Attributes: { FifoQueue: 'true', ContentBasedDeduplication: 'true' } })).QueueUrl
  for (const body of ['1', '1', '2']) await call('SendMessage', { QueueUrl: url, MessageBody: body, MessageGroupId: 'g' })
  for (const body of ['1', '2']) {
    const [m] = (await call('ReceiveMessage', { QueueUrl: url, WaitTimeSeconds: 5, MessageSystemAttributeNames: ['All'] })).Messages
    assert.equal(m.Body, body)
    assert.equal(m.Attributes.MessageGroupId, 'g')
    await call('DeleteMessage', { QueueUrl: url, ReceiptHandle: m.ReceiptHandle })
  }
  url = (await call('CreateQueue', { QueueName: name, Attributes: { VisibilityTimeout: '30' } })).QueueUrl
  const attributes = { n: { DataType: 'Number.int', StringValue: '7' }, b: { DataType: 'Binary', BinaryValue: new Uint8Array([0, 255]) } }
  await call('SendMessage', { QueueUrl: url, MessageBody: '<ü>', MessageAttributes: attributes })
  let [m] = (await call('ReceiveMessage', { QueueUrl: url, WaitTimeSeconds: 5, MessageAttributeNames: ['All'] })).Messages
  assert.equal(m.Body, '<ü>')
  assert.equal(m.MessageAttributes.n.StringValue, '7')
  assert.deepEqual([...m.MessageAttributes.b.BinaryValue], [0, 255])
  await call('ChangeMessageVisibility', { QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0 })
  ;[m] = (await call('ReceiveMessage', { QueueUrl: url, WaitTimeSeconds: 5, AttributeNames: ['ApproximateReceiveCount'] })).Messages
  assert.equal(m.Attributes.ApproximateReceiveCount, '2')
  await call('DeleteMessageBatch', { QueueUrl: url, Entries: [{ Id: 'a', ReceiptHandle: m.ReceiptHandle }] })
  await call('SetQueueAttributes', { QueueUrl: url, Attributes: { VisibilityTimeout: '5' } })
  await assert.rejects(call('GetQueueUrl', { QueueName: 'missing' }), e => e instanceof sdk.QueueDoesNotExist && e.name === 'QueueDoesNotExist')
  console.log('tour')
  return url
}

async function send (url) {
  for (let first = 0; first < numbers; first += 10) {
    const entries = Array.from({ length: 10 }, (_, i) => ({ Id: String(first + i), MessageBody: String(first + i) }))
    for (const m of (await again('SendMessageBatch', { QueueUrl: url, Entries: entries })).Successful) console.log('sent', m.Id, m.MessageId)
  }
}

async function receive (url, name) {
  while (done.size < numbers) {
    console.log('ask', name)
    for (const m of (await again('ReceiveMessage', { QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 })).Messages ?? []) {
      console.log('got', m.Body, m.MessageId, name)
      await again('DeleteMessage', { QueueUrl: url, ReceiptHandle: m.ReceiptHandle })
      console.log('done', m.Body, m.MessageId)
      done.add(m.Body)
    }
  }
}

async function consume (url) {
  const { Consumer } = require('sqs-consumer')
  const consumer = Consumer.create({
    queueUrl: url, sqs, batchSize: 10, waitTimeSeconds: 1, pollingCompleteWaitTimeMs: 0,
    handleMessage: async m => {
      console.log('got', m.Body, m.MessageId)
      return m
    }
  })
  for (const event of ['error', 'processing_error']) consumer.on(event, e => console.error(event, e.message))
  consumer.on('message_processed', m => {
    console.log('done', m.Body, m.MessageId)
    done.add(m.Body)
  })
  consumer.start()
  while (done.size < numbers) await sleep(50)
  consumer.stop()
}

(async () => {
  const url = await tour()
  const receivers = process.env.CONSUMER ? [consume(url)] : [1, 2, 3].map(name => receive(url, name))
  await Promise.all([send(url), ...receivers])
})().catch(e => {
  console.error(e)
  process.exit(1)
})
