"""Transactions: commit, abort, neither with records, two topics, offsets, a fenced producer, and a timeout. The consumers are of the
newest librdkafka. Arguments: a prefix for the names, and the path of an older librdkafka for the producers."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oldproducer import OldProducer
from place import expect, settings, tell

prefix = sys.argv[1]
library = sys.argv[2] if len(sys.argv) > 2 else None
LIMIT = 60  # seconds until a missing record is an error


def producer(name, **more):
    all = settings(transactional_id=prefix + name, **more)
    return OldProducer(library, {**all, "sasl.mechanisms": "PLAIN"}) if library else Producer(all)


def create(name, partitions):
    admin = AdminClient(settings())
    for made in admin.create_topics([NewTopic(prefix + name, partitions, 1)]).values():
        made.result(LIMIT)
    return prefix + name


def plain(topic, partition, *values):
    """Writes records without a transaction."""
    p = Producer(settings())
    for value in values:
        p.produce(topic, value, partition=partition)
    expect("left in the queue", p.flush(LIMIT), 0)


def consumer(level, group):
    return Consumer(settings(group_id=group, isolation_level=level, auto_offset_reset="earliest", enable_auto_commit=False))


def poll(c):
    until = time.time() + LIMIT
    while time.time() < until:
        m = c.poll(0.2)
        if m is None:
            continue
        if m.error() is None:
            return m
        if m.error().code() != KafkaError._PARTITION_EOF:
            raise AssertionError(m.error())
    raise AssertionError(f"no record came from {c.assignment()}")


def read(topic, partition, level, ends=1):
    """The values of a partition until "end" came a number of times."""
    c = consumer(level, prefix + "none")
    c.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    values = []
    while ends > 0:
        v = poll(c).value().decode()
        if v == "end":
            ends -= 1
        else:
            values.append(v)
    c.close()
    return values


def refused(what, action):
    """The error with which a call ends."""
    try:
        action()
    except KafkaException as e:
        return e.args[0]
    raise AssertionError(what + ": no error")


def ends():
    topic = create("ends", 2)
    p = producer("ends")
    p.init_transactions(LIMIT)
    for value in ["a", "x", "", "b", "-", "c"]:
        p.begin_transaction()
        if value in "abxc" and value:
            for n in range(10):
                p.produce(topic, f"{value}{n}", partition=n % 2)
        p.flush(LIMIT)
        if value in ("x", "-"):
            p.abort_transaction(LIMIT)
        else:
            p.commit_transaction(LIMIT)
    for partition in range(2):
        plain(topic, partition, "end")
        for level, want in ("read_committed", "abc"), ("read_uncommitted", "axbc"):
            expect(level, read(topic, partition, level), [f"{v}{n}" for v in want for n in range(partition, 10, 2)])


def topics():
    one, two = create("one", 1), create("two", 3)
    p = producer("topics")
    p.init_transactions(LIMIT)
    for n in range(6):
        p.begin_transaction()
        p.produce(one, f"n{n}", partition=0)
        p.produce(two, f"n{n}", partition=n % 3)
        p.flush(LIMIT)
        if n % 2 == 0:
            p.commit_transaction(LIMIT)
        else:
            p.abort_transaction(LIMIT)
    plain(one, 0, "end")
    expect("first topic", read(one, 0, "read_committed"), ["n0", "n2", "n4"])
    for partition, committed in enumerate(["n0", "n4", "n2"]):
        plain(two, partition, "end")
        expect("second topic", read(two, partition, "read_committed"), [committed])
        expect("second topic, all", read(two, partition, "read_uncommitted"), [f"n{partition}", f"n{partition + 3}"])


def offsets():
    source, target, group = create("in", 1), create("out", 1), prefix + "group"
    wanted = [f"n{n}" for n in range(20)]
    plain(source, 0, *wanted)
    p, c = producer("offsets"), consumer("read_committed", group)
    p.init_transactions(LIMIT)
    c.subscribe([source])
    position, rounds = 0, 0
    while position < len(wanted):
        m = poll(c)
        expect("the offset", m.offset(), position)
        p.begin_transaction()
        p.produce(target, m.value(), partition=0)
        p.send_offsets_to_transaction([TopicPartition(source, 0, position + 1)], group if library else c.consumer_group_metadata(), LIMIT)
        if rounds == 0:
            other = consumer("read_committed", group)
            error = refused("the offset within a transaction", lambda: other.committed([TopicPartition(source, 0)], timeout=0.5))
            if error.code() not in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
                raise AssertionError(error)
        if rounds % 4 == 1:
            p.abort_transaction(LIMIT)
            c.seek(TopicPartition(source, 0, position))
        else:
            p.commit_transaction(LIMIT)
            position += 1
        rounds += 1
        expect("the committed offset", c.committed([TopicPartition(source, 0)], timeout=LIMIT)[0].offset, position)
    c.close()
    plain(target, 0, "end")
    expect("copied", read(target, 0, "read_committed"), wanted)


def fencing():
    topic = create("fenced", 1)
    old, new = producer("fenced"), producer("fenced")
    old.init_transactions(LIMIT)
    old.begin_transaction()
    old.produce(topic, "old", partition=0)
    old.flush(LIMIT)
    new.init_transactions(LIMIT)
    new.begin_transaction()
    new.produce(topic, "new", partition=0)
    error = refused("commit of a fenced producer", lambda: old.commit_transaction(LIMIT))
    if not error.fatal():
        raise AssertionError(error)
    new.commit_transaction(LIMIT)
    plain(topic, 0, "end")
    expect("both", read(topic, 0, "read_committed"), ["new"])


def timeout():
    topic = create("timeout", 1)
    p = producer("timeout", transaction_timeout_ms=1000, message_timeout_ms=900)
    p.init_transactions(LIMIT)
    p.begin_transaction()
    p.produce(topic, "late", partition=0)
    p.flush(LIMIT)
    plain(topic, 0, "end")
    expect("after the timeout", read(topic, 0, "read_committed"), [])
    refused("a commit after the timeout", lambda: p.commit_transaction(LIMIT))
    p = producer("timeout")
    p.init_transactions(LIMIT)
    p.begin_transaction()
    p.produce(topic, "next", partition=0)
    p.commit_transaction(LIMIT)
    plain(topic, 0, "end")
    expect("the next producer", read(topic, 0, "read_committed", 2), ["next"])


for scene in ends, topics, offsets, fencing, timeout:
    began = time.time()
    scene()
    tell("transactions: " + scene.__name__, began)
