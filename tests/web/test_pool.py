"""Turns, cancellation and replacement of the processes that answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from groupdp.web.pool import SLOW, Limits, Pool
from web.questions import question, without_group

HEAVY = json.dumps(without_group(name="fdp", group_sizes=list(range(20, 100)))).encode()
LIGHT = json.dumps(without_group(name="renyi", group_sizes=[2])).encode()
QUICK = json.dumps(question()).encode()


def never():
    return asyncio.get_running_loop().create_future()


async def with_pool(work, **limits):
    """Of two workers: one for quick questions and one for slow ones."""
    usual = {"quick": 1, "middling": 0, "slow": 1, "old": 0, "young_seconds": 600.0, "seconds": 600.0}
    pool = Pool(Limits(**{**usual, **limits}))
    await pool.start()
    try:
        return await work(pool)
    finally:
        await pool.stop()


def test_slow_questions_have_a_lane_of_their_own():
    assert "baseline" in SLOW

    async def work(pool):
        heavy = asyncio.ensure_future(pool.ask("baseline", HEAVY, never()))
        while not pool._slow.answering:
            await asyncio.sleep(0.01)
        statuses = [(await pool.ask("epsilon", QUICK, never()))[0] for _ in range(5)]
        assert not heavy.done()
        heavy.cancel()
        return statuses

    assert asyncio.run(with_pool(work)) == [200] * 5


async def all_there(pool, number=2):
    while len(pool._workers) < number:
        await asyncio.sleep(0.01)


def test_a_question_nobody_waits_for_is_given_up_and_the_worker_kept(monkeypatch):
    monkeypatch.setattr("groupdp.web.pool.GRACE", 600.0)

    async def work(pool):
        await all_there(pool)
        before, gone = set(pool._workers), never()
        asyncio.get_running_loop().call_later(0.2, gone.set_result, None)
        status, _ = await pool.ask("baseline", HEAVY, gone)
        after = (await pool.ask("epsilon", QUICK, never()))[0]
        return status, after, pool._workers == before

    assert asyncio.run(with_pool(work)) == (499, 200, True)


def test_a_worker_that_does_not_listen_is_replaced(monkeypatch):
    from groupdp.web import pool as pools

    monkeypatch.setattr(pools, "GRACE", 0.0)
    monkeypatch.setattr(pools.Worker, "cancel", lambda _: None)
    ask = pools.Worker.ask  # the process is not told the limit of time: it would end by itself at the same moment
    monkeypatch.setattr(pools.Worker, "ask", lambda self, name, body, _: ask(self, name, body, 600.0))

    async def work(pool):
        await all_there(pool)
        before = set(pool._workers)
        pool.limits = replace(pool.limits, seconds=0.2)
        status, text = await pool.ask("baseline", HEAVY, never())
        pool.limits = replace(pool.limits, seconds=600.0)  # a new process may take its time
        after = (await pool.ask("baseline", LIGHT, never()))[0]
        return status, json.loads(text)["error"]["kind"], after, len(pool._workers - before)

    assert asyncio.run(with_pool(work)) == (422, "limit-exceeded", 200, 1)


async def kill(workers):
    for worker in workers:
        worker._process.kill()
    await asyncio.gather(*(worker._process.wait() for worker in workers))


def test_a_question_whose_process_ends_is_asked_again_once():
    """It was said to need more memory than there is, which was false."""

    async def work(pool):
        gone = never()
        asked = asyncio.ensure_future(pool.ask("baseline", HEAVY, gone))
        await all_there(pool, 3)
        while pool._idle[False].qsize() != 1:  # of two, one answers
            await asyncio.sleep(0.01)
        idle = pool._idle[False].get_nowait()
        pool._idle[False].put_nowait(idle)
        await kill([worker for worker in pool._workers if not worker.is_cheap and worker is not idle])
        while idle in pool._idle[False]._queue:  # the other one has been asked, and is at it for long
            await asyncio.sleep(0.01)
        assert not asked.done()
        gone.set_result(None)
        return (await asked)[0]

    assert asyncio.run(with_pool(work, slow=2)) == 499


def test_workers_found_dead_are_replaced():
    async def work(pool):
        await pool.ask("handover", QUICK, never())
        await kill(list(pool._workers))
        return (await pool.ask("epsilon", QUICK, never()))[0]

    assert asyncio.run(with_pool(work)) == 200


def test_a_question_that_ends_two_processes_is_refused_with_the_reason(monkeypatch):
    from groupdp.web import pool as pools

    async def ended(*_):
        raise ConnectionError("a worker ended")

    async def work(pool):
        monkeypatch.setattr(pools.Worker, "ask", ended)
        return await pool.ask("epsilon", QUICK, never())

    status, text = asyncio.run(with_pool(work, slow=0))
    error = json.loads(text)["error"]
    assert (status, error["kind"]) == (503, "process-ended")
    assert "ended unexpectedly" in error["sentence"]
    assert "memory" not in error["sentence"]


def test_waiting_questions_are_limited():
    async def work(pool):
        answers = await asyncio.gather(*(pool.ask("epsilon", QUICK, never()) for _ in range(12)))
        return sorted(status for status, _ in answers)

    statuses = asyncio.run(with_pool(work, slow=0, waiting=5))
    assert statuses.count(200) >= 5
    assert statuses[-1] == 503


def test_an_old_question_frees_its_turn():
    async def work(pool):
        old = asyncio.ensure_future(pool.ask("epsilon", QUICK, never()))
        return (await old)[0], pool._old.answering

    assert asyncio.run(with_pool(work, slow=0, old=1, young_seconds=0.0)) == (200, 0)
