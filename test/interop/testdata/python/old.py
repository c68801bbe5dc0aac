"""Writes records and reads them as the only member of a group, with a librdkafka that is older than any program here: by its functions.
Arguments: the library, its version, topic, mechanism of SASL, count."""

import os
import sys
import time
from ctypes import CDLL, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p, create_string_buffer, string_at

from place import expect, key, tell, value

path, version, topic, mechanism, count = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4], int(sys.argv[5])
PRODUCER, CONSUMER = 0, 1
COPY = 2


class Message(Structure):
    _fields_ = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


lib = CDLL(path)


def function(name, result, *arguments):
    f = getattr(lib, "rd_kafka_" + name)
    f.restype, f.argtypes = result, arguments
    return f


version_str = function("version_str", c_char_p)
conf_new = function("conf_new", c_void_p)
conf_set = function("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
new = function("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
topic_new = function("topic_new", c_void_p, c_void_p, c_char_p, c_void_p)
produce = function("produce", c_int, c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p)
flush = function("flush", c_int, c_void_p, c_int)
outq_len = function("outq_len", c_int, c_void_p)
poll = function("poll", c_int, c_void_p, c_int)
poll_set_consumer = function("poll_set_consumer", c_int, c_void_p)
list_new = function("topic_partition_list_new", c_void_p, c_int)
list_add = function("topic_partition_list_add", c_void_p, c_void_p, c_char_p, c_int32)
subscribe = function("subscribe", c_int, c_void_p, c_void_p)
consumer_poll = function("consumer_poll", POINTER(Message), c_void_p, c_int)
message_destroy = function("message_destroy", None, POINTER(Message))
consumer_close = function("consumer_close", c_int, c_void_p)


def client(kind, **more):
    fault = create_string_buffer(512)
    conf = conf_new()
    settings = {
        "bootstrap.servers": os.environ["BROKER"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": "old",
        "sasl.password": os.environ["KEY"],
        **{name.replace("_", "."): v for name, v in more.items()},
    }
    for name, v in settings.items():
        expect(name, conf_set(conf, name.encode(), v.encode(), fault, len(fault)), 0)
    made = new(kind, conf, fault, len(fault))
    expect(fault.value, bool(made), True)
    return made


expect("version", version_str().decode(), version)
began = time.time()
producer = client(PRODUCER, enable_idempotence="true", compression_codec="zstd", queue_buffering_max_messages=str(count + 1))
at = topic_new(producer, topic, None)
for n in range(count):
    v, k = value(n), key(n)
    expect("produce", produce(at, -1, COPY, v, len(v), k, len(k), None), 0)
until = time.time() + 60
while outq_len(producer) > 0 and time.time() < until:
    poll(producer, 100)
expect("left in the queue", (flush(producer, 1000), outq_len(producer)), (0, 0))

consumer = client(CONSUMER, group_id="old-" + mechanism, auto_offset_reset="earliest")
poll_set_consumer(consumer)
topics = list_new(1)
list_add(topics, topic, -1)
expect("subscribe", subscribe(consumer, topics), 0)
left, until = set(range(count)), time.time() + 60
while left:
    m = consumer_poll(consumer, 1000)
    if not m:
        if time.time() > until:
            raise AssertionError(f"{len(left)} records are missing")
        continue
    r = m.contents
    if r.err == 0:
        v = string_at(r.payload, r.len)
        n = int(v[: v.index(b":")])
        expect("record", (v, string_at(r.key, r.key_len)), (value(n), key(n)))
        left.remove(n)
    message_destroy(m)
expect("close", consumer_close(consumer), 0)
tell(f"{mechanism}: {count:,} records by an idempotent producer, read as a group", began)
