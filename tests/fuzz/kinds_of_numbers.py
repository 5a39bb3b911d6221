"""Random models that ask of what kind numbers are, which sizes or data tell: their programs against eager.

A model takes numbers from a vector in drawn ways, asks the kind of each in one of the ways that Python has, in its own
code or in that of another library, and computes something else by the answer. It is captured at one vector, by both
captures and rewritten, and called with others, of no and one element among them. The program gives what eager gives,
or refuses. Not asked is what is known to differ: `(3).__class__ is int` where `int` keeps sizes.

    python -m tests.fuzz.kinds_of_numbers 200 --seed 7
"""

from __future__ import annotations

import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import torch

import irkit
from lowering.errors import CaptureError
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

Model = Callable[[torch.Tensor], torch.Tensor]
SIZES = (
    "x.shape[0]",
    "x.size(0)",
    "len(x)",
    "x.numel()",
    "x[1:].shape[0]",
    "x.shape[-1]",
    "torch.cat([x, x]).shape[0]",
)
DATA = ("x[0].item()", "int(x[0])", "x.sum().item()", "x.tolist()[-1]", "x.max().item()", "x.argmax().item()")
COMPUTED = (
    "({n} + 1)", "({n} * 2)", "({n} // 2)", "({n} % 3)", "-{n}", "abs({n})", "({n} * 0.5)", "({n} / 3)", "({n} > 2)",
    "({n} == 3)", "(not {n} < 4)", "int({n} / 2)", "float({n})", "bool({n})", "round({n} / 2)", "min({m}, 4)",
    "{n} ** 2", "math.ceil({n} / 2)", "copy.deepcopy([{n}])[0]", "max({m}, 2)", "({n} - {m})", "sum([{n}, {m}])",
)  # fmt: skip
PLAIN = ("3", "0.5", "True", "None", "'3'", "x", "torch.float32")
QUESTIONS = (
    "isinstance({n}, int)", "isinstance({n}, float)", "isinstance({n}, bool)", "isinstance({n}, (float, str))",
    "isinstance({n}, int | float)", "isinstance({n}, torch.Tensor)", "isinstance({n}, (int, torch.SymInt))",
    "type({n}) is int", "type({n}) == float", "type({n}) in (bool, str)", "type({n}) is type({m})",
    "type({n}) is not bool", "issubclass(type({n}), int)", "type({n}).__name__ == 'int'", "{n}.__class__ == float",
    "{n}.__class__.__name__ == 'bool'", "{{int: True, float: False}}.get(type({n}), True)",
    "isinstance({n}, numbers.Integral)", "isinstance({n}, numbers.Real)", "isinstance({n}, numbers.Number)",
    "isinstance({n}, collections.abc.Hashable)", "isinstance({n}, collections.abc.Sequence)", "numpy.isscalar({n})",
    "isinstance({n}, type({m}))", "isinstance(type({n}), type)", "dispatched({n}) == 1", "matched({n}) == 2",
    "hasattr({n}, 'real')", "hasattr({n}, 'bit_length')", "getattr({n}, 'denominator', 5) == 1",
    "any(type(each) is int for each in [{n}, 2.5])", "all(isinstance(each, int) for each in ({n}, {m}))",
    "[each for each in [{n}] if isinstance(each, float)] == []", "(lambda n, kind=int: isinstance(n, kind))({n})",
    "functools.partial(asked, 1)({n})", "callable({n})", "isinstance({n}, typing.SupportsInt)",
)  # fmt: skip
LIBRARY = """
import collections.abc, copy, functools, math, numbers, typing
import numpy, torch
@functools.singledispatch
def dispatched(n): return 0
@dispatched.register
def _(n: int): return 1
@dispatched.register
def _(n: float): return 2
@dispatched.register
def _(n: bool): return 3
def matched(n):
    match n:
        case bool(): return 1
        case int(): return 2
        case float(): return 3
        case _: return 4
def asked(k, n): return type(n) is (str, int, float, bool)[k] or isinstance(n, (bool, float)[k % 2])
"""
EXAMPLE = (3, 1, 4, 1)
CALLS = ((), (0,), (1,), (7,), (-2, 5), (3, 1, 2), (0, 0, 0), (1, 2, 3, 4), (9, 1, 0, 2, 3), (4, 4, 4, 4, 4, 4, 4, 4))
WAYS: dict[str, dict[str, Any]] = {
    "direct": {"capture": "direct"}, "rewritten": {"rewrite": True},
    "torch.export": {"capture": "torch.export"}, "as it comes": {},
}  # fmt: skip


def drawn_number(rng: random.Random, depth: int = 2) -> str:
    """A number that sizes or data tell, and now and then anything else."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(PLAIN) if rng.random() < 0.08 else rng.choice(rng.choice((SIZES, DATA)))
    return rng.choice(COMPUTED).format(n=drawn_number(rng, depth - 1), m=rng.choice((*SIZES, *DATA)))


def drawn_lines(rng: random.Random) -> Iterator[str]:
    """The lines of a model, and before them those of a library that it calls."""
    questions = rng.choices(QUESTIONS, k=rng.choice((1, 2, 3)))
    for place, question in enumerate(questions):
        yield f"def ask{place}(n, m): return {question.format(n='n', m='m')}"
    yield "def model(x):"
    yield "    y = x * 2"
    for place, question in enumerate(questions):
        n, m = drawn_number(rng), drawn_number(rng)
        yield f"    n, m = {n}, {m}"
        test = f"ask{place}(n, m)" if rng.random() < 0.5 else question.format(n="n", m="m")
        yield f"    if {test}: y = y + {3 ** (place + 1)}"
        if rng.random() < 0.3:
            yield f"    y = y + (n if type(n) in (int, float) else {place})"
    yield "    return y"


@attrs.frozen
class Drawn:
    """A model, as text."""

    seed: int

    @property
    def text(self) -> str:
        """What is executed."""
        return LIBRARY + "\n".join(drawn_lines(random.Random(self.seed))) + "\n"

    def model(self) -> Model:
        """The model, in a library of its own for odd seeds, otherwise in code that no module of Python holds."""
        name = f"kinds_of_numbers_{self.seed}"
        space = types.ModuleType(name).__dict__ if self.seed % 2 else {}
        return function_of(self.text, f"{name}.py", "model", space)


def answer(call: Callable[[torch.Tensor], Any], x: torch.Tensor, *refusals: type[Exception]) -> Any:
    """What a call gives; None where it refuses."""
    try:
        return call(x)
    except refusals:
        return None


def faults(case: Drawn, way: str, tally: Callable[[str], Any] = str) -> Iterator[str]:
    """Where the program of a model answers, by one way of capture, otherwise than eager. What eager takes no vector of
    may be answered: who takes an element that is not there has another error."""
    model = case.model()
    example = torch.tensor(EXAMPLE)
    if answer(model, example, Exception) is None:
        tally("no model")
        return
    try:
        program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), widen=False, **WAYS[way])
    except CaptureError:
        try:  # for one size
            program = irkit.to_onnx(model, (example,), widen=False, **WAYS[way])
        except CaptureError:
            tally("refused")
            return
    tally("captured")
    for given in (EXAMPLE, *CALLS):
        x = torch.tensor(given, dtype=torch.int64)
        expected = answer(model, x, Exception)
        found = answer(program, x, irkit.ContractError, irkit.EvaluateError)
        if expected is not None and found is not None:
            tally("answered")
            if found.dtype != expected.dtype or not torch.equal(found, expected):
                yield f"{way}: {given} gives {found.tolist()}, eager {expected.tolist()}"


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    seeds = seeds_asked(arguments)
    warnings.simplefilter("ignore")
    bad, seen = 0, dict[str, int]()
    for seed in seeds:
        case = Drawn(seed)
        for way in WAYS:
            try:
                found = [*faults(case, way, lambda what: seen.update({what: seen.get(what, 0) + 1}))]
            except Exception as error:  # said, with the model
                found = [f"{way}: {type(error).__name__}: {error}"]
            if found:
                bad += 1
                print(seed, case.text.removeprefix(LIBRARY), *found, sep="\n", flush=True)
    print(f"{len(seeds)} models, {bad} captures with faults; {seen}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
