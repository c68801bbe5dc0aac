"""A worker of a queue with boto3. It asks the test what to do with each message."""
import base64
import json
import os
import socket
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

sqs = boto3.client("sqs", endpoint_url=os.environ["ENDPOINT"], config=Config(retries={"max_attempts": 0}))
host, port = os.environ["QUEUES_TEST_REPORT_TO"].split(":")


def ask(message):
    with socket.create_connection((host, int(port))) as s:
        attributes = message["Attributes"]
        said = {"Value": base64.b64encode(message["Body"].encode()).decode(), "Deliveries": int(attributes["ApproximateReceiveCount"])}
        if "MessageGroupId" in attributes:
            said["Key"] = attributes["MessageGroupId"]
        s.sendall(json.dumps(said).encode())
        s.shutdown(socket.SHUT_WR)
        return s.recv(8).decode()


url = None
while True:
    try:
        url = url or sqs.get_queue_url(QueueName=sys.argv[1])["QueueUrl"]
        failed = set()  # keys; a receive has several messages of one, and none is done before an earlier one
        for m in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=3, WaitTimeSeconds=1, AttributeNames=["All"]).get("Messages", []):
            handle = {"QueueUrl": url, "ReceiptHandle": m["ReceiptHandle"]}
            key = m["Attributes"].get("MessageGroupId")
            if key not in failed and ask(m) == "0":
                sqs.delete_message(**handle)
                continue
            if key:
                failed.add(key)
            sqs.change_message_visibility(VisibilityTimeout=0, **handle)
    except (BotoCoreError, ClientError):
        time.sleep(0.05)
