"""A producer or a worker of procrastinate, which the benchmark starts.

send: reads lines "SENDER MESSAGE MESSAGE ...", and answers "SENDER" when the messages are stored.
work: writes a line "TIME MESSAGE" for each message with which it begins.
"""

import asyncio
import sys
import time

import procrastinate

address, queue, role, parallel = sys.argv[1:]
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=address, min_size=int(parallel), max_size=int(parallel))
)


@app.task(queue=queue, name="message")
async def message(m):
    sys.stdout.write(f"{time.time_ns()} {m}\n")


async def send():
    lines = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    running = set()

    async def one(line):
        sender, *messages = line.decode().split()
        if len(messages) == 1:
            await message.defer_async(m=messages[0])
        else:
            await message.batch_defer_async(*({"m": m} for m in messages))
        print(sender, flush=True)

    while line := await lines.readline():
        task = asyncio.create_task(one(line))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


async def flush():
    while True:
        await asyncio.sleep(0.02)
        sys.stdout.flush()


async def work():
    flushing = asyncio.create_task(flush())
    await app.run_worker_async(queues=[queue], concurrency=int(parallel))
    flushing.cancel()
    sys.stdout.flush()


async def main():
    async with app.open_async():
        if role == "schema":
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
        elif role == "send":
            await send()
        else:
            await work()


asyncio.run(main())
