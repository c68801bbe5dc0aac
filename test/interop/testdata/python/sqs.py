"""Uses the SQS API with boto3. Prints a line of JSON for each check; an assertion ends the script."""
import json
import os

import boto3
from botocore.awsrequest import AWSRequest
from botocore.auth import SigV4QueryAuth
from botocore.config import Config
from botocore.exceptions import ClientError
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def client(**more):
    options = dict(
        endpoint_url=os.environ["ENDPOINT"], region_name="eu-west-1",
        aws_access_key_id=os.environ["ACCESS_KEY"], aws_secret_access_key=os.environ["SECRET"],
        config=Config(retries={"max_attempts": 1}))
    options.update(more)
    return boto3.client("sqs", **options)


sqs = client()


def check(name):
    print(json.dumps({"check": name}), flush=True)


def refused(code, call, **args):
    try:
        call(**args)
    except ClientError as e:
        assert e.response["Error"]["Code"] == code, (code, e.response)
        return e.response["Error"]["Message"]
    raise AssertionError(f"{code}: not refused")


def messages():
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    assert arn == "arn:aws:sqs:eu-west-1:000000000000:dead", arn
    url = sqs.create_queue(QueueName="jobs", Attributes={
        "VisibilityTimeout": "60", "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})},
        tags={"team": "mail"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName="jobs")["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix="jo")["QueueUrls"] == [url]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "mail"}
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    attributes = {
        "text": {"DataType": "String", "StringValue": "ä"}, "number": {"DataType": "Number.int", "StringValue": "7"},
        "bytes": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"}, "ascii": {"DataType": "Binary", "BinaryValue": b"abc"}}
    # boto3 compares the digests of the answer with its own.
    sent = sqs.send_message(QueueUrl=url, MessageBody="hello <&> \u20ac", MessageAttributes=attributes, MessageSystemAttributes={
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}})
    got = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], AttributeNames=["All"], WaitTimeSeconds=5)
    message = got["Messages"][0]
    assert message["Body"] == "hello <&> \u20ac" and message["MessageId"] == sent["MessageId"], message
    assert message["MessageAttributes"] == attributes, message
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1" and message["Attributes"]["AWSTraceHeader"].startswith("Root="), message
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "1" and counts["ApproximateNumberOfMessages"] == "0", counts
    assert json.loads(counts["RedrivePolicy"])["maxReceiveCount"] == 2, counts
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    again = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], WaitTimeSeconds=5)["Messages"][0]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2", again
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    check("messages")
    return url, dead


def batches(url):
    entries = [{"Id": str(i), "MessageBody": f"job {i}", "MessageAttributes": {"n": {"DataType": "Number", "StringValue": str(i)}}} for i in range(10)]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
    assert len(got) == 10, len(got)
    handles = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(got)]
    sqs.change_message_visibility_batch(QueueUrl=url, Entries=[dict(h, VisibilityTimeout=90) for h in handles])
    done = sqs.delete_message_batch(QueueUrl=url, Entries=handles[:9] + [{"Id": "wrong", "ReceiptHandle": "wrong"}])
    assert len(done["Successful"]) == 9 and done["Failed"][0]["Code"] == "ReceiptHandleIsInvalid", done
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handles[9]["ReceiptHandle"])
    check("batches")


def fifo():
    url = sqs.create_queue(QueueName="steps.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"})["QueueUrl"]
    first = sqs.send_message(QueueUrl=url, MessageBody="1", MessageGroupId="g")
    assert sqs.send_message(QueueUrl=url, MessageBody="1", MessageGroupId="g")["MessageId"] == first["MessageId"]
    sqs.send_message(QueueUrl=url, MessageBody="2", MessageGroupId="g", MessageDeduplicationId="two")
    bodies = []
    for _ in range(2):
        m = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], WaitTimeSeconds=5)["Messages"][0]
        assert m["Attributes"]["MessageGroupId"] == "g" and m["Attributes"]["SequenceNumber"] and m["Attributes"]["MessageDeduplicationId"], m
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        bodies.append(m["Body"])
        sqs.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
    assert bodies == ["1", "2"], bodies
    refused("MissingParameter", sqs.send_message, QueueUrl=url, MessageBody="x")
    refused("InvalidParameterValue", sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g", DelaySeconds=2)
    check("fifo")


def refusals(url):
    body = {"QueueUrl": url, "MessageBody": "x"}
    refused("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", sqs.send_message_batch, QueueUrl=url,
            Entries=[{"Id": str(i), "MessageBody": "x"} for i in range(11)])
    refused("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", sqs.send_message_batch, QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "x"}] * 2)
    refused("InvalidParameterValue", sqs.send_message, **body, DelaySeconds=901)
    refused("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=url, ReceiptHandle="wrong")
    refused("InvalidParameterValue", sqs.send_message, QueueUrl=url, MessageBody="x" * (1 << 20) + "x")
    refused("InvalidMessageContents", sqs.send_message, QueueUrl=url, MessageBody="\x01")
    refused("AWS.SimpleQueueService.NonExistentQueue", sqs.get_queue_url, QueueName="missing")
    try:
        sqs.get_queue_url(QueueName="missing")
    except sqs.exceptions.QueueDoesNotExist as e:
        assert e.response["Error"].get("QueryErrorCode", "QueueDoesNotExist") == "QueueDoesNotExist", e.response  # JSON has it
    refused("AWS.SimpleQueueService.NonExistentQueue", sqs.send_message, QueueUrl=url.replace("000000000000", "123456789012"), MessageBody="x")
    refused("SignatureDoesNotMatch", client(aws_secret_access_key="wrong").list_queues)
    refused("InvalidClientTokenId", client(aws_access_key_id="nobody.0000000000000001").list_queues)
    assert sqs.send_message(QueueUrl=url, MessageBody="x" * (1 << 20), DelaySeconds=900)["MessageId"]
    check("refusals")


def presigned(url):
    """A client of the Query protocol asks with a presigned URL."""
    request = AWSRequest("GET", url + "?Action=GetQueueAttributes&AttributeName.1=QueueArn")
    SigV4QueryAuth(boto3.Session(os.environ["ACCESS_KEY"], os.environ["SECRET"]).get_credentials(), "sqs", "eu-west-1", expires=60).add_auth(request)
    answer = urlopen(Request(request.url)).read().decode()
    assert "<Name>QueueArn</Name><Value>arn:aws:sqs:eu-west-1:000000000000:jobs</Value>" in answer, answer
    try:
        urlopen(request.url.replace("QueueArn", "All"))
        raise AssertionError("an altered URL is accepted")
    except HTTPError as e:
        answer = e.read().decode()
        assert e.code == 403 and "<Code>SignatureDoesNotMatch</Code>" in answer, answer
    check("presigned")


jobs, letters = messages()
batches(jobs)
fifo()
refusals(jobs)
presigned(jobs)
sqs.purge_queue(QueueUrl=jobs)
refused("AWS.SimpleQueueService.PurgeQueueInProgress", sqs.purge_queue, QueueUrl=jobs)
for q in [jobs, letters]:
    sqs.delete_queue(QueueUrl=q)
