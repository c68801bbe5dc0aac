"""Asks for transactions, which are refused."""

import time

from confluent_kafka import KafkaError, KafkaException, Producer

from place import expect, settings, tell

began = time.time()
p = Producer(settings(transactional_id="tx"))
try:
    p.init_transactions(60)
    raise AssertionError("init_transactions succeeded")
except KafkaException as e:
    error = e.args[0]
    expect("the error", error.code(), KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    expect("it is fatal", error.fatal(), True)
tell("transactions: init_transactions says TRANSACTIONAL_ID_AUTHORIZATION_FAILED", began)
