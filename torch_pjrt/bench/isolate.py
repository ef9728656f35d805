"""Runs a function in a forked process that may crash, or be interrupted and still answer."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Tell = Callable[[str, int, int], None]

# Ctrl-C in a terminal reaches the child too, at any moment. So the child ignores it, and hears of
# it from the parent by this signal.
_INTERRUPT = signal.SIGUSR1


@dataclass
class Outcome(Generic[Result]):
    """value is None if the child ended without an answer: then lost says how it ended."""

    value: Result | None = None
    lost: str = ""
    interrupted: bool = False


def run_isolated(work: Callable[[Tell], Result], tell: Tell) -> Outcome[Result]:
    """work(tell) in a child process. Its result must be picklable, and work should turn a
    KeyboardInterrupt into a partial result. A second Ctrl-C kills the child.

    While tell(stage, done, total) runs in the parent the child waits, so that drawing does not
    disturb its timing. From a call with total > 0 until one with total = 0, work is in a loop that
    calls tell at every turn, and Ctrl-C is raised by that call only: elsewhere the exception could
    strike inside one of Dynamo's guards, which takes it for a guard that failed, and compiles.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(work, ours, theirs), daemon=True)
    outcome: Outcome[Result] = Outcome()
    with _forwarded_interrupts(child, outcome):
        child.start()
        theirs.close()
        with contextlib.suppress(EOFError, ConnectionResetError):
            _listen(ours, tell, outcome)
        child.join()
    ours.close()
    if outcome.value is None:
        outcome.lost = _how_it_ended(child.exitcode)
    return outcome


def _listen(connection: Connection, tell: Tell, outcome: Outcome[Any]) -> None:
    """Hands progress to tell and stores the result. Raises EOFError if the child is gone first."""
    while True:
        kind, payload = connection.recv()
        if kind == "result":
            outcome.value = payload
            return
        tell(*payload)
        with contextlib.suppress(BrokenPipeError):
            connection.send(outcome.interrupted)


def _child(work: Callable[[Tell], Any], parents: Connection, connection: Connection) -> None:
    parents.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(_INTERRUPT, signal.default_int_handler)
    faulthandler.enable()

    def tell(stage: str, done: int, total: int) -> None:
        signal.signal(_INTERRUPT, signal.SIG_IGN if total else signal.default_int_handler)
        connection.send(("progress", (stage, done, total)))
        if connection.recv():
            raise KeyboardInterrupt

    result = work(tell)
    signal.signal(_INTERRUPT, signal.SIG_IGN)
    connection.send(("result", result))


@contextlib.contextmanager
def _forwarded_interrupts(child: BaseProcess, outcome: Outcome[Any]) -> Iterator[None]:
    """Passes a Ctrl-C on to the child instead of raising it here. Does nothing on another thread
    than the main one, where Python allows no signal handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(number: int, frame: object) -> None:
        if child.pid is None or not child.is_alive():
            outcome.interrupted = True
        elif outcome.interrupted:
            child.kill()
        else:
            outcome.interrupted = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, _INTERRUPT)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"the process was killed by {signal.Signals(-exit_code).name}"
    return f"the process ended with exit status {exit_code}, without a result"
