"""Sends numbered records as an idempotent producer until its input ends, and then says how many there are. What is not delivered is
an error. Arguments: topic, records a second."""

import sys
import threading
import time

from confluent_kafka import Producer

from place import expect, key, settings, tell, value

topic, rate = sys.argv[1], int(sys.argv[2])
delivered = 0
ended = threading.Event()


def on_delivery(err, message):
    global delivered
    if err is not None:
        raise AssertionError(f"not delivered: {err}")
    delivered += 1


def follow():
    sys.stdin.read()
    ended.set()


threading.Thread(target=follow, daemon=True).start()
began = time.time()
p = Producer(settings(enable_idempotence=True, linger_ms=5, queue_buffering_max_messages=500_000, delivery_timeout_ms=120_000))
n = 0
while not ended.is_set():
    for _ in range(rate // 100):
        p.produce(topic, value(n), key(n), on_delivery=on_delivery)
        n += 1
    due = began + n / rate
    while True:
        p.poll(max(0, min(0.01, due - time.time())))
        if time.time() >= due and len(p) < 400_000:
            break
expect("left in the queue", p.flush(120), 0)
expect("delivered", delivered, n)
tell("idempotent", began, records=n)
