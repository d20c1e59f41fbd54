"""Clients share a lane evenly, by the seconds they have used."""

from __future__ import annotations

import asyncio

from groupdp.web.pool import Lane


async def served(lane, asked, seconds):
    """The order in which (client, number) are answered, each for so many seconds of the lane."""
    order = []

    async def ask(client, number):
        await lane.queue(client)
        order.append((client, number))
        await asyncio.sleep(0)
        lane.leave(client, seconds[client])

    await lane.queue("before")  # the lane is busy until all have asked
    tasks = [asyncio.ensure_future(ask(client, number)) for client, number in asked]
    await asyncio.sleep(0)
    lane.leave("before", 1.0)
    await asyncio.gather(*tasks)
    return order


def test_a_newcomer_does_not_wait_behind_everybody_elses_questions():
    asked = [("a", number) for number in range(60)] + [("b", number) for number in range(3)]
    order = asyncio.run(served(Lane(1), asked, {"a": 1.0, "b": 1.0}))
    assert [order.index(("b", number)) for number in range(3)] == [1, 3, 5]
    assert [number for client, number in order if client == "a"] == list(range(60))


def test_who_asks_costly_questions_is_answered_less_often():
    asked = [(client, number) for number in range(40) for client in ("a", "b")]
    order = asyncio.run(served(Lane(1), asked, {"a": 4.0, "b": 1.0}))
    first = order[:30]
    assert sum(client == "b" for client, _ in first) >= 3 * sum(client == "a" for client, _ in first)


def test_one_client_never_has_all_places():
    async def work():
        lane = Lane(3)
        await lane.queue("a")
        await lane.queue("a")
        third = lane.queue("a")
        assert not third.done()
        assert lane.queue("b").done()
        assert lane.answering == 3
        assert not lane.take("c")
        lane.leave("a", 1.0)
        await third
        return lane.answering

    assert asyncio.run(work()) == 3


def test_who_gives_up_leaves_no_trace():
    async def work():
        lane = Lane(1)
        first, second, third = (lane.queue(client) for client in "abc")
        assert [turn.done() for turn in (first, second, third)] == [True, False, False]
        lane.abandon("b", second)
        lane.abandon("a", first)  # whose turn it is
        assert third.done()
        lane.leave("c", 1.0)
        return lane.answering, lane._used, lane._waiting

    assert asyncio.run(work()) == (0, {}, {})
