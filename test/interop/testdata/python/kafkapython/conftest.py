# Makes the integration tests of kafka-python log in to a broker that runs already.
import functools
import os

from test.integration.fixtures import KafkaFixture

KafkaFixture.broker_user = "seb"
KafkaFixture.broker_password = os.environ["KEY"]
KafkaFixture.instance = functools.partial(
    KafkaFixture.instance, transport="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512"
)
