"""Random programs of views, writes, branches, sizes and data, captured in one run, each against eager at other calls.

A program is drawn step by step while it runs on an example, so that every step works there. It is then exported, and
both sides are called with inputs of other sizes and other data. What eager refuses the exported program must refuse;
what eager answers it must answer alike, or refuse by a condition of its contract.

    python -m tests.fuzz.traced_programs 1000 --seed 7 --wide
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import irkit
from lowering.errors import CaptureError, LoweringError
from tests.fuzz.further_steps import FURTHER
from tests.fuzz.traced_steps import KINDS, State, branching
from tests.fuzz.wider_steps import DTYPES, WIDER

NAMES = ("x", "y", "mask", "ints", "k")
DYNAMIC: Sequence[dict[str, Any]] = (
    {"x": {0: "n", 1: "m"}, "y": {0: "n"}, "mask": {0: "n"}},
    {"x": {0: "n"}, "y": {0: "n"}, "mask": {0: "n"}},
    {"x": {1: "m"}},
    {"x": {0: "n", 1: "m"}, "y": {0: "p"}, "mask": {0: "q"}},
    {"x": {0: "n", 1: "m"}, "y": {0: "n + m"}, "mask": {0: "m"}},
)
"""What varies: `y` has as many rows as `x`, or of its own, or as many as `x` has rows and columns."""


ALONE = "eager alone finds a place out of range"
OUT_OF_RANGE = (
    "is out of bounds for dimension", "index out of range in self", "self indexing axis dim should be",
    "INDICES element is out of DATA bounds", "storage offset 0, and itemsize",
)  # fmt: skip
"""Places out of range among the data are no condition of the contract: they fail where what is found there is used."""


@attrs.frozen
class Drawn:
    """A program as its steps, each with its text, and the places of the tensors that it returns."""

    steps: tuple[tuple[str, Callable[[State], Any]], ...]
    returned: tuple[int, ...]

    def __call__(self, x: Any, y: Any, mask: Any, ints: Any, k: Any) -> Any:
        state = State(x, y, mask, ints, k)
        for _, step in self.steps:
            step(state)
        numbers = tuple(state.numbers[-1:])
        return tuple(state.tensors[i] for i in self.returned) + numbers

    def __str__(self) -> str:
        texts = [f"    {text}" for text, _ in self.steps]
        return "\n".join([*texts, f"    return {', '.join(f't{i}' for i in self.returned)}"])


def drawn(rng: random.Random, example: Sequence[Any], kinds: Any = KINDS) -> Drawn:
    """A random program of these kinds of steps that works for the example."""
    state = State(*copied(example))
    steps: list[tuple[str, Callable[[State], Any]]] = []
    names, weights = zip(*((name, kind[0]) for name, kind in kinds.items()), strict=True)
    for name in rng.choices(names, weights, k=rng.randint(2, 9)):
        offered = kinds[name][1](rng, state)
        if offered is None:
            continue
        text, step = offered
        if rng.random() < 0.15:
            text, step = branching(rng, state, text, step)
        counts = len(state.tensors), len(state.numbers)
        try:
            step(state)
        except Exception:  # the step is none for this example: whatever torch says of it
            del state.tensors[counts[0] :], state.numbers[counts[1] :]
            continue
        steps.append((text, step))
    count = len(state.tensors)
    last = {count - 1, *(rng.randrange(count) for _ in range(rng.randint(0, 3)))}
    return Drawn(tuple(steps), tuple(sorted(last)))


def inputs(rng: random.Random, dynamic: dict[str, Any], sizes: Sequence[int], fixed: Sequence[int]) -> tuple[Any, ...]:
    """Random inputs x [rows, columns], y [rows, 3], mask [rows], ints [3], k; `fixed` are rows and columns of what
    does not vary."""
    names = dict(zip("nmpq", (rng.choice(sizes) for _ in range(4)), strict=True))
    shape = {("x", 0): fixed[0], ("x", 1): fixed[1], ("y", 0): fixed[0], ("mask", 0): fixed[0]}
    for name, axes in dynamic.items():
        for axis, text in (axes or {}).items():
            shape[name, axis] = sum(names[part] for part in text.split(" + "))
    x = torch.tensor([[rng.uniform(-2, 2) for _ in range(shape["x", 1])] for _ in range(shape["x", 0])])
    y = torch.tensor([[rng.uniform(-2, 2) for _ in range(3)] for _ in range(shape["y", 0])])
    mask = torch.tensor([rng.random() < 0.6 for _ in range(shape["mask", 0])], dtype=torch.bool)
    ints = torch.tensor([rng.choice([0, 1, 2, 3, rng.randint(-2, 5)]) for _ in range(3)])
    x, y = x.reshape(shape["x", 0], shape["x", 1]), y.reshape(shape["y", 0], 3)
    return x, y, mask, ints, rng.choice([0, 1, 2, 3, 5])


def copied(given: Sequence[Any]) -> list[Any]:
    """The inputs, the tensors as copies; those that share their memory share it still."""
    return copy.deepcopy(list(given))


def sharing(given: Sequence[Any]) -> tuple[Any, ...] | None:
    """The same with rows of `x` as `y`, where it has such: what a program writes into one the other then holds."""
    x, y, *rest = given
    if x.dtype is not y.dtype or x.shape[1] != y.shape[1] or len(x) < len(y) or not y.numel():
        return None
    return (x, x[len(x) - len(y) :], *rest)


def own_tensors(given: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among inputs."""
    return [each for each in given if isinstance(each, torch.Tensor)]


def answer(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Any, list[Any], Exception | None]:
    """(result, inputs afterwards, what was raised) of a call."""
    own = copied(given)
    try:
        return function(*own), own, None
    except Exception as error:
        return None, own, error


def is_of_data(guard: tuple[str, str]) -> bool:
    """Whether a condition is one on sizes out of data."""
    return re.search(r"\bu\d", guard[0]) is not None


def fault_of(program: Any, function: Any, given: Sequence[Any], tally: Counter[str]) -> str:
    """What is wrong with a program on these inputs; empty where nothing is."""
    expected, left, refused = answer(function, given)
    found, error, after = None, None, {}
    try:
        found, after = program.run(copied(given), {})
    except Exception as raised:
        error = raised
    if error is not None and not isinstance(error, irkit.IrkitError):
        return "" if refused is not None else f"raises {type(error).__name__}: {error}"
    if refused is not None:
        place = error is None and any(text in str(refused) for text in (*OUT_OF_RANGE, "MKL FFT error"))
        tally["both refuse" if error else ALONE if place else "eager alone refuses"] += 1
        return "" if error or place else f"answers where eager says: {refused}"
    if error is not None and "invalid indice found" in str(error) and any(0 in t.shape for t in own_tensors(given)):
        tally["the runtime alone finds a place out of range, where there is nothing to write"] += 1
        return ""
    if error is not None and "out of data bounds" in str(error) and any(0 in t.shape for t in own_tensors(given)):
        tally["the runtime alone finds a place out of range, where there is nothing to take"] += 1
        return ""
    if error is not None and not isinstance(error, irkit.ContractError) and any(map(is_of_data, program.report.guards)):
        tally["the runtime refuses before a condition on data is told"] += 1
        return ""
    if error is not None:
        tally["refused by the contract"] += 1
        by_contract = isinstance(error, irkit.ContractError)
        return "" if by_contract else f"refuses what eager takes, by no condition: {error}"
    tally["both answer"] += 1
    fault = differences(found, expected, after, given, left)
    if fault and rounding_decides(function, given):
        tally["rounding decides a branch"] += 1
        return ""
    return fault


COMPARISONS = frozenset(f"aten::{name}" for name in "gt ge lt le eq ne".split())


class NearTies(TorchDispatchMode):
    """Looks whether floats are compared with others that differ from them by no more than rounding."""

    met = False
    gap = 1e-6

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Lets torch carry out the operator."""
        if func._schema.name in COMPARISONS and torch.is_floating_point(args[0]):
            gap = (args[0].double() - args[1]).abs()
            self.met |= bool(((gap > 0) & (gap <= self.gap * args[0].abs().clamp(min=self.gap))).any())
        found = func(*args, **(kwargs or {}))
        if any(isinstance(each, torch.Tensor) and each.dtype in HALVES for each in (*args, found)):
            self.gap = 2e-2
            self.met |= func._schema.name in ROUNDING
        return found


HALVES = (torch.float16, torch.bfloat16)
WHOLE = "_to_copy floor_divide remainder argsort sort topk argmax round ceil floor trunc max amax"
ROUNDING = frozenset(f"aten::{name}" for name in WHOLE.split())
"""What makes a difference of rounding one of whole numbers; looked at where halves are met."""


def rounding_decides(function: Any, given: Sequence[Any]) -> bool:
    """Whether the program asks something of floats that rounding decides, as 3.0000002 > 3, in float32 or in float64:
    then neither answer is wrong."""
    wide = [each.double() if isinstance(each, torch.Tensor) and each.is_floating_point() else each for each in given]
    with NearTies() as ties:
        answer(function, given)
        answer(function, wide)
    return ties.met


def differences(found: Any, expected: Any, after: Any, given: Sequence[Any], left: Sequence[Any]) -> str:
    """How results and written inputs differ from eager's; empty where they do not."""
    pairs = [*zip(found, expected, strict=True)]
    for name, before, own in zip(NAMES, given, left, strict=True):
        if isinstance(own, torch.Tensor):
            pairs.append((after.get(name, before), own))
    for mine, own in pairs:
        if isinstance(own, torch.Tensor) and own.is_complex() and not mine.is_complex():
            own = torch.view_as_real(own.resolve_conj())
        halves = any(each.dtype in HALVES for each in own_tensors([*given, own]))
        near = 5e-2 if halves else 1e-4
        try:
            torch.testing.assert_close(mine, own, rtol=near, atol=near, equal_nan=True)
        except AssertionError as differs:
            return f"answers something else: {differs}"
    return ""


def faults(
    seed: int, tally: Counter[str], count: int = 12, capture: str = "direct", wide: bool = False, kinds: Any = None
) -> Iterator[str]:
    """What is wrong with the program of a seed, among those of wider steps where `wide`, or of these `kinds`: each with
    the program."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    dynamic = dict(rng.choice(DYNAMIC))
    fixed = rng.choice([2, 3, 4]), rng.choice([2, 3, 4])
    example = inputs(rng, dynamic, rng.choice([(2, 3, 4, 6), (3,), (4,), (1, 2, 5)]), fixed)
    dtype = rng.choice(DTYPES) if wide and rng.random() < 0.3 else torch.float32
    example = (example[0].to(dtype), *example[1:])
    function = drawn(rng, example, kinds or (WIDER if wide else KINDS))
    scalars = ("k",) if rng.random() < 0.5 else ()
    said = {name: dynamic.get(name) for name in NAMES}
    try:
        program = irkit.to_onnx(function, tuple(example), dynamic_shapes=said, scalar_inputs=scalars, capture=capture)
    except (CaptureError, LoweringError) as error:
        tally["not captured"] += 1
        tally[f"not captured: {str(error).splitlines()[0][:100]}"] += 1
        return
    tally["captured"] += 1
    calls = [example]
    for _ in range(count):
        other = list(inputs(rng, dynamic, (0, 1, 2, 3, 4, 5, 6, 9), fixed))
        if rng.random() < 0.4:  # data apart, sizes apart
            other[:2] = [torch.randn(x.shape) for x in example[:2]]
            other[2] = example[2] if rng.random() < 0.5 else ~example[2]
        if rng.random() < 0.5:
            other[3] = example[3]
        other[0] = other[0].to(dtype)
        other[4] = other[4] if scalars else example[4]
        calls.append(tuple(other))
    for given in (*calls, *islice(filter(None, map(sharing, calls)), 2)):
        fault = fault_of(program, function, given, tally)
        if fault:
            shapes = [tuple(t.shape) if isinstance(t, torch.Tensor) else t for t in given]
            at = [tuple(t.shape) if isinstance(t, torch.Tensor) else t for t in example]
            conditions = "\n".join(f"    {text}" for text, _ in program.report.guards)
            called = f"example {at}, {said}\ncalled with {shapes} {given[2:]}"
            yield f"seed {seed}: {fault}\n{function}\n{called}\n{conditions}"


def main(arguments: Sequence[str]) -> int:
    """Runs as many programs as asked for; the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--capture", default="direct")
    parser.add_argument("--wide", action="store_true", help="with further kinds of steps, and inputs of other types")
    parser.add_argument("--further", action="store_true", help="with these, and others beyond them")
    given = parser.parse_args(arguments)
    tally: Counter[str] = Counter()
    wrong = 0
    warnings.simplefilter("ignore")
    for seed in range(given.seed, given.seed + given.count):
        try:
            found = list(
                faults(seed, tally, capture=given.capture, wide=given.wide, kinds=FURTHER if given.further else None)
            )
        except Exception as error:
            found = [f"seed {seed}: capture raises {type(error).__name__}: {error}"]
        wrong += bool(found)
        sys.stdout.writelines(f"{each}\n\n" for each in found[:1])
        sys.stdout.flush()
    sys.stdout.write(f"{given.count} programs, {wrong} wrong; runs:\n")
    sys.stdout.writelines(f"    {n:6} {what}\n" for what, n in tally.most_common())
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
