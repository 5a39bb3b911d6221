"""Random programs that take numbers and sizes out of their data and state conditions on them, each against eager.

A program is drawn step by step while it runs on an example, so that every condition holds there. It is then exported,
in one of several ways, and both sides get data of which some breaks the conditions. What eager refuses the exported
program must refuse; what eager answers it must answer alike, or refuse by a condition of its contract: never its own
example. `make fuzz-conditions` runs a thousand.

    python -m tests.fuzz.conditions 1000 --seed 7
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import irkit
from lowering.errors import CaptureError
from tests.support.sweeps import CODE, Found, Piece, options, resumed, summary

Step = Callable[["State"], Any]


class State:
    """The inputs of a run, and what its steps have made: numbers, rows and results. No class of attrs: dynamo, which
    traces strict programs, does not find its way through what attrs writes."""

    def __init__(self, x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> None:
        self.x, self.mask, self.ints = x, mask, ints
        self.numbers: list[Any] = []
        self.rows: list[Any] = []
        self.results: list[Any] = []


class Drawn(torch.nn.Module):
    """A program as its steps, each with its text."""

    def __init__(self, steps: Sequence[tuple[str, Step]]) -> None:
        super().__init__()
        self.steps = tuple(steps)

    def forward(self, x: Any, mask: Any, ints: Any) -> Any:
        """What the steps compute, in order."""
        state = State(x, mask, ints)
        for _, step in self.steps:
            step(state)
        return tuple(state.results) or (x * 2,)

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self.steps)

    __repr__ = __str__


def takes(rng: random.Random) -> tuple[str, Step]:
    """A step that takes a number, or rows, out of the data."""
    k = rng.randrange(3)
    return rng.choice(
        [
            ("n = mask.sum().item()", lambda s: s.numbers.append(s.mask.sum().item())),
            ("n = (~mask).sum().item()", lambda s: s.numbers.append((~s.mask).sum().item())),
            (f"n = ints[{k}].item()", lambda s: s.numbers.append(s.ints[k].item())),
            ("n = ints.max().item()", lambda s: s.numbers.append(s.ints.max().item())),
            ("n += ints.tolist()", lambda s: s.numbers.extend(s.ints.tolist())),
            ("n = mask.nonzero().shape[0]", lambda s: s.numbers.append(s.mask.nonzero().shape[0])),
            ("r = x[mask]; n = len(r)", lambda s: (s.rows.append(s.x[s.mask]), s.numbers.append(s.rows[-1].shape[0]))),
            (
                "r = masked_select; n = numel",
                lambda s: s.numbers.append(torch.masked_select(s.x, s.mask[:, None]).numel()),
            ),
            ("r = mask.nonzero()", lambda s: s.rows.append(s.mask.nonzero())),
            ("n = unique(ints).shape[0]", lambda s: s.numbers.append(torch.unique(s.ints).shape[0])),
            ("n = x.shape[0]", lambda s: s.numbers.append(s.x.shape[0])),
            ("n = mask.any().item() as a number", lambda s: s.numbers.append(s.mask.any().to(torch.int64).item())),
        ]
    )


def states(rng: random.Random, state: State) -> tuple[str, Step]:
    """A step that states a condition which holds for this state."""
    if not state.numbers or rng.random() < 0.1:
        return rng.choice(
            [
                ("check(mask.any())", lambda s: torch._check(s.mask.any().item())),
                ("check(not (x > 99).any())", lambda s: torch._check(torch.sym_not((s.x > 99).any().item()))),
                ("check(x.sum() < 1e6)", lambda s: torch._check(s.x.abs().sum().item() < 1e6)),
                ("check_tensor_all(ints < 50)", lambda s: torch._check_tensor_all(s.ints < 50)),
                ("assert_async(mask.any())", lambda s: torch.ops.aten._assert_async.default(s.mask.any())),
                ("assert rank", lambda s: require(s.x.dim() == 2)),
            ]
        )
    i, j = (rng.randrange(len(state.numbers)) for _ in range(2))
    n, m, rows = int(state.numbers[i]), int(state.numbers[j]), state.x.shape[0]
    choices: list[tuple[str, Step]] = [
        (f"check(n{i} == {n})", lambda s: torch._check(s.numbers[i] == n)),
        (f"check(n{i} >= {n - 1})", lambda s: torch._check(s.numbers[i] >= n - 1)),
        (f"check(n{i} <= {n + 1})", lambda s: torch._check(s.numbers[i] <= n + 1)),
        (f"check(n{i} != {n + 2})", lambda s: torch._check(s.numbers[i] != n + 2)),
        (f"check(n{i} - n{j} == {n - m})", lambda s: torch._check(s.numbers[i] - s.numbers[j] == n - m)),
        (f"check(n{i} + n{j} == {n + m})", lambda s: torch._check(s.numbers[i] + s.numbers[j] == n + m)),
        (f"check(n{i} % 2 == {n % 2})", lambda s: torch._check(s.numbers[i] % 2 == n % 2)),
        (f"check_value(n{i} < {n + 3})", lambda s: torch._check_value(s.numbers[i] < n + 3)),
    ]
    if n >= 0:
        choices.append((f"check_index(n{i} >= 0)", lambda s: torch._check_index(s.numbers[i] >= 0)))
    if n == m and i != j:
        choices += [(f"check(n{i} == n{j})", lambda s: torch._check(s.numbers[i] == s.numbers[j]))] * 4
    if n == rows:
        choices += [(f"check(n{i} == x.shape[0])", lambda s: torch._check(s.numbers[i] == s.x.shape[0]))] * 4
    if n * 2 == rows:
        choices += [(f"check(2*n{i} == x.shape[0])", lambda s: torch._check(s.numbers[i] * 2 == s.x.shape[0]))] * 4
    if n <= rows:
        choices.append((f"check(n{i} <= x.shape[0])", lambda s: torch._check(s.numbers[i] <= s.x.shape[0])))
    return rng.choice(choices)


def require(holds: bool) -> None:
    """An assertion of the program's own."""
    if not holds:
        raise ValueError("the program asserts something else")


def uses(rng: random.Random, state: State) -> tuple[str, Step]:
    """A step that computes a result of what was taken."""
    choices: list[tuple[str, Step]] = [("x * 2", lambda s: s.results.append(s.x * 2))]
    if state.numbers:
        i = rng.randrange(len(state.numbers))
        choices += [
            (f"x * n{i}", lambda s: s.results.append(s.x * s.numbers[i])),
            (f"x + n{i} // 2", lambda s: s.results.append(s.x + s.numbers[i] // 2)),
            (f"n{i}", lambda s: s.results.append(torch.full((2,), s.numbers[i]))),
        ]
        if 0 <= int(state.numbers[i]) <= 64:
            choices += [
                (f"full((n{i},), 1)", lambda s: s.results.append(torch.full((s.numbers[i],), 1.0))),
                (f"arange(n{i})", lambda s: s.results.append(torch.arange(s.numbers[i]) * 2)),
            ]
        if int(state.numbers[i]) == state.x.shape[0]:
            choices.append(
                (f"x[:, 0] + full(n{i})", lambda s: s.results.append(s.x[:, 0] + s.x.new_ones(s.numbers[i])))
            )
    if state.rows:
        k = rng.randrange(len(state.rows))
        choices += [(f"r{k} * 2", lambda s: s.results.append(s.rows[k] * 2))] * 2
        choices += [(f"r{k}.sum(0)", lambda s: s.results.append(s.rows[k].sum(0)))]
        if state.rows[k].shape[0] == state.x.shape[0]:
            choices += [(f"x[:, :1] + r{k}", lambda s: s.results.append(s.x[:, :1] + s.rows[k]))] * 3
    return rng.choice(choices)


def chosen(holds: Any, yes: Callable[..., Any], no: Callable[..., Any], *operands: Any) -> Any:
    """torch.cond where a program is exported; Python's own choice in eager, which is the meaning of it."""
    if torch.compiler.is_exporting():
        return torch.cond(holds, yes, no, operands)
    return yes(*operands) if bool(holds) else no(*operands)


def branches(rng: random.Random, state: State) -> tuple[str, Step]:
    """A step that takes one of two ways, which differ in what they ask of sizes and data and in how many rows they
    give."""
    k, v, rows = rng.randrange(3), rng.randint(0, 4), state.x.shape[0]
    few = rng.randint(1, rows)

    def asserts(x: Any, ints: Any) -> Any:
        n = ints[k].item()
        torch._check(n >= v)
        return x * 2

    def divides(x: Any, ints: Any) -> Any:
        n = ints.sum().item()
        torch._check(n % 2 == 0)
        return x + 1

    ways: list[tuple[str, Callable[..., Any]]] = [
        ("x - 1", lambda x, ints: x - 1),
        (f"x * 2 and ints[{k}] >= {v}", asserts),
        ("x + 1 and ints.sum() % 2 == 0", divides),
        (f"x + x[{few - 1}]", lambda x, ints: x + x[few - 1]),
        (f"x + narrow(0, 0, {few}).sum()", lambda x, ints: x + x.narrow(0, 0, few).sum()),
        (f"x * 2 if len(x) > {few} else x", lambda x, ints: x * 2 if x.shape[0] > few else x.clone()),
        (f"x + unfold({few}).sum()", lambda x, ints: x + x.unfold(0, few, 1).sum()),
    ]
    sized: list[tuple[str, Callable[..., Any]]] = [
        (f"x[:{few}]", lambda x, ints: x[:few] * 2),
        ("x[1:]", lambda x, ints: x[1:] + 0),
        ("x[x > 0]", lambda x, ints: x[x[:, 0] > 0]),
        ("cat", lambda x, ints: torch.cat([x, x])),
        ("x + 0", lambda x, ints: x + 0),
    ]
    (yes, first), (no, second) = rng.sample(ways if rng.random() < 0.7 else sized, 2)
    test, holds = rng.choice(
        [
            (f"ints[{k}] > {v}", lambda s: s.ints[k] > v),
            ("mask.any()", lambda s: s.mask.any()),
            (f"len(x) > {few}", lambda s: s.x.shape[0] > few),
            ("x.sum() > 0", lambda s: s.x.sum() > 0),
        ]
    )
    return f"{yes} where {test}, else {no}", lambda s: s.results.append(chosen(holds(s), first, second, s.x, s.ints))


def drawn(rng: random.Random, example: Sequence[Any]) -> Drawn:
    """A random program whose conditions hold for the example."""
    state = State(*example)
    steps: list[tuple[str, Step]] = []
    kinds: list[Any] = [takes, *rng.choices([takes, states, uses, branches], [4, 8, 4, 1], k=rng.randint(2, 6)), uses]
    for kind in kinds:
        text, step = kind(rng) if kind is takes else kind(rng, state)
        try:
            step(state)
        except (RuntimeError, ValueError):
            continue
        steps.append((text, step))
    return Drawn(tuple(steps))


def inputs(rng: random.Random) -> tuple[Any, Any, Any]:
    """Random inputs: x [rows, 3], mask [rows], ints [3]."""
    rows = rng.choice([2, 3, 4, 6])
    mask = torch.tensor([rng.random() < rng.choice([0.5, 0.9]) for _ in range(rows)])
    return torch.tensor([[rng.uniform(-2, 2) for _ in range(3)] for _ in range(rows)]), mask, integers(rng)


def integers(rng: random.Random) -> torch.Tensor:
    """Three small numbers, some alike."""
    return torch.tensor([rng.choice([1, 2, 3, 4, rng.randint(-2, 9)]) for _ in range(3)])


def neighbours(rng: random.Random, example: Sequence[Any], count: int) -> Iterator[Sequence[Any]]:
    """The example, and inputs near it: of other rows, with other places in the mask, with another number."""
    x, mask, ints = example
    yield x, mask, ints
    for _ in range(count):
        kind, other, numbers = rng.randrange(5), mask.clone(), ints.clone()
        if kind == 0:
            place = rng.randrange(len(mask))
            other[place] = ~other[place]
        elif kind == 1:
            numbers[rng.randrange(3)] += rng.choice([-2, -1, 1, 2])
        elif kind == 2:
            other = mask[torch.tensor(rng.sample(range(len(mask)), len(mask)))]
        elif kind == 3:
            yield inputs(rng)
            continue
        else:
            numbers = integers(rng)
        yield torch.randn_like(x), other, numbers


def ran(function: Any, given: Sequence[Any]) -> tuple[Any, Exception | None]:
    """(result, None) of a call, or (None, error)."""
    try:
        return function(*given), None
    except Exception as error:
        return None, error


def fault_of(program: Any, function: Any, given: Sequence[Any], tally: Counter[str], own: bool = False) -> str:
    """What is wrong with a program on these inputs, its own example or others; empty where nothing is."""
    expected, refused = ran(function, [each.clone() for each in given])
    found, error = ran(program, given)
    if error is not None and not isinstance(error, irkit.IrkitError):
        return f"raises {type(error).__name__}: {error}"
    if refused is not None:
        told = error is None and is_told(program)
        tally["both refuse" if error else "told as unchecked" if told else "eager alone refuses"] += 1
        return "" if error or told else f"answers where eager says: {refused}"
    if error is not None:
        tally["refused by the contract"] += 1
        by_contract = isinstance(error, irkit.ContractError) and not own
        return "" if by_contract else f"refuses what eager takes, by no condition: {error}"
    tally["both answer"] += 1
    try:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    except AssertionError as differs:
        return f"answers something else: {differs}"
    return ""


def is_told(program: Any) -> bool:
    """Whether the contract names a condition that the program cannot check: torch drops numbers in strict mode."""
    checked = {check.text for check in program.checks}
    lost = any(note.endswith("it is not checked") for note in program.report.notes)
    return lost or any(each["text"] not in checked for each in program.contract()["unchecked"])


def exported(rng: random.Random, function: Drawn, example: Sequence[Any], varies: bool) -> tuple[str, Any]:
    """(how, program) of a module: given itself, or as a program of torch's, or as the file of one."""
    how = rng.choice(["module"] * 5 + ["program", "file", "strict program", "strict file"])
    if how == "module":
        names = {"x": {0: "rows"}, "mask": {0: "rows"}, "ints": None} if varies else None
        return how, irkit.to_onnx(function, example, dynamic_shapes=names)
    auto = {"x": {0: torch.export.Dim.AUTO}, "mask": {0: torch.export.Dim.AUTO}, "ints": None} if varies else None
    try:
        program = torch.export.export(function, tuple(example), dynamic_shapes=auto, strict=how.startswith("strict"))
    except Exception as error:  # torch has many errors for what it cannot trace
        raise CaptureError(f"torch refuses it: {error}") from error
    if how.endswith("program"):
        return how, irkit.to_onnx(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.pt2")
        try:
            torch.export.save(program, path)
        except TypeError as error:  # torch cannot write some of its own expressions
            raise CaptureError(f"torch cannot save it: {error}") from error
        return how, irkit.to_onnx(path)


def faults(seed: int, tally: Counter[str], count: int = 12) -> Iterator[str]:
    """What is wrong with the program of a seed: each with the program."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    example = inputs(rng)
    function = drawn(rng, example)
    how = "module"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how, program = exported(rng, function, example, rng.random() < 0.8)
    except CaptureError as error:
        own = "refuses the very example" in error.what or "another way for the example itself" in error.what
        tally["own example refused at export" if own else "not captured"] += 1
        return
    tally[how] += 1
    irkit.verify(program.graph)
    irkit.verify(program.watched)
    for i, given in enumerate(neighbours(rng, example, count)):
        fault = fault_of(program, function, given, tally, i == 0)
        if fault:
            yield f"seed {seed}, {how}: {fault}\n{function}\non {given}\nguards {program.report.guards}"


LOT = 20
"""Seeds of one piece of the sweep."""


def lot(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of some seeds: how often what happened, and the first fault of each program."""
    logging.disable(logging.CRITICAL)  # torch logs what it meets while it traces
    tally: Counter[str] = Counter()
    what: list[str] = []
    for seed in range(int(piece[0]), int(piece[0]) + int(piece[1])):
        tell(f"at seed {seed}")
        try:
            found = list(faults(seed, tally))
        except irkit.IrkitError as error:
            found = [f"seed {seed}: {error}"]
        what += found[:1]
    return {**tally, "programs": piece[1], "wrong": len(what), "what": what}


def main(arguments: Sequence[str]) -> int:
    """Draws as many as asked for, and prints what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options("conditions", parser)
    given = parser.parse_args(arguments)
    end = given.seed + given.count
    pieces: list[Piece] = [(first, min(LOT, end - first)) for first in range(given.seed, end, LOT)]
    rows = resumed(given.results, lot, pieces, given.jobs, given.seconds, (*CODE, "lowering"))
    done = [rows[piece] for piece in pieces if piece in rows]
    for row in done:
        print(*row.get("what", (row.get("ended"),)), sep="\n", end="\n" * bool(row.get("what", True)))
    names = dict.fromkeys(name for row in done for name in row if isinstance(row[name], int))
    print(summary(rows, pieces, *names))
    return int(any(row.get("wrong", 1) for row in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
