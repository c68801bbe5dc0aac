"""Writes records, a fifth with each codec and headers on every tenth, and reads them. Arguments: topic, count."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from place import CODECS, expect, key, number, settings, tell, value

topic, count = sys.argv[1], int(sys.argv[2])
PARTITIONS = 4
delivered = 0


def on_delivery(err, message):
    global delivered
    if err is not None:
        raise AssertionError(f"not delivered: {err}")
    delivered += 1


def headers(n):
    return [("number", b"%d" % n), ("empty", b""), ("null", None)] if n % 10 == 0 else None


def write():
    for i, codec in enumerate(CODECS):
        p = Producer(settings(compression_type=codec, linger_ms=20, queue_buffering_max_messages=200_000))
        for n in range(i * count // 5, (i + 1) * count // 5):
            while True:
                try:
                    p.produce(topic, value(n), key(n), on_delivery=on_delivery, headers=headers(n))
                    break
                except BufferError:
                    p.poll(0.1)
            if n % 1000 == 0:
                p.poll(0)
        expect("left in the queue", p.flush(60), 0)
    expect("delivered", delivered, count)


def read():
    c = Consumer(settings(group_id="none", enable_auto_commit=False))
    c.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    seen, last, total = bytearray(count), {}, 0
    while total < count:
        messages = c.consume(10_000, 30)
        if not messages:
            raise AssertionError(f"nothing in 30 s, after {total}")
        for m in messages:
            if m.error():
                raise AssertionError(m.error())
            n = number(m)
            expect(f"headers of {n}", m.headers(), headers(n))
            if seen[n]:
                raise AssertionError(f"{n} was read twice")
            offset, before = last.get(m.partition(), (-1, -1))
            if m.offset() != offset + 1 or n < before:
                raise AssertionError(f"{n} at {m.offset()} after {before} at {offset}")
            last[m.partition()] = m.offset(), n
            seen[n] = 1
        total += len(messages)
    c.close()


began = time.time()
write()
wrote = time.time() - began
middle = time.time()
read()
tell(f"{count:,} records, every codec, keys and headers, by content", began, written=count / wrote, read=count / (time.time() - middle))
