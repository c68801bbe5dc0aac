import os
from confluent_kafka import Consumer, Producer

broker = {
    "bootstrap.servers": os.environ["BROKER"],
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "seb",
    "sasl.password": os.environ["KEY"],
}

producer = Producer({**broker, "enable.idempotence": True, "compression.type": "zstd"})
for name, color in ("rose", "red"), ("lily", "white"):
    producer.produce("plants", key=name, value=color, headers={"from": "python"})
producer.flush()

consumer = Consumer({**broker, "group.id": "gardeners", "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe(["plants"])
for _ in range(2):
    message = consumer.poll(30)
    print(message.key().decode(), "is", message.value().decode(), "at", message.offset())
consumer.commit(asynchronous=False)
consumer.close()
