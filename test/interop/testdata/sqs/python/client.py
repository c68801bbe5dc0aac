"""Uses the SQS API with boto3, also of early 2023, and then sends and receives messages beside a broker that is killed."""
import os
import threading
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

NUMBERS = int(os.environ["NUMBERS"])
sqs = boto3.client("sqs", endpoint_url=os.environ["ENDPOINT"])


lock = threading.Lock()


def say(*words):
    with lock:
        print(*words, flush=True)


def tour(name):
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"})["QueueUrl"]
    for body in ["1", "1", "2"]:
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
    for body in ["1", "2"]:
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, WaitTimeSeconds=5, AttributeNames=["All"])["Messages"][0]
        assert got["Body"] == body and got["Attributes"]["MessageGroupId"] == "g", got
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url and url.startswith(os.environ["ENDPOINT"] + "/"), url
    attributes = {"n": {"DataType": "Number.int", "StringValue": "7"}, "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    sqs.send_message(QueueUrl=url, MessageBody="<ü>", MessageAttributes=attributes)
    got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MessageAttributeNames=["All"])["Messages"][0]
    assert got["Body"] == "<ü>" and got["MessageAttributes"] == attributes, got
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0)
    got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, AttributeNames=["ApproximateReceiveCount"])["Messages"][0]
    assert got["Attributes"] == {"ApproximateReceiveCount": "2"}, got
    sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": got["ReceiptHandle"]}])
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"] == {"VisibilityTimeout": "5"}
    try:
        sqs.get_queue_url(QueueName="missing")
        raise SystemExit("a queue that does not exist has a URL")
    except sqs.exceptions.QueueDoesNotExist as e:
        assert e.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue", e.response
    say("tour")
    return url


def again(call, **args):
    while True:
        try:
            return call(**args)
        except (BotoCoreError, ClientError) as e:
            if isinstance(e, ClientError) and e.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                raise
            time.sleep(0.1)


def send(url):
    for first in range(0, NUMBERS, 10):
        entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(first, first + 10)]
        for m in again(sqs.send_message_batch, QueueUrl=url, Entries=entries)["Successful"]:
            say("sent", m["Id"], m["MessageId"])


def receive(url, done, name):
    while len(done) < NUMBERS:
        say("ask", name)
        for m in again(sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", []):
            say("got", m["Body"], m["MessageId"], name)
            again(sqs.delete_message, QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
            say("done", m["Body"], m["MessageId"])
            done.add(m["Body"])


if __name__ == "__main__":
    queue, finished = tour(os.environ["QUEUE"]), set()
    workers = [threading.Thread(target=send, args=[queue])] + [threading.Thread(target=receive, args=[queue, finished, n]) for n in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
