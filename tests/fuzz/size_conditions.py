"""Random conditions on sizes, as branches of tiny models: what program and bare file answer, against eager.

A model asks one or two conditions over two or three named sizes, drawn as text, and computes something else on each
way. It is captured at an example, and called at many other sizes, 0 and 1 among them. The program, and the saved file
where the contract in it holds by Python's own account, give the numbers of eager or refuse. They refuse only where
eager asks something else, or answers it otherwise, than at the example; and a size of 0 where a condition divides by a
size, since conditions of other ways are written over the same sizes.

    python -m tests.fuzz.size_conditions 200 --seed 7
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import onnxruntime
import torch

import irkit
from irkit.contract.as_json import contract_of
from lowering.errors import CaptureError

Sizes = tuple[int, ...]
Model = Callable[..., Any]
NAMES = ("a", "b", "c")
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 1500)


class Recorded(int):
    """A size that writes down what is asked of it and of what is computed of it."""

    asked: list[tuple[str, bool]]

    def __new__(cls, number: int, asked: list[tuple[str, bool]]) -> Recorded:
        made = super().__new__(cls, number)
        made.asked = asked
        return made


def recorded(name: str) -> Any:
    """A method of Recorded: one that computes gives a Recorded, one that compares writes down how it came out."""

    def method(self: Recorded, *others: Any) -> Any:
        found = getattr(int, name)(self, *map(int, others))
        if isinstance(found, bool):
            self.asked.append((name, found))
            return found
        return Recorded(found, self.asked)

    return method


COMPUTED = ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "neg")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "bool")
for _name in (*COMPUTED, *COMPARED):
    setattr(Recorded, f"__{_name}__", recorded(f"__{_name}__"))
Recorded.__hash__ = int.__hash__


def drawn_term(rng: random.Random, names: Sequence[str], depth: int = 2) -> str:
    """A number computed of sizes."""
    if depth == 0 or rng.random() < 0.45:
        return rng.choice(names)
    left, right = (drawn_term(rng, names, depth - 1) for _ in range(2))
    number = rng.choice((2, 3, 4))
    return rng.choice(
        (
            f"({left} + {right})", f"({left} - {right})", f"({left} * {right})", f"{left} * {number}",
            f"({left} // {number})", f"({left} % {number})", f"min({left}, {right})", f"max({left}, {right})",
            f"({left} // max({right}, 1))", f"({left} // {right})", f"({left} % {right})", f"({left} + {number})",
            f"-({left} // -{number})", f"sym_max({left}, {right})", f"sym_min({left}, {number})",
        )
    )  # fmt: skip


def drawn_atom(rng: random.Random, names: Sequence[str], numbers: bool) -> str:
    """A comparison of sizes, or a number whose truth is asked."""
    left = drawn_term(rng, names)
    kind = rng.random()
    if kind < 0.15:
        return f"{left} % {rng.choice((2, 3, 4))} == {rng.choice((0, 0, 1))}"
    if kind < 0.2 and numbers:
        return f"{left} % {rng.choice((2, 3))}"
    right = drawn_term(rng, names) if kind < 0.5 else str(rng.choice(NUMBERS))
    return f"{left} {rng.choice(('==', '!=', '<', '<=', '>', '>='))} {right}"


def drawn_condition(rng: random.Random, names: Sequence[str], depth: int = 3, numbers: bool = True) -> str:
    """Comparisons, joined; with `numbers` also by what Python takes for true. `&` and `|` would fix numbers."""
    if depth == 0 or rng.random() < 0.3:
        return drawn_atom(rng, names, numbers)
    how, count = rng.random(), rng.choice((2, 2, 3))
    parts = [drawn_condition(rng, names, depth - 1, numbers and how >= 0.35) for _ in range(count)]
    if how < 0.15:
        return f"not ({parts[0]})"
    if how < 0.2:
        return f"sym_not(({parts[0]}) == ({parts[1]}))"
    if how < 0.35:
        return f"(({parts[0]}) {rng.choice('&|')} ({parts[1]}))"
    return f" {rng.choice(('and', 'or'))} ".join(f"({part})" for part in parts)


def ways(texts: Sequence[str], number: int = 1, indent: str = "    ") -> Iterator[str]:
    """The lines of a body that asks the conditions, each on both ways, and says in its result which way it took."""
    if not texts:
        yield f"{indent}return {number}"
        return
    yield f"{indent}if {texts[0]}:"
    yield from ways(texts[1:], number * 2, indent + "    ")
    yield from ways(texts[1:], number * 2 + 1, indent)


@attrs.frozen
class Drawn:
    """A model of branches on the sizes of its inputs; `texts` are its conditions."""

    texts: tuple[str, ...]
    count: int
    example: Sizes

    @property
    def way(self) -> Callable[..., int]:
        """The number of the way that is taken at sizes."""
        space: dict[str, Any] = {"sym_max": torch.sym_max, "sym_min": torch.sym_min, "sym_not": truth_not}
        lines = [f"def way({', '.join(NAMES[: self.count])}):", *ways(self.texts)]
        exec("\n".join(lines), space)
        return space["way"]

    @property
    def divides(self) -> bool:
        """Whether a condition divides by what is no number."""
        return any(re.search(r"(//|%) (?!-?[0-9])", text) for text in self.texts)

    def model(self) -> Model:
        """The model, of one matrix of the first two sizes, and one row of the third."""
        way, count = self.way, self.count

        def model(*tensors: torch.Tensor) -> Any:
            sizes = [size for x in tensors for size in x.shape]
            number = way(*sizes[:count])
            return tuple(x * number + 1 for x in tensors)

        if count == 2:
            return lambda x: model(x)
        return lambda x, y: model(x, y)

    def inputs(self, sizes: Sizes) -> tuple[torch.Tensor, ...]:
        """Tensors of those sizes."""
        first = torch.arange(sizes[0] * sizes[1], dtype=torch.float32).reshape(sizes[:2]) + 1
        return (first,) if self.count == 2 else (first, torch.ones(sizes[2]))

    @property
    def dynamic_shapes(self) -> Any:
        """Names for all sizes."""
        first = {0: "a", 1: "b"}
        return (first,) if self.count == 2 else (first, {0: "c"})

    def asked(self, sizes: Sizes) -> Any:
        """What is asked at sizes, and how it is answered; the exception's type where Python ends with one."""
        found: list[tuple[str, bool]] = []
        try:
            return self.way(*(Recorded(size, found) for size in sizes)), tuple(found)
        except ZeroDivisionError:
            return None


def truth_not(value: Any) -> Any:
    """Not, of a bool or of a symbolic one."""
    return torch.sym_not(value)


def drawn(rng: random.Random) -> Drawn:
    """A model and an example at which it runs."""
    while True:
        count = rng.choice((2, 3))
        texts = tuple(drawn_condition(rng, NAMES[:count], 2) for _ in range(rng.choice((1, 1, 2))))
        found = Drawn(texts, count, tuple(rng.choice((2, 3, 4, 5, 6, 8, 9)) for _ in range(count)))
        if found.asked(found.example) is not None:
            return found


def other_sizes(rng: random.Random, case: Drawn, most: int) -> list[Sizes]:
    """Sizes of which the example is the first: near ones, and any."""
    few = list(itertools.product(*({n, n + 1, 0, 1, 2} for n in case.example)))
    far = [tuple(rng.choice((0, 1, 2, 3, 4, 6, 7, 8, 12, 16, 30, 1600)) for _ in case.example) for _ in range(most)]
    far = [sizes for sizes in far if sum(n > 1000 for n in sizes) < 2]
    return [case.example, *rng.sample(few, min(most, len(few))), *far]


def answers_of(call: Model, inputs: Sequence[torch.Tensor], refusal: type[Exception]) -> Any:
    """What a call gives; None where it refuses."""
    try:
        return call(*inputs)
    except refusal:
        return None


def allows(contract: dict[str, Any], sizes: dict[str, int]) -> bool:
    """Whether a contract allows sizes, as Python itself reads it."""
    ranges = contract["ranges"].items()
    if not all(low <= sizes[name] and (high is None or sizes[name] <= high) for name, (low, high) in ranges):
        return False
    space = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "double": float, "sqrt": math.sqrt}
    texts = [each["text"] for each in (*contract["guards"], *contract["relations"])]
    try:
        return all(eval(text, space, sizes) for text in texts)
    except ZeroDivisionError:
        return False


def bare_call(path: Path) -> Model:
    """The file as a function, in ONNX Runtime alone, where the contract in it allows the sizes."""
    contract = contract_of(irkit.load(str(path)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def call(*tensors: torch.Tensor) -> Any:
        if not allows(contract, dict(zip(NAMES, (size for x in tensors for size in x.shape), strict=False))):
            raise irkit.ContractError("the contract does not hold")
        given = dict(zip(names, (x.numpy() for x in tensors), strict=True))
        return tuple(torch.from_numpy(y) for y in session.run(None, given))

    return call


def differs(given: Any, expected: Any) -> bool:
    """Whether an answer is another than the one expected, which is None where eager has none."""
    if given is None:
        return False
    return expected is None or not all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(given, expected, strict=True)
    )


def faults(case: Drawn, calls: Sequence[Sizes], folder: Path, **how: Any) -> list[str]:
    """What is wrong with the program of a model: wrong answers, and refusals where nothing else is asked."""
    model = case.model()
    try:
        program = irkit.to_onnx(model, case.inputs(case.example), dynamic_shapes=case.dynamic_shapes, **how)
    except CaptureError as error:
        if "was to vary as" in error.what:  # the example says `a == 4`
            return []
        raise
    path = folder / "model.onnx"
    program.save(str(path))
    there: dict[str, tuple[Model, Any]] = {
        "program": (program, irkit.ContractError),
        "file": (bare_call(path), irkit.ContractError),
    }
    said, found = case.asked(case.example), []
    for sizes in calls:
        inputs = case.inputs(sizes)
        try:
            expected = model(*inputs)
        except ZeroDivisionError:
            expected = None
        for name, (call, refusal) in there.items():
            given = answers_of(call, inputs, refusal)
            if differs(given, expected):
                found.append(f"{name} answers otherwise at {sizes}")
            elif given is None and case.asked(sizes) == said and not (case.divides and 0 in sizes):
                found.append(f"{name} refuses {sizes}")
    return found


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--capture", default="direct")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    how = {"rewrite": True} if given.rewrite else {}
    bad = 0
    for number in range(given.seed, given.seed + given.count):
        rng = random.Random(number)
        case = drawn(rng)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = faults(case, other_sizes(rng, case, 12), Path(folder), capture=given.capture, **how)
            except Exception as error:  # said, with the model
                found = [f"{type(error).__name__}: {error}"]
        if found:
            bad += 1
            print(number, case, *found, sep="\n    ", flush=True)
    print(f"{given.count} models, {bad} with faults")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
