"""Many jobs in worker processes: what crashes or hangs is told, and its worker replaced."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import attrs

POLL = 0.5
"""Seconds between two looks at the clocks of the workers."""
HELD = 4 << 30
"""A worker that holds more bytes behind a job is replaced: what one job that was ended left is not the next one's."""


@attrs.frozen
class Lost:
    """A job without an answer: its process ended ("crash"), it took too long ("time-out"), or it raised ("harness")."""

    reason: str
    detail: str
    seconds: float = 0.0
    stack: str = ""
    """What faulthandler told of a process that took too long."""


@attrs.define(eq=False)
class Worker:
    """A process that does one job after the other."""

    process: Any
    pipe: Connection
    job: Any = None
    since: float = 0.0
    stack: Path = Path(os.devnull)

    @classmethod
    def started(cls, context: Any, work: Callable[[Any], Any]) -> Worker:
        """A new worker, ready for a job."""
        ours, theirs = context.Pipe()
        handle, stack = tempfile.mkstemp(prefix="irkit-worker-")
        os.close(handle)
        process = context.Process(target=serve, args=(theirs, work, stack), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, stack=Path(stack))

    def give(self, job: Any) -> None:
        """Hands the worker a job."""
        self.job, self.since = job, time.monotonic()
        self.pipe.send(job)

    def held(self) -> int:
        """How many bytes the process holds; 0 where the system does not tell."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.stack.unlink(missing_ok=True)

    def answer(self, ready: bool, limit: float) -> Any:
        """What became of the job; None while the worker is still at it."""
        spent = time.monotonic() - self.since
        if ready:
            try:
                return self.pipe.recv()
            except (EOFError, OSError):
                self.process.join(5)
                return Lost("crash", f"the process ended with {self.process.exitcode}", round(spent, 2))
        return Lost("time-out", f"more than {limit:g} seconds", round(spent, 2)) if spent > limit else None

    def asked_stack(self) -> str:
        """Where the process is, innermost line first; "" where it does not say so within two seconds."""
        os.kill(self.process.pid, signal.SIGUSR1)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            time.sleep(POLL / 5)
            if told := self.stack.read_text(encoding="utf-8", errors="replace"):
                time.sleep(POLL / 5)  # the rest of it
                return self.stack.read_text(encoding="utf-8", errors="replace") or told
        return ""


def serve(pipe: Connection, work: Callable[[Any], Any], stack: str) -> None:
    """Does the jobs that come through the pipe until it closes; says where it is in the file `stack` when asked by
    SIGUSR1, which faulthandler answers even where the process is in a library."""
    import torch

    with Path(stack).open("w", encoding="utf-8") as told:
        faulthandler.register(signal.SIGUSR1, told)
        torch.set_num_threads(1)
        answer_jobs(pipe, work)


def answer_jobs(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """Does the jobs that come through the pipe until it closes."""
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            found = work(job)
        except Exception as error:  # the harness itself
            found = Lost("harness", f"{type(error).__name__}: {error}"[:300])
        pipe.send(found)


def worked(
    jobs: Iterable[Any],
    work: Callable[[Any], Any],
    workers: int,
    limit: float,
    preload: Sequence[str] = (),
    held: int = HELD,
) -> Iterator[tuple[Any, Any]]:
    """(job, what `work` gives for it, or a `Lost`), as they finish, each within `limit` seconds, by workers that hold
    no more than `held` bytes when they begin.

    Jobs, answers and `work` are pickled; `preload` names modules that workers import but once.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    todo = iter(jobs)
    busy: list[Worker] = []
    try:
        for job in todo:
            busy.append(Worker.started(context, work))
            busy[-1].give(job)
            if len(busy) >= workers:
                break
        while busy:
            ready = set(wait([w.pipe for w in busy], POLL))
            for worker in list(busy):
                found = worker.answer(worker.pipe in ready, limit)
                if found is None:
                    continue
                if isinstance(found, Lost) and found.reason == "time-out":
                    found = attrs.evolve(found, stack=worker.asked_stack())
                yield worker.job, found
                busy.remove(worker)
                lost = (isinstance(found, Lost) and found.reason != "harness") or worker.held() > held
                job = next(todo, None)
                if lost or job is None:
                    worker.stop()
                if job is not None:
                    worker = Worker.started(context, work) if lost else worker
                    worker.give(job)
                    busy.append(worker)
    finally:
        for worker in busy:
            worker.stop()
