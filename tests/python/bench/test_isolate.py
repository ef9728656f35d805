"""A child that answers, crashes, or is interrupted."""

from __future__ import annotations

import os
import signal

import pytest

from torch_pjrt.bench import isolate
from torch_pjrt.bench.isolate import Tell


def no_progress(stage: str, done: int, total: int) -> None:
    raise AssertionError(stage)


def test_result_and_progress_come_from_another_process() -> None:
    def work(tell: Tell) -> int:
        tell("one", 0, 2)
        tell("two", 1, 2)
        return os.getpid()

    told: list[tuple[str, int, int]] = []
    outcome = isolate.run_isolated(work, lambda *stage: told.append(stage))
    assert outcome.value not in (None, os.getpid())
    assert told == [("one", 0, 2), ("two", 1, 2)]
    assert not outcome.interrupted


def test_crash_is_named() -> None:
    def work(tell: Tell) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    outcome = isolate.run_isolated(work, no_progress)
    assert outcome.value is None
    assert outcome.lost == "the process was killed by SIGKILL"
    assert not outcome.interrupted


def test_exit_without_an_answer_is_named() -> None:
    outcome = isolate.run_isolated(lambda tell: os._exit(7), no_progress)
    assert outcome.lost == "the process ended with exit status 7, without a result"


def test_interrupt_lets_the_child_answer() -> None:
    def work(tell: Tell) -> str:
        try:
            tell("running", 0, 0)
            signal.pause()
        except KeyboardInterrupt:
            return "partial"
        return "complete"

    outcome = isolate.run_isolated(work, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert outcome.value == "partial"
    assert outcome.interrupted


def test_interrupt_of_a_loop_is_raised_by_its_report() -> None:
    def work(tell: Tell) -> tuple[str, int]:
        turn = 0
        where = "report"
        try:
            for turn in range(9):
                tell("looping", turn, 9)
                where = "loop"
                os.kill(os.getpid(), isolate._INTERRUPT)
                where = "report"
        except KeyboardInterrupt:
            pass
        return where, turn

    def press_at_third(stage: str, done: int, total: int) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    outcome = isolate.run_isolated(work, press_at_third)
    assert outcome.value == ("report", 3)
    assert outcome.interrupted


def test_terminals_own_interrupt_does_not_reach_the_child() -> None:
    def work(tell: Tell) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "complete"

    outcome = isolate.run_isolated(work, no_progress)
    assert outcome.value == "complete"
    assert not outcome.interrupted


def test_second_interrupt_kills() -> None:
    def work(tell: Tell) -> None:
        signal.signal(isolate._INTERRUPT, signal.SIG_IGN)
        tell("deaf", 0, 0)
        while True:
            signal.pause()

    def press_twice(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    outcome = isolate.run_isolated(work, press_twice)
    assert outcome.value is None
    assert outcome.interrupted


def test_ctrl_c_is_as_before_afterwards() -> None:
    isolate.run_isolated(lambda tell: None, no_progress)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
