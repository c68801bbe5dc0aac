"""Shows the key by each mechanism, and a wrong one. Argument: a topic."""

import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from place import expect, settings, tell

topic = sys.argv[1]
began = time.time()
for mechanism in "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
    p = Producer(settings(sasl_mechanisms=mechanism))
    p.produce(topic, mechanism.encode())
    expect("left in the queue", p.flush(30), 0)
    c = Consumer(settings(sasl_mechanisms=mechanism, group_id="none"))
    low, high = c.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    c.assign([TopicPartition(topic, 0, high - 1)])
    expect(mechanism, c.poll(30).value(), mechanism.encode())
    c.close()

    errors = []
    wrong = Producer({**settings(sasl_mechanisms=mechanism, sasl_password="wrong"), "error_cb": errors.append})
    until = time.time() + 30
    while time.time() < until and not any(e.code() == KafkaError._AUTHENTICATION for e in errors):
        wrong.poll(0.1)
    if not any(e.code() == KafkaError._AUTHENTICATION for e in errors):
        raise AssertionError(f"{mechanism} with a wrong key: {errors}")
tell("SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, each with a wrong key too", began)
