"""Sends and receives messages with aioboto3 beside a broker that is killed."""
import asyncio
import os

import aioboto3
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

NUMBERS = int(os.environ["NUMBERS"])


async def again(call, **args):
    while True:
        try:
            return await call(**args)
        except (BotoCoreError, ClientError, HTTPClientError, OSError) as e:
            if isinstance(e, ClientError) and e.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                raise
            await asyncio.sleep(0.1)


async def send(sqs, url):
    for n in range(NUMBERS):
        m = await again(sqs.send_message, QueueUrl=url, MessageBody=str(n))
        print("sent", n, m["MessageId"], flush=True)


async def receive(sqs, url, done, name):
    while len(done) < NUMBERS:
        print("ask", name, flush=True)
        for m in (await again(sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=5, WaitTimeSeconds=1)).get("Messages", []):
            print("got", m["Body"], m["MessageId"], name, flush=True)
            await again(sqs.delete_message, QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
            print("done", m["Body"], m["MessageId"], flush=True)
            done.add(m["Body"])


async def main():
    async with aioboto3.Session().client("sqs", endpoint_url=os.environ["ENDPOINT"]) as sqs:
        url = (await sqs.create_queue(QueueName=os.environ["QUEUE"], Attributes={"VisibilityTimeout": "5"}))["QueueUrl"]
        done = set()
        await asyncio.gather(send(sqs, url), *(receive(sqs, url, done, n) for n in range(3)))


asyncio.run(main())
