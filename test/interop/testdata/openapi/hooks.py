"""Bodies and answers of media types that schemathesis does not know."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.serializer("application/vnd.seb.recordbatch")
def recordbatch(ctx, value):
    return value.encode() if isinstance(value, str) else bytes(value)


@schemathesis.deserializer("multipart/form-data")
def multipart(ctx, response):
    return {"sizes": [], "records": ""}


@schemathesis.deserializer("application/x-ndjson", "text/event-stream", "application/vnd.seb.recordbatch")
def text(ctx, response):
    return response.content.decode("latin-1")
