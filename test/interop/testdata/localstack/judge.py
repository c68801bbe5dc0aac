"""A plugin of pytest that runs LocalStack's tests of SQS without LocalStack, against an endpoint.

The tests import modules of LocalStack and take fixtures from it. This plugin replaces both by the few parts that
the tests need, written for the real AWS: no answer of LocalStack's own is accepted. Only the tests that LocalStack
has validated against AWS are collected, also those that LocalStack itself skips. EXCLUDED is the file of the
tests that are left out, ENDPOINT the address, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY sign the requests. DATA is LocalStack's
folder of botocore models, with the SQS API as it was before botocore 1.31.81 (the Query protocol).
"""
import base64
import hashlib
import json
import os
import re
import sys
import time
import types
import uuid
from datetime import datetime

os.environ["TEST_TARGET"] = "AWS_CLOUD"  # localstack_snapshot then compares every field of an answer

import boto3
import pytest
import requests
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import ClientError
from localstack_snapshot.snapshots.transformer import (
    PATTERN_ISO8601, JsonpathTransformer, KeyValueBasedTransformer, RegexTransformer, ResponseMetaDataTransformer)

ENDPOINT = os.environ["ENDPOINT"].rstrip("/")
REGION, ACCOUNT = "us-east-1", os.environ.get("ACCOUNT", "000000000000")

# --- The parts of LocalStack that the tests import.


def module(path, **names):
    """Makes a module of LocalStack, and its parents. What it lacks is None: only tests that do not run use it."""
    parts = path.split(".")
    for i in range(1, len(parts) + 1):
        name = ".".join(parts[:i])
        if name not in sys.modules:
            m = sys.modules[name] = types.ModuleType(name)
            m.__path__, m.__getattr__ = [], missing
            if i > 1:
                setattr(sys.modules[".".join(parts[:i - 1])], parts[i - 1], m)
    vars(sys.modules[path]).update(names)


def missing(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return None


def retry(function, retries=3, sleep=1.0, sleep_before=0, **kwargs):
    time.sleep(sleep_before)
    for left in range(int(retries), -1, -1):
        try:
            return function(**kwargs)
        except Exception:
            if left == 0:
                raise
            time.sleep(sleep)


def poll_condition(condition, timeout=None, interval=0.5):
    end = None if timeout is None else time.monotonic() + timeout
    while not condition():
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(interval)
    return True


def short_uid():
    return uuid.uuid4().hex[:8]


def sqs_queue_arn(queue_name, account_id, region_name):
    return f"arn:aws:sqs:{region_name}:{account_id}:{queue_name}"


def encode_move_task_handle(task_id, source_arn):
    return base64.b64encode(json.dumps({"taskId": task_id, "sourceArn": source_arn}, separators=(",", ":")).encode()).decode()


def decode_move_task_handle(handle):
    said = json.loads(base64.b64decode(handle))
    return said["taskId"], said["sourceArn"]


def parse_queue_url(url):
    account, name = url.rstrip("/").split("/")[-2:]
    return account, REGION, name


class AnyMark:
    def __init__(self, **names):
        vars(self).update(names)

    def __getattr__(self, name):
        return getattr(pytest.mark, name)


markers = AnyMark(
    aws=AnyMark(validated=pytest.mark.aws_validated), parity=AnyMark(aws_validated=pytest.mark.aws_validated),
    snapshot=AnyMark())


def to_str(text):
    return text.decode() if isinstance(text, bytes) else text


helpers = {"poll_condition": poll_condition, "retry": retry, "short_uid": short_uid, "to_str": to_str}
module("localstack.utils.common", short_uid_from_seed=lambda seed: hashlib.sha1(seed.encode()).hexdigest()[:8], **helpers)
module("localstack.utils.sync", **helpers)
module("localstack.utils.strings", token_generator=lambda item: base64.b64encode(item.encode()).decode(), **helpers)
module("localstack.utils.aws.arns", sqs_queue_arn=sqs_queue_arn, get_partition=lambda region: "aws")
module("localstack.utils.aws.request_context")
module("localstack.utils.urls")
module("localstack.config", **dict.fromkeys(
    ["SQS_DELAY_PURGE_RETRY", "SQS_DELAY_RECENTLY_DELETED", "SQS_ENABLE_MESSAGE_RETENTION_PERIOD", "SQS_ENDPOINT_STRATEGY"]))
module("localstack.aws.api.lambda_")
module("localstack.services.sqs.constants", DEFAULT_MAXIMUM_MESSAGE_SIZE=1 << 20, SQS_UUID_STRING_SEED="123e4567-e89b-12d3-a456-426614174000")
module("localstack.services.sqs.models")
module("localstack.services.sqs.provider", MAX_NUMBER_OF_MESSAGES=10)
module("localstack.services.sqs.utils", parse_queue_url=parse_queue_url,
       encode_move_task_handle=encode_move_task_handle, decode_move_task_handle=decode_move_task_handle)
module("localstack.testing.aws.util", is_aws_cloud=lambda: True)
module("localstack.testing.config")
module("localstack.testing.pytest", markers=markers)
module("tests.aws.services.lambda_.functions")
module("tests.aws.services.lambda_.test_lambda")


# --- The choice of tests.


def listed(name):
    """Reads lines of a test and why."""
    with open(name) as file:
        return dict(line.strip().split(": ", 1) for line in file if line.strip() and not line.startswith("#"))


def pytest_configure(config):
    for name in ["aws_validated", "only_localstack", "needs_fixing", "requires_in_process"]:
        config.addinivalue_line("markers", name)


def pytest_collection_modifyitems(config, items):
    excluded, unknown = listed(os.environ["EXCLUDED"]), {item.originalname for item in items}
    if wrong := set(excluded) - unknown:
        raise pytest.UsageError(f"excluded tests that do not exist: {wrong}")
    wanted = [item for item in items if item.get_closest_marker("aws_validated")]
    kept = [item for item in wanted if item.originalname not in excluded]
    for item in kept:
        item.own_markers = [m for m in item.own_markers if m.name != "skip"]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    if not hasattr(config, "workerinput"):
        print(f"\n{len(wanted)} validated cases, {len(wanted) - len(kept)} excluded")
    # Each of those that sleep longest begins on a worker of its own, which gets tests in pairs.
    slow = [item for item in kept if re.match("test_(deduplication_interval|message_retention|create_queue_recently|successive_purge)", item.originalname)]
    rest = [item for item in kept if item not in slow]
    pairs = [item for pair in zip(slow, rest) for item in pair]
    items[:] = pairs + rest[len(slow):]


# --- The fixtures of LocalStack that the tests take.


class Clients:
    def __init__(self, session, **options):
        self.session, self.options, self.made = session, options, {}

    def __getattr__(self, service):
        if service not in self.made:
            options = {"endpoint_url": ENDPOINT, "region_name": REGION, **self.options}
            self.made[service] = self.session.client(service.replace("_", "-"), **options)
        return self.made[service]


class SignedHTTP:
    """Sends presigned requests."""

    def __init__(self, session, service, region):
        self.signer = SigV4QueryAuth(session.get_credentials(), service, region)

    def get(self, url, **kwargs):
        return self.request("GET", url, **kwargs)

    def post(self, url, **kwargs):
        return self.request("POST", url, **kwargs)

    def request(self, method, url, params=None, data=None, headers=None):
        url = re.sub(r"^https://queue\.amazonaws\.com", ENDPOINT, url)
        url = ENDPOINT + url if url.startswith("/") else url
        request = AWSRequest(method=method, url=url, data=data, params=params, headers=headers)
        self.signer.add_auth(request)
        return requests.request(method, request.url, data=request.data, params=request.params, headers=dict(request.headers))


@pytest.fixture(scope="session")
def aws_session():
    session = boto3.Session(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    session._loader.search_paths.insert(0, os.environ["DATA"])
    return session


@pytest.fixture(scope="session")
def aws_client_factory(aws_session):
    return lambda **options: Clients(aws_session, **options)


@pytest.fixture(scope="session")
def aws_client(aws_client_factory):
    return aws_client_factory()


@pytest.fixture(scope="class")
def aws_http_client_factory(aws_session):
    return lambda service, region=REGION: SignedHTTP(aws_session, service.removesuffix("_query"), region)


@pytest.fixture(scope="session")
def account_id():
    return ACCOUNT


@pytest.fixture(scope="session")
def region_name():
    return REGION


@pytest.fixture
def cleanups():
    calls = []
    yield calls
    for call in reversed(calls):
        try:
            call()
        except ClientError:
            pass


@pytest.fixture
def sqs_create_queue(aws_client, cleanups):
    def create(**kwargs):
        kwargs.setdefault("QueueName", f"test-queue-{short_uid()}")
        url = aws_client.sqs.create_queue(**kwargs)["QueueUrl"]
        cleanups.append(lambda: aws_client.sqs.delete_queue(QueueUrl=url))
        return url

    return create


@pytest.fixture
def sqs_queue(sqs_create_queue):
    return sqs_create_queue()


@pytest.fixture
def sqs_get_queue_arn(aws_client):
    return lambda url: aws_client.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


@pytest.fixture
def sqs_queue_exists(aws_client):
    def exists(url):
        try:
            return aws_client.sqs.get_queue_url(QueueName=url.split("/")[-1])["QueueUrl"] == url
        except ClientError as e:
            if "NonExistentQueue" in e.response["Error"]["Code"]:
                return False
            raise

    return exists


@pytest.fixture
def sqs_collect_messages(aws_client):
    def collect(url, expected, timeout, delete=True, attribute_names=(), message_attribute_names=(),
                max_number_of_messages=1, wait_time_seconds=5, sqs_client=None):
        client, got = sqs_client or aws_client.sqs, []

        def receive():
            messages = client.receive_message(
                QueueUrl=url, WaitTimeSeconds=wait_time_seconds, MaxNumberOfMessages=max_number_of_messages,
                AttributeNames=list(attribute_names), MessageAttributeNames=list(message_attribute_names)).get("Messages", [])
            got.extend(messages)
            for m in messages if delete else []:
                client.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
            return len(got) >= expected

        if not poll_condition(receive, timeout=timeout):
            raise TimeoutError(f"{len(got)} messages, want {expected}")
        return got

    return collect


# --- The form in which answers were recorded.

UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
ARN = re.compile(r"arn:(?:aws[a-zA-Z-]*)?:[a-zA-Z0-9-_.]*:[^:]+:(?:\d{12})?:(.*)")


def resource(_, value):
    """Is the name in an ARN."""
    if isinstance(value, str) and (found := ARN.match(value)):
        name = re.split("[:/]", found[1])[-1]
        return None if found[1].startswith("<") and found[1].endswith(">") else name
    return None


def timestamp(key, value):
    named = re.search("timestamp", key, re.IGNORECASE)
    return str(value) if named and not PATTERN_ISO8601.match(str(value)) else None


class Transform:
    @staticmethod
    def key_value(key):
        kebab = re.sub(r"(?<!^)(?=[A-Z])", "-", key).lower()
        return KeyValueBasedTransformer(lambda k, v: v if k == key and v not in (None, "") else None, kebab)

    @staticmethod
    def regex(pattern, replacement):
        return RegexTransformer(pattern, replacement)

    @classmethod
    def sqs_api(cls):
        return [
            *map(cls.key_value, ["ReceiptHandle", "TaskHandle", "SenderId", "SequenceNumber"]),
            JsonpathTransformer("$..MessageAttributes.RequestID.StringValue", "request-id"),
            KeyValueBasedTransformer(resource, "resource")]


@pytest.fixture
def snapshot(_snapshot_session):
    s = _snapshot_session
    s.transform = Transform
    s.add_transformer(RegexTransformer(re.escape(ENDPOINT), f"https://sqs.{REGION}.amazonaws.com"), priority=-1)
    for t in [
            RegexTransformer(rf"(?<=[:/]){ACCOUNT}\b", "1" * 12), RegexTransformer(REGION, "<region>"), RegexTransformer("arn:aws:", "arn:<partition>:"),
            ResponseMetaDataTransformer(),
            KeyValueBasedTransformer(lambda k, v: v if isinstance(v, str) and k.lower().endswith("id") and UUID.match(v) else None, "uuid"),
            RegexTransformer(PATTERN_ISO8601, "date"),
            KeyValueBasedTransformer(lambda k, v: v if isinstance(v, datetime) else None, "datetime", replace_reference=False),
            KeyValueBasedTransformer(timestamp, "timestamp", replace_reference=False)]:
        s.add_transformer(t, priority=2)
    return s
