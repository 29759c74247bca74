"""Work on threads: every task is done once, here or there, and its failure is heard."""

import pytest

from fattail._tools.threads import run_parallel, thread_count


def test_all_tasks_are_done_and_in_order():
    assert run_parallel([lambda k=k: k**2 for k in range(20)]) == [k**2 for k in range(20)]


def test_each_task_is_done_once():
    done = []
    assert run_parallel([lambda k=k: done.append(k) for k in range(50)]) == [None] * 50
    assert sorted(done) == list(range(50))


def test_a_failure_on_another_thread_is_raised_here():
    def fails():
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        run_parallel([lambda: None, fails])


def test_the_number_of_threads_is_the_users(monkeypatch):
    monkeypatch.setenv("FATTAIL_NUM_THREADS", "3")
    assert thread_count() == 3
