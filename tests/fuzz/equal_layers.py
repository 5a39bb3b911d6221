"""Random models of layers that are alike, which are handed an object: what they read and write of it, and what the
model changes between them, is for each layer as eager has it.

    python -m tests.fuzz.equal_layers 200 --seed 7
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import irkit
from irkit.errors import IrkitError
from lowering.direct import equal_modules
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

LAYERS = 6
SIZES = (2, 1, 4)


class Entry:
    """What a cache holds of one layer."""

    def __init__(self) -> None:
        self.keys: Any = None
        self.number = 0.0
        self.is_on = False

    def put(self, x: Any) -> Any:
        self.keys = x if self.keys is None else self.keys * 0.5 + x
        self.number, self.is_on = self.number + 1, True
        return self.keys


class Inner:
    """An object of that which layers are handed."""

    def __init__(self) -> None:
        self.factor, self.seen = 1.0, 0
        self.table: dict[str, bool] = {}

    def get(self) -> float:
        return self.factor

    def bump(self) -> int:
        self.seen += 1
        return self.seen


class Handed:
    """What layers are handed, as a cache is."""

    def __init__(self) -> None:
        self.flags = dict.fromkeys(range(LAYERS), False)
        self.done: dict[int, bool] = {}
        self.items = [1.0] * LAYERS
        self.entries = [Entry() for _ in range(LAYERS)]
        self.inner = Inner()
        self.log: list[int] = []
        self.tensors: dict[int, Any] = {}
        self.factor, self.count = 1.0, 0

    def update(self, x: Any, number: int) -> Any:
        return self.entries[number].put(x)

    def at(self, number: int) -> float:
        return self.items[number]

    def tick(self) -> int:
        self.count += 1
        return self.count

    def mark(self, number: int) -> None:
        self.done[number] = True

    def total(self) -> Any:
        """What layers left in it, as one number."""
        counts = len(self.log) + len(self.done) + self.count + self.inner.seen
        kept = [each.keys.sum() for each in self.entries if each.keys is not None]
        return counts + sum(each.number for each in self.entries) + sum(self.items) + sum(kept)


READ = (
    "y = y + 1 if c.flags.get(s.i) else y * 2", "y = y * c.items[s.i]", "y = y * c.items[0]", "y = y * c.items[-1]",
    "y = c.update(y, s.i)", "y = y + (1 if c.done.get(s.i) else 2); c.done[s.i] = True", "c.mark(s.i)",
    "y = y * c.at(s.i)", "y = y * c.inner.get()", "y = y * c.inner.factor", "y = y + len(c.done) * 0",
    "y = y + len(c.log)", "y = y + (1 if s.i in c.done else 0)", "y = y * c.factor", "y = y + c.entries[s.i].number",
    "e = c.entries[s.i]; y = y if e.keys is None else y + e.keys", "y = y + c.entries[0].number",
    "y = y + c.tick() * 0", "y = y * SHARED['factor']", "y = y * s.held['factor']", "y = y + sum(c.items)",
    "y = y * max(c.items)", "y = y + (2 if c.inner.table.get('a') else 3)", "c.inner.table['a'] = True",
    "c.log.append(s.i)", "c.log.append(1)", "y = y + c.inner.bump()", "y = y + [*c.items][s.i]",
    "y = y + (1 if c.flags[s.i] is True else 0)", "y = y + list(c.flags.values()).count(True)",
    "c.items[s.i] = c.items[s.i] + 1", "y = y + (3 if s.i > 0 and c.flags.get(s.i - 1) else 1)",
    "y = y + getattr(c, 'factor')", "y = y + (c.entries[s.i].is_on and 1 or 2)", "c.tensors[s.i] = y",
    "y = y + c.tensors.get(s.i, 0)", "y = y + c.tensors.get(0, 0)", "e = c.entries[s.i]; e.number = e.number + 1",
    "y = y + (1 if c.entries[s.i] is c.entries[0] else 2)", "y = y + bool(c.done)", "y = y + dict(c.flags).get(s.i, 0)",
    "t = (*c.items,); y = y + t[s.i]", "y = y + (1 if c.items == [1.0] * len(c.items) else 5)",
    "for each in c.items: y = y + each", "y = y + (1 if type(c.items) == list else 2)",
    "y = y + (1 if type(c.entries[s.i]).__name__ == 'Entry' else 2)", "y = y + (id(c.items) == id(c.items[:]))",
    "y = y + (1 if c.entries[0] == c.entries[s.i] else 2)", "y = y + {c.entries[0]: 1}.get(c.entries[s.i], 2)",
    "y = y + len(repr(c.entries[s.i])) * 0 + len(f'{c.items}')", "y = y + (3 if c.items.__class__ is list else 4)",
)  # fmt: skip
CHANGED = (
    "c.flags[{i}] = True", "c.items[{i}] = 2.0", "c.items[0] = 3.0", "c.inner.factor = 2.0", "c.factor = 2.0",
    "SHARED['factor'] = 2.0", "s.held['factor'] = 2.0", "c.log.append(0)", "c.done[{i}] = True",
    "c.inner.table['a'] = False", "c.entries[0].number = 7.0", "c.items[-1] = 5.0", "c.entries[{i}] = c.entries[0]",
    "c.tensors[0] = x", "c.flags.pop(0, None)", "s.layers[{i}].train(True)",
)  # fmt: skip


def text_of(seed: int) -> str:
    """The text of a function that makes a model."""
    draw = random.Random(seed)
    steps = draw.sample(READ, draw.randint(1, 4))
    changes: list[str] = []
    for _ in range(draw.randint(0, 2)):
        place, change = draw.randrange(LAYERS), draw.choice(CHANGED)
        changes.append(f"if i == {place}: {change.format(i=place)}")
        if change.endswith(".0") and draw.random() < 0.5:  # the layers after it are like the first again
            changes.append(f"if i == {place + 1}: {change.format(i=place).rpartition('=')[0]}= 1.0")
    lines = [
        "def make(torch, Handed, SHARED):",
        "    class Layer(torch.nn.Module):",
        "        def __init__(s, i, held):",
        "            super().__init__(); s.lin = torch.nn.Linear(3, 3); s.i = i; s.held = held",
        "        def forward(s, x, c):",
        "            y = torch.tanh(s.lin(x))",
        *(f"            {each}" for each in steps),
        "            return y",
        "    class Model(torch.nn.Module):",
        "        def __init__(s):",
        "            super().__init__(); s.held = {'factor': 1.0}",
        f"            s.layers = torch.nn.ModuleList([Layer(i, s.held) for i in range({LAYERS})])",
        "        def forward(s, x):",
        "            c = Handed(); SHARED['factor'] = s.held['factor'] = 1.0",
        "            for i, layer in enumerate(s.layers):",
        *(f"                {each}" for each in changes),
        "                x = layer(x, c)",
        "            return x, x * c.total()",
        "    return Model()",
    ]
    return "\n".join(lines)


def faults(seed: int, tally: Callable[[str], Any] = str) -> Iterator[str]:
    """What is wrong with the program of a model, at several sizes."""
    torch.manual_seed(seed)
    make = function_of(text_of(seed), f"equal_layers_{seed}.py", "make")
    model = make(torch, Handed, {"factor": 1.0}).eval()
    taken, take = list[Any](), equal_modules.Calls.taken
    with torch.no_grad():
        try:
            model(torch.randn(2, 3))
        except Exception:
            tally("eager raises")
            return
        model.eval()
        try:
            equal_modules.Calls.taken = lambda *given: taken.append(given) or take(*given)  # pyright: ignore
            program = irkit.to_onnx(model, (torch.randn(2, 3),), dynamic_shapes=({0: "n"},), capture="direct")
        except IrkitError as error:
            tally(f"refused: {error.what}")
            return
        finally:
            equal_modules.Calls.taken = take
        tally("taken over" if taken else "traced layer by layer")
        for size in SIZES:
            x = torch.randn(size, 3)
            model.eval()
            expected = model(x)
            for got, wanted in zip(program(x), expected, strict=True):
                if not torch.allclose(got, wanted, 1e-4, 1e-4):
                    yield f"of {size}: gives {got.tolist()}, where eager gives {wanted.tolist()}"


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    seeds = seeds_asked(arguments)
    warnings.simplefilter("ignore")
    bad, seen = 0, Counter[str]()
    for seed in seeds:
        found = [*faults(seed, lambda what: seen.update([what]))]
        if found:
            bad += 1
            print(seed, text_of(seed), *found, sep="\n", flush=True)
    print(f"{len(seeds)} models, {bad} with faults", *(f"{n} {what}" for what, n in sorted(seen.items())), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
