"""Makes the same random calls of the SQS API to moto's server and to Seb, and prints each kind of difference once.

A line is the difference, how often there is one, and the first call that has it, with tabs between them. IDs, times and
receipts are masked. After a call that has changed the two servers differently its queue is made anew."""

import json
import os
import random
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

STANDARD, FIFO = ["s1", "s2", "s3"], ["f1.fifo", "f2.fifo"]
URL, ARN = "{url}/", "arn:aws:sqs:us-east-1:{account}:"
# The actions, and how often each is called. moto has none on tasks that move messages.
ACTIONS = {
    "SendMessage": 12, "ReceiveMessage": 12, "DeleteMessage": 7, "SendMessageBatch": 6, "DeleteMessageBatch": 5, "ChangeMessageVisibility": 4,
    "ChangeMessageVisibilityBatch": 4, "CreateQueue": 3, "GetQueueAttributes": 4, "SetQueueAttributes": 4, "GetQueueUrl": 1, "ListQueues": 2, "TagQueue": 2,
    "UntagQueue": 1, "ListQueueTags": 2, "PurgeQueue": 1, "DeleteQueue": 1, "ListDeadLetterSourceQueues": 1,
}
CHANGES = {a for a in ACTIONS if not a.startswith(("Get", "List"))}
MASKED = {"MessageId", "ReceiptHandle", "SequenceNumber", "TaskHandle", "SentTimestamp", "ApproximateFirstReceiveTimestamp",
          "CreatedTimestamp", "LastModifiedTimestamp", "SenderId", "NextToken", "StartedTimestamp"}


def client(endpoint, key, secret):
    # boto3 sends what the service decides, also if its model forbids it
    config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
    return boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret, config=config)


class Server:
    def __init__(self, endpoint, key, secret, account):
        self.sqs, self.account, self.endpoint = client(endpoint, key, secret), account, endpoint
        self.receipts = {}  # by their number in the run

    def call(self, action, arguments):
        """The status, the error code, and the members of the answer."""
        method = "".join("_" + c.lower() if c.isupper() else c for c in action)[1:]
        try:
            answer = getattr(self.sqs, method)(**self.given(arguments))
        except ClientError as e:
            return {"status": e.response["ResponseMetadata"]["HTTPStatusCode"], "code": e.response["Error"]["Code"]}, {}
        return {"status": answer.pop("ResponseMetadata")["HTTPStatusCode"]}, answer

    def given(self, v):
        """Arguments as this server has them."""
        if isinstance(v, dict):
            return {k: self.given(x) for k, x in v.items()}
        if isinstance(v, list):
            return [self.given(x) for x in v]
        if isinstance(v, tuple):  # the number of a receipt
            return self.receipts.get(v[0], "none")
        return v.replace("{url}", f"{self.endpoint}/{self.account}").replace("{account}", self.account) if isinstance(v, str) else v

    def same(self, v):
        """An answer without what is of this server."""
        if isinstance(v, dict):
            return {k: "*" if k in MASKED else "text" if k == "Message" else self.same(x) for k, x in v.items()}
        if isinstance(v, list):
            return [self.same(x) for x in v]
        return v.replace(self.endpoint, "{endpoint}").replace(self.account, "{account}") if isinstance(v, str) else v

    def answer(self, answer):
        """An answer as it is compared. moto has queues in the order of their creation."""
        answer = self.same(answer)
        if "NextToken" in answer:
            return {"NextToken": "*", "QueueUrls": len(answer["QueueUrls"])}
        return {k: sorted(v) if k.lower() == "queueurls" else v for k, v in answer.items()}


class Calls:
    """Random calls that AWS accepts, some with one thing wrong."""

    def __init__(self, seed):
        self.r, self.next, self.of = random.Random(seed), 0, {}

    def some(self, chance, **choices):
        return {k: self.r.choice(v) for k, v in choices.items() if self.r.random() < chance}

    def receipt(self, queue):
        mine = self.of.get(queue)
        return self.r.choice(mine[-6:]) if mine and self.r.random() < 0.9 else "x"

    def message(self, queue):
        m = {"MessageBody": self.r.choice(["x", "<&>\"'\r\n", "\u00e9\U0001f600", "y" * 2000, "{}", " "])}
        if queue.endswith(".fifo"):
            m |= {"MessageGroupId": self.r.choice("abcd"), "MessageDeduplicationId": self.r.choice([f"d{self.r.randrange(1 << 40)}"] * 9 + ["d"])}
        else:
            m |= self.some(0.1, DelaySeconds=[0, 900], MessageGroupId=["a", "b"])
        if self.r.random() < 0.4:
            values = [{"DataType": "String", "StringValue": "v"}, {"DataType": "Number.int", "StringValue": "12"}, {"DataType": "Number", "StringValue": "-1.5e3"},
                      {"DataType": "Binary", "BinaryValue": b"\x00\xff"}, {"DataType": "Binary.gif", "BinaryValue": b"g"}, {"DataType": "String.x", "StringValue": "\u00e9"}]
            m["MessageAttributes"] = {n: self.r.choice(values) for n in self.r.sample(["a", "b.c", "d-e", "f_g"], self.r.randrange(1, 5))}
        return m | self.some(0.05, MessageSystemAttributes=[{"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}])

    def wrong_message(self, queue):
        def attribute(name="n", kind="String", value="v"):
            return {"MessageAttributes": {name: {"DataType": kind, "StringValue": value}}}
        wrong = {
            "DelaySeconds 901": {"DelaySeconds": 901}, "DelaySeconds -1": {"DelaySeconds": -1}, "MessageBody empty": {"MessageBody": ""},
            "MessageBody control": {"MessageBody": "\x01"}, "MessageBody long": {"MessageBody": "z" * (1 << 20) + "z"},
            "MessageBody and attributes long": {"MessageBody": "z" * (1 << 20)} | attribute(), "MessageGroupId long": {"MessageGroupId": "g" * 129},
            "MessageGroupId blank": {"MessageGroupId": "a b"}, "Number": attribute(kind="Number", value="x"), "DataType": attribute(kind="Other"),
            "DataType empty": attribute(kind=""), "StringValue empty": attribute(value=""), "attribute AWS.": attribute("AWS.x"),
            "attribute blank": attribute("a b"), "attribute dot": attribute(".a"), "attribute long": attribute("n" * 257),
            "attributes": {"MessageAttributes": {f"a{i}": {"DataType": "String", "StringValue": "v"} for i in range(11)}},
        }
        if queue.endswith(".fifo"):
            wrong |= {"DelaySeconds": {"DelaySeconds": 5}, "without MessageGroupId": {"MessageGroupId": None},
                      "without MessageDeduplicationId": {"MessageDeduplicationId": None}, "MessageDeduplicationId long": {"MessageDeduplicationId": "d" * 129}}
        else:
            wrong |= {"MessageDeduplicationId": {"MessageDeduplicationId": "d"}}
        return wrong

    def attributes(self, queue):
        target = "f2.fifo" if queue.endswith(".fifo") else "s3"
        policy = [json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": n}) for n in [500, "700"]]
        out = self.some(0.2, DelaySeconds=["0"], MaximumMessageSize=["4096", "1048576"], MessageRetentionPeriod=["1209600", "3600"],
                        VisibilityTimeout=["600", "43200"], ReceiveMessageWaitTimeSeconds=["0"], KmsDataKeyReusePeriodSeconds=["60"], Policy=["{}"])
        if queue.endswith(".fifo"):
            out |= self.some(0.2, DeduplicationScope=["queue"], FifoThroughputLimit=["perQueue"])
        return out | (self.some(0.2, RedrivePolicy=policy) if queue != target else {})

    def wrong_attributes(self, queue):
        names = {
            "DelaySeconds": ["901", "x"], "MaximumMessageSize": ["1023", "1048577"], "MessageRetentionPeriod": ["59", "1209601"],
            "VisibilityTimeout": ["43201", "-1"], "ReceiveMessageWaitTimeSeconds": ["21"], "KmsDataKeyReusePeriodSeconds": ["59"], "Policy": ["x"],
            "Other": ["1"], "QueueArn": ["x"],
        }
        wrong = {f"{name} {v}": {name: v} for name, values in names.items() for v in values}
        policies = {"other type": ("s3" if queue.endswith(".fifo") else "f2.fifo", 5), "unknown target": ("none", 5), "0": ("s3", 0), "1001": ("s3", 1001)}
        for label, (target, n) in policies.items():
            if not (n != 5 and queue.endswith(".fifo")):
                wrong["RedrivePolicy " + label] = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": n})}
        wrong["RedrivePolicy text"] = {"RedrivePolicy": "x"}
        if queue.endswith(".fifo"):
            wrong |= {"ContentBasedDeduplication x": {"ContentBasedDeduplication": "x"}, "FifoThroughputLimit x": {"FifoThroughputLimit": "x"}}
        else:
            wrong |= {"ContentBasedDeduplication": {"ContentBasedDeduplication": "true"}, "FifoThroughputLimit": {"FifoThroughputLimit": "perQueue"}}
        return {k: {"Attributes": v} for k, v in wrong.items()}

    def entries(self, action, queue):
        n = self.r.choice([1, 2, 3, 10])
        if action == "SendMessageBatch":
            return [{"Id": f"e{i}"} | self.message(queue) for i in range(n)]
        more = {"VisibilityTimeout": self.r.choice([0, 600, 43200])} if action == "ChangeMessageVisibilityBatch" else {}
        receipts = dict.fromkeys(self.receipt(queue) for _ in range(n))  # each once
        return [{"Id": f"e{i}", "ReceiptHandle": x} | more for i, x in enumerate(receipts)]

    def one(self):
        """The action, its queue, its arguments, and what is wrong."""
        r = self.r
        queue = r.choice(STANDARD + FIFO)
        action = r.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        at = {} if action in ("GetQueueUrl", "ListQueues", "CreateQueue") else {"QueueUrl": URL + queue}
        a, wrong = self.arguments(action, queue)
        if at:
            wrong["QueueUrl of no queue"] = {"QueueUrl": URL + "none"}
        label = ""
        if wrong and r.random() < 0.25:
            label = r.choice(list(wrong))
            a = at | a | wrong[label]
        else:
            a = at | a
        return action, queue, {k: v for k, v in a.items() if v is not None}, label

    def arguments(self, action, queue):
        r = self.r
        match action:
            case "CreateQueue":
                wrong = {"QueueName": {"QueueName": "a b"}, "QueueName long": {"QueueName": "n" * 81}, "QueueName empty": {"QueueName": ""},
                         "FifoQueue": {"QueueName": "s1.fifo", "Attributes": {}}}
                return {"QueueName": queue, "Attributes": {"FifoQueue": "true"} if queue in FIFO else {}}, wrong
            case "SendMessage":
                return self.message(queue), self.wrong_message(queue)
            case "ReceiveMessage":
                a = {"WaitTimeSeconds": 0} | self.some(0.5, MaxNumberOfMessages=[1, 2, 10], MessageAttributeNames=[["All"], [".*"], ["a"], ["b.*"], ["none"]],
                    AttributeNames=[["All"], ["SenderId", "SentTimestamp"], ["ApproximateReceiveCount"], ["MessageGroupId", "SequenceNumber"]])
                a |= self.some(0.2, VisibilityTimeout=[600, 43200], MessageSystemAttributeNames=[["All"], ["AWSTraceHeader"], ["MessageDeduplicationId"]])
                names = {"WaitTimeSeconds": [21, -1], "MaxNumberOfMessages": [0, 11], "VisibilityTimeout": [-1, 43201]}
                return a, {f"{name} {v}": {name: v} for name, values in names.items() for v in values}
            case "DeleteMessage":
                return {"ReceiptHandle": self.receipt(queue)}, {"ReceiptHandle missing": {"ReceiptHandle": None}}
            case "ChangeMessageVisibility":
                a = {"ReceiptHandle": self.receipt(queue), "VisibilityTimeout": r.choice([0, 600, 43200])}
                return a, {"VisibilityTimeout": {"VisibilityTimeout": 43201}, "VisibilityTimeout missing": {"VisibilityTimeout": None}}
            case "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch":
                list_ = self.entries(action, queue)
                wrong = {"Id " + label: {"Entries": list_[:-1] + [list_[-1] | {"Id": v}]} for label, v in {"blank": "a b", "empty": "", "long": "i" * 81}.items()}
                wrong |= {"Id repeated": {"Entries": [list_[0], list_[-1] | {"Id": "e0"}, list_[0]]}, "no Entries": {"Entries": []},
                          "11 Entries": {"Entries": [list_[0] | {"Id": f"e{i}"} for i in range(11)]}}
                if action == "SendMessageBatch":
                    wrong |= {"entry " + label: {"Entries": [list_[0] | v]} for label, v in self.wrong_message(queue).items()}
                return {"Entries": list_}, wrong
            case "GetQueueAttributes":
                names = [["All"], ["QueueArn"], ["VisibilityTimeout", "DelaySeconds"], ["ApproximateNumberOfMessages"], ["RedrivePolicy"]]
                return {"AttributeNames": r.choice(names)}, {"AttributeNames": {"AttributeNames": ["Other"]}}
            case "SetQueueAttributes":
                return {"Attributes": self.attributes(queue) or {"DelaySeconds": "0"}}, self.wrong_attributes(queue) | {"no Attributes": {"Attributes": {}}}
            case "GetQueueUrl":
                return {"QueueName": queue}, {"QueueName": {"QueueName": "none"}}
            case "ListQueues":
                return self.some(0.5, QueueNamePrefix=["s", "f1", "x"], MaxResults=[1, 2, 1000]), {f"MaxResults {n}": {"MaxResults": n} for n in [0, 1001]}
            case "TagQueue":
                return {"Tags": {r.choice("abc"): r.choice(["1", "2", ""])}}, {"no Tags": {"Tags": {}}, "Tags long": {"Tags": {"k" * 129: "v"}}}
            case "UntagQueue":
                return {"TagKeys": r.choice([["a"], ["a", "b"], ["none"]])}, {"no TagKeys": {"TagKeys": []}}
        return {}, {}


def differences(path, moto, seb):
    if isinstance(moto, dict) and isinstance(seb, dict):
        for k in sorted(moto.keys() | seb.keys()):
            yield from differences(f"{path}.{k}" if path else k, moto.get(k), seb.get(k))
    elif isinstance(moto, list) and isinstance(seb, list):
        if len(moto) != len(seb):
            yield path + ".length", len(moto), len(seb)
        else:
            for m, s in zip(moto, seb):
                yield from differences(path + "[]", m, s)
    elif moto != seb:
        yield path, moto, seb


def difference(moto, had, seb, has):
    """What is different about two answers."""
    m, s = moto.get("code"), seb.get("code")
    if m or s:
        if m != s:
            yield f"moto {m or 'accepts'}, Seb {s or 'accepts'}"
        elif moto != seb:
            yield f"{m} has status {moto['status']}, at Seb {seb['status']}"
        return
    messages = [sorted(json.dumps(x, default=repr, sort_keys=True) for x in answer.get("Messages", [])) for answer in (had, has)]
    if had != has and messages[0] and messages[0] == messages[1]:
        yield "the order of Messages"
        return
    for path, x, y in differences("", had, has):
        yield f"{path}: moto {short(x)}, Seb {short(y)}"


def main():
    n, seed = int(os.environ["CALLS"]), int(os.environ["SEED"])
    moto = Server(os.environ["MOTO"], "a", "b", "123456789012")
    seb = Server(os.environ["ENDPOINT"], os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], "000000000000")
    calls, seen = Calls(seed), {}

    def renew(queue):
        for s in (moto, seb):
            s.call("DeleteQueue", {"QueueUrl": URL + queue})
            s.call("CreateQueue", {"QueueName": queue, "Attributes": {"VisibilityTimeout": "600"} | ({"FifoQueue": "true"} if queue in FIFO else {})})
        calls.of[queue] = []

    for queue in STANDARD + FIFO:
        renew(queue)
    accepted = 0
    for _ in range(n):
        action, queue, arguments, wrong = calls.one()
        (m, had), (s, has) = moto.call(action, arguments), seb.call(action, arguments)
        accepted += "code" not in s
        found = list(difference(m, moto.answer(had), s, seb.answer(has)))
        for text in found:
            key = f"{action}{', ' + wrong if wrong else ''}: {text}"
            count, first = seen.get(key, (0, json.dumps(arguments, default=repr)[:300]))
            seen[key] = count + 1, first
        if (found or wrong) and action in CHANGES or action == "DeleteQueue":  # moto keeps some messages that it refuses
            if wrong and action == "CreateQueue":
                moto.call("DeleteQueue", {"QueueUrl": URL + arguments["QueueName"]})
            renew(queue)
        elif action == "ReceiveMessage":
            for x, y in zip(had.get("Messages", []), has.get("Messages", [])):
                moto.receipts[calls.next], seb.receipts[calls.next] = x["ReceiptHandle"], y["ReceiptHandle"]
                calls.of.setdefault(queue, []).append((calls.next,))
                calls.next += 1
    for text, (count, first) in sorted(seen.items()):
        print(text, count, first, sep="\t")
    print(f"{n} calls, of which Seb accepted {accepted}", file=sys.stderr)


def short(v):
    text = "-" if v is None else json.dumps(v, default=repr, sort_keys=True)
    return text if len(text) < 80 else text[:80] + "..."


main()
