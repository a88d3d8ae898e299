"""Keeps 200 sessions generating over 4 streams, also while the server restarts.

Its sessions outlive the server if that is started with --store DIRECTORY.
"""
import argparse
import asyncio

from steadystate import AsyncClient, AsyncMultiplexer, Sampling


async def tell(client: AsyncClient, multiplexer: AsyncMultiplexer, number: int,
               count: int) -> str:
    session = await client.create_session()
    carried = multiplexer.carry(session)
    sampling = Sampling(temperature=0.7, seed=number)
    tokens = [drawn.token async for drawn in carried.generate(
        f"Chapter {number}: ", max_tokens=count, sampling=sampling)]
    text = await client.detokenize(tokens)
    await session.delete()
    return text


async def main(address: str, sessions: int, streams: int, count: int) -> None:
    async with AsyncClient(address) as client:
        async with client.multiplexer(streams) as multiplexer:
            texts = await asyncio.gather(*(
                tell(client, multiplexer, number, count)
                for number in range(sessions)))
        for number, text in enumerate(texts):
            print(number, repr(text))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("address", help="HOST:PORT")
parser.add_argument("--sessions", type=int, default=200)
parser.add_argument("--streams", type=int, default=4)
parser.add_argument("--tokens", type=int, default=100)
options = parser.parse_args()
asyncio.run(main(options.address, options.sessions, options.streams,
                 options.tokens))
