"""Forwards TCP connections to a port of this machine to the same port of HOST, as a container's mapped port does.

forwarder.py PORT HOST
"""
import asyncio
import sys


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection(HOST, PORT)
    except OSError:
        return writer.close()
    await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))


async def main() -> None:
    await (await asyncio.start_server(forward, None, PORT)).serve_forever()


PORT, HOST = int(sys.argv[1]), sys.argv[2]
asyncio.run(main())
