"""Client of Seb, an event broker: records, events and triggers, queues and their workers, webhooks.

    with sebbroker.Client("http://127.0.0.1:51313", token="...") as client:
        client.produce("orders", ["placed"])
"""

from . import webhook
from ._async.client import AsyncClient
from ._async.consumer import AsyncConsumer
from ._core import VERSION as __version__
from ._errors import OutcomeUnknownError, RejectedError, SebError
from ._records import Message, Record
from ._sync.client import Client
from ._sync.consumer import Consumer
from ._types import Code
from ._work import GiveUp, RetryAfter

__all__ = [
    "AsyncClient", "AsyncConsumer", "Client", "Code", "Consumer", "GiveUp", "Message", "OutcomeUnknownError", "Record",
    "RejectedError", "RetryAfter", "SebError", "__version__", "webhook",
]
