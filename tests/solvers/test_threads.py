"""Threads: items are worked on at the same time, and their values come in order."""

import threading
import time

import pytest

from cofem.solvers.threads import as_done, in_threads

# Two items that wait for each other: one thread alone would wait for ever.
PATIENCE = 60


def meeting(parties):
    barrier = threading.Barrier(parties, timeout=PATIENCE)

    def meet(item):
        barrier.wait()
        return 10 * item

    return meet


def test_items_are_worked_on_at_the_same_time():
    assert list(as_done(meeting(2), [1, 2], threads=2)) == [10, 20]
    assert in_threads(meeting(2), [1, 2], threads=2) == [10, 20]


@pytest.mark.parametrize(("items", "threads"), [([1, 2, 3], 1), ([1], 4), ([], 4)])
def test_one_thread_or_one_item_stays_in_the_thread_that_asks(items, threads):
    here = threading.get_ident()
    for found in (
        as_done(lambda _: threading.get_ident(), items, threads),
        in_threads(lambda _: threading.get_ident(), items, threads),
    ):
        assert list(found) == [here] * len(items)


def test_values_come_in_the_order_of_the_items():
    first_is_done = threading.Event()

    def slow_first(item):
        if item == 0:
            first_is_done.wait(PATIENCE)
        else:
            first_is_done.set()
        return item

    assert list(as_done(slow_first, [0, 1], threads=2)) == [0, 1]
    first_is_done.clear()
    assert in_threads(slow_first, [0, 1], threads=2) == [0, 1]


def test_items_that_have_not_begun_are_dropped_after_an_error():
    begun = []

    def fails(item):
        begun.append(item)
        if item > 0:
            time.sleep(0.01)  # so that the error is seen before all of them are done
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        list(as_done(fails, range(1000), threads=2))
    assert len(begun) < 1000
