"""A worker whose handler takes as many seconds as the message says. It ends at ctrl-C.

    python3 worker.py [--sync] QUEUE
"""

from __future__ import annotations

import asyncio
import os
import sys

from generate import run_sync
from sebbroker import AsyncClient, Message
from sebbroker._async.platform import sleep

SYNC = False


async def handler(message: Message) -> None:
    print("started", flush=True)
    await sleep(float(message.text))
    print("finished", flush=True)


async def main() -> None:
    async with AsyncClient(os.environ["SEB_ADDRESS"], token=os.environ["SEB_API_KEY"]) as client:
        await client.work(sys.argv[-1], handler)


if __name__ == "__main__":
    if SYNC:
        main()  # type: ignore[unused-coroutine]
    elif "--sync" in sys.argv:
        run_sync(__file__, globals())
    else:
        asyncio.run(main())
