"""What every script has in common: settings for the broker, records that prove themselves, and how results are told."""

import json
import os
import time
import zlib

KEYS = 10_007
FILLER = b"seb " * 32
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def settings(**more):
    """Settings of a client for the broker; names have underscores instead of dots."""
    all = {
        "bootstrap.servers": os.environ["BROKER"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "python",
        "sasl.password": os.environ["KEY"],
    }
    all.update({name.replace("_", "."): value for name, value in more.items()})
    return all


def key(n):
    return b"key-%d" % (n % KEYS)


def value(n):
    text = b"%d" % n
    return b"%s:%08x:%s" % (text, zlib.crc32(text), FILLER[: n % 96])


def number(message):
    """The number that a message is of; anything but a record that was sent is an error."""
    v = message.value()
    n = int(v[: v.index(b":")])
    if v != value(n) or message.key() != key(n):
        raise AssertionError(f"no record that was sent: {message.key()} {v}")
    return n


def tell(check, began, **figures):
    """Tells that a check has passed, in a line of JSON."""
    print(json.dumps({"check": check, "seconds": time.time() - began, **figures}), flush=True)


def expect(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, want {want!r}")
