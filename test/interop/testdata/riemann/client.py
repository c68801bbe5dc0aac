"""Sends the events of a file with riemann-client or bernhard, or prints the answer to a query.

usage: client.py riemann|bernhard send FILE | query TEXT    (environment: PORT)
"""

import json
import os
import sys

port = int(os.environ["PORT"])


def fields(event):
    """The arguments of both clients: the metric as the field of its kind."""
    metric = event.pop("metric")
    kind = event.pop("kind")
    event["metric_" + kind] = int(metric) if kind == "sint64" else float(metric)
    return event


def shown(event):
    """An event of an answer in the form of the file."""
    kind = next(k for k in ("sint64", "d", "f") if event.HasField("metric_" + k))
    return json.dumps({
        "host": event.host, "service": event.service, "state": event.state, "description": event.description,
        "time": event.time, "ttl": event.ttl, "tags": list(event.tags),
        "attributes": {a.key: a.value for a in event.attributes}, "metric": str(getattr(event, "metric_" + kind)),
    })


def batches(name, size=100):
    with open(name) as f:
        events = [fields(json.loads(line)) for line in f]
    return [events[i:i + size] for i in range(0, len(events), size)]


def riemann(command, argument):
    from riemann_client.client import Client
    from riemann_client.transport import TCPTransport

    with Client(TCPTransport("127.0.0.1", port)) as client:
        if command == "query":
            return client.transport.send(query(argument)).events
        for events in batches(argument):
            if not client.events(*events).ok:
                sys.exit("not acknowledged")
    return []


def query(text):
    from riemann_client import riemann_pb2

    message = riemann_pb2.Msg()
    message.query.string = text
    return message


def bernhard(command, argument):
    from bernhard import Client

    client = Client("127.0.0.1", port)
    if command == "query":
        return [e.event for e in client.query(argument)]
    for events in batches(argument):
        if not client.send(*events):
            sys.exit("not acknowledged")
    return []


for answered in {"riemann": riemann, "bernhard": bernhard}[sys.argv[1]](*sys.argv[2:]):
    print(shown(answered))
