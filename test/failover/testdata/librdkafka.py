"""A client of the failover campaign. Arguments: produce or consume, a topic, settings as name=value."""

import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


def tell(kind, *words):
    sys.stdout.write(f"{kind} {time.time_ns() // 1000} {' '.join(map(str, words))}\n")
    sys.stdout.flush()


def delivered(error, message):
    number = message.value().split()[0].decode()
    if error is None:
        tell("ack", number, message.offset())
    else:
        tell("lost", number, error.name())


def produce(topic, settings):
    producer = Producer(settings)

    def poll():
        while True:
            producer.poll(1)

    threading.Thread(target=poll, daemon=True).start()
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n").encode(), partition=0, on_delivery=delivered)
    producer.flush()


def consume(topic, settings):
    consumer = Consumer(settings | {"group.id": "none", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while True:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            tell("err", message.error().name())
        else:
            tell("rec", message.offset(), message.value().decode())


mode, topic = sys.argv[1:3]
settings = dict(s.split("=", 1) for s in sys.argv[3:])
settings["error_cb"] = lambda error: tell("err", error.name())
{"produce": produce, "consume": consume}[mode](topic, settings)
