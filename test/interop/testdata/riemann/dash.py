"""Subscribes to the index by WebSocket and prints the service of each event, until it has a number of them and a second passes.

usage: dash.py URL COUNT
"""

import asyncio
import json
import sys

import websockets


async def main(url, count):
    async with websockets.connect(url) as socket:
        print("open", flush=True)
        got = 0
        while True:
            try:
                text = await asyncio.wait_for(socket.recv(), 1 if got >= count else 120)
            except asyncio.TimeoutError:
                return
            got += 1
            print(json.loads(text)["service"], flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
