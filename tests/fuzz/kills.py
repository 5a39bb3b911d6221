"""Saves that are killed at random moments: the old model is whole until the new one stands, and nothing is left over.

`python -m tests.fuzz.kills 200` kills so many. Each round saves over one model, in all forms in turn, until it is
killed; what stands then must load, with the weights of one save, and of the last one that was known to be done, or a
later one. The next save that is not killed must leave nothing but the model and its weights.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import irkit
from irkit import op, tensor
from irkit.core.ir import Graph

ROWS = 300
FORMS = ("beside", "inside", "text")


def graph_of(number: int) -> Graph:
    """A model all of whose weights hold one number."""
    x = irkit.param(tensor("f32", "n", ROWS))
    value = x
    for name in "abc":
        value = op.MatMul(value, irkit.const(np.full((ROWS, ROWS), number, np.float32), name=name))
    return Graph((x,), (value,))


def save(number: int, folder: Path, form: str) -> None:
    """Saves the model of a number in one form."""
    if form == "text":
        irkit.save_text(graph_of(number), folder / "m.irkit")
    else:
        irkit.save(graph_of(number), folder / "m.onnx", external=form == "beside")


def number_in(folder: Path, form: str) -> int:
    """The number that all weights of what stands hold. Raises ValueError where they hold several."""
    graph = irkit.load_text(folder / "m.irkit") if form == "text" else irkit.load(folder / "m.onnx")
    found = {float(n) for v in graph.order if v.blob is not None for n in np.unique(v.blob.array)}
    if len(found) != 1:
        raise ValueError(f"the weights of {sorted(found)} are mixed")
    return int(found.pop())


def killed(folder: Path, form: str, first: int, seconds: float) -> int:
    """Saves numbers from `first` up in a process that is killed after so many seconds: the last one that was done."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        for number in range(first, 1 << 20):
            save(number, folder, form if form == "text" or number % 3 else "inside")
            os.write(writing, number.to_bytes(4, "little"))
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    done = os.read(reading, 1 << 20)
    os.close(reading)
    return int.from_bytes(done[-4:], "little") if done else first - 1


def round_of(rng: random.Random, form: str, kills: int) -> None:
    """So many kills over one model. Raises ValueError where it is not whole, or something is left over."""
    with tempfile.TemporaryDirectory() as name:
        folder, number = Path(name), 1
        save(number, folder, form)
        for _ in range(kills):
            done = killed(folder, form, number + 1, rng.uniform(0.001, 0.12))
            number = number_in(folder, form)
            if number < done:
                raise ValueError(f"save {done} was done, and {number} stands")
        save(number + 1, folder, form)
        left = sorted(each.name for each in folder.iterdir())
        wanted = {"text": 2, "beside": 2, "inside": 1}[form]
        if number_in(folder, form) != number + 1 or len(left) != wanted:
            raise ValueError(f"after {kills} kills there are {left}")


def main(count: int, seed: int = 0) -> None:
    """Kills `count` saves."""
    rng = random.Random(seed)
    for form in FORMS:
        share = -(-count // len(FORMS))
        for start in range(0, share, 10):
            round_of(rng, form, min(10, share - start))
        print(f"{form}: {share} kills, whole each time, nothing left over", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
