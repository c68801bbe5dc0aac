"""A member of a consumer group. Arguments: topic, and settings as JSON, null for none. SIGTERM has it leave.

It prints a line for whatever happens, with a time in nanoseconds that all processes share:

    R time partition offset number    a record, before it counts as read
    C time partition offset           a commit that was confirmed
    A time partitions                 assigned; V revoked; L lost; E an error; F a fatal one, after which it ends
"""

import json
import os
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from place import number, settings

topic = sys.argv[1]
config = settings(group_id="group", enable_auto_commit=False, auto_offset_reset="earliest", session_timeout_ms=6000, heartbeat_interval_ms=1000)
config.update(json.loads(sys.argv[2]))
config = {name: value for name, value in config.items() if value is not None}
going = True
position = {}  # by partition, of what was read and not committed


def stop(signum, frame):
    global going
    going = False


def say(lines):
    text = "".join(lines).encode()
    while text:
        text = text[os.write(1, text) :]


def event(kind, partitions):
    say([f"{kind} {time.monotonic_ns()} {','.join(str(p.partition) for p in partitions)}\n"])


def commit(consumer, partitions):
    global going
    offsets = [TopicPartition(topic, p, position.pop(p)) for p in partitions if p in position]
    if not offsets:
        return
    try:
        done = consumer.commit(offsets=offsets, asynchronous=False)
        now = time.monotonic_ns()
        say([f"C {now} {p.partition} {p.offset}\n" for p in done if p.error is None])
        say([f"E {now} {p.error.name()}\n" for p in done if p.error is not None])
    except KafkaException as e:
        # Once a fault is fatal everything fails with _FATAL; which fault it was has been told before.
        if e.args[0].fatal() or e.args[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID):
            going = False
        say([f"{'E' if going else 'F'} {time.monotonic_ns()} {e.args[0].name()}\n"])


def on_assign(consumer, partitions):
    event("A", partitions)


def on_revoke(consumer, partitions):
    commit(consumer, [p.partition for p in partitions])
    event("V", partitions)


def on_lost(consumer, partitions):
    for p in partitions:
        position.pop(p.partition, None)
    event("L", partitions)


signal.signal(signal.SIGTERM, stop)
c = Consumer(config)
c.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
committed = time.time()
while going:
    lines = []
    try:
        messages = c.consume(500, 0.1)
    except KafkaException as e:
        say([f"F {time.monotonic_ns()} {e.args[0].name()}\n"])
        break
    fatal = None
    for m in messages:
        if m.error() is None:
            lines.append(f"R {time.monotonic_ns()} {m.partition()} {m.offset()} {number(m)}\n")
            position[m.partition()] = m.offset() + 1
        else:
            lines.append(f"{'F' if m.error().fatal() else 'E'} {time.monotonic_ns()} {m.error().name()}\n")
            fatal = fatal or m.error().fatal()
    say(lines)
    if fatal:
        break
    if time.time() - committed > 0.5:
        commit(c, list(position))
        committed = time.time()
c.close()
