"""Random comprehensions over rows and sizes, with tests and without, rewritten, against eager.

    python -m tests.fuzz.taken_elements 200 --seed 7 [--wide]

With `--wide` they have several `for`, go over generators and pairs, and are summed from a start.

They compute with integers, so that results are equal to the last digit and no decision hangs on rounding.
"""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from collections.abc import Callable, Sequence

import torch

import irkit
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

OVER = {
    "i": ("range(n)", "range(1, n)", "range(0, n, 2)", "range(n - 1, -1, -1)", "range(len(x))"),
    "r": ("x", "x[1:]", "reversed(x)", "x.unbind(0)", "x.flip(0)"),
    "i, r": ("enumerate(x)", "enumerate(x, 1)", "zip(range(n), x)"),
    "r, q": ("zip(x, x.flip(0))", "zip(x[:-1], x[1:])"),
}
"""What a comprehension goes over, by what it binds."""
TESTS = {
    "i": ("i % 2 == 0", "i > 1", "i != 2", "x[i].sum() > 0", "i < n - 1 and x[i, 0] > 0", "not x[i].sum() > 2"),
    "r": ("r.sum() > 0", "r[0] > r[1]", "r.max() > 3 or r.min() < -3", "not r[0] > 1", "r.sum() % 2 == 0"),
    "q": ("q.sum() > 0", "(q > r).any()"),
}
NUMBERS = {"i": ("i", "i * 2 + 1", "n - i", "x[i, 0] + i"), "r": ("r.sum()", "r[0] * 2"), "q": ("(q * r).sum()",)}
ROWS = {"i": ("x[i]", "x[i] * 2 if i > 1 else x[i]"), "r": ("r", "r * 2 + 1"), "q": ("q - r",)}
OF_NUMBERS = (
    "x + sum({})", "x * len({})", "x + torch.tensor({})[:1].sum()", "x + sum([each * 2 for each in {}])",
    "x + max([0, 7]) * len(tuple({}))", "x + torch.tensor({}, dtype=torch.int64).sum()",
    "x + torch.tensor([each * 1.0 for each in {}]).sum()",
)  # fmt: skip
OF_ROWS = ("torch.stack({})", "torch.stack(list({}))", "torch.stack(tuple({}))", "x * len({})", "{}", "x + sum({})")
OF_TRUTHS = ("x * 2 if any({}) else x", "x * 5 if all({}) else x - 1")


WIDER = {
    "r": ("({r} for {r} in x)", "({r} * 2 for {r} in x if {r}.sum() > 0)", "(x[{r}] - 1 for {r} in range(n))"),
    "i": ("({i} + 1 for {i} in range(n - 1))", "(3 - {i} for {i} in range(n) if {i} < 3)"),
    "i, r": ("enumerate({r} - 1 for {r} in x)", "zip((2 for {r} in x), x)", "zip(range(n), ({i} * 2 for {i} in x))"),
    "r, q": ("itertools.pairwise(x)", "itertools.pairwise(x.flip(0))", "zip(({r} + 1 for {r} in x), x)"),
}
"""What a comprehension may go over, too: generators and pairs."""
INNER = ("j in range(n)", "j in range(2)", "j in range(x.shape[1])", "j in range(1, n)", "j in (0, 1, n)")
BEYOND = ("{} + j", "{} * (j + 1)", "{} - j if j > 0 else {}")
FROM = ("sum({}, 3)", "sum({}, start=x[0, 0])", "sum({}, n)")
FROM_ROWS = ("sum({}, x[0])", "sum({}, start=torch.ones(3, dtype=torch.int64))")


def draw_wide_model(rng: random.Random) -> str:
    """The text of a function with a comprehension of another form."""
    bound = rng.choice(tuple(WIDER))
    names = bound.split(", ")
    of_rows = rng.random() < 0.5
    element = rng.choice((ROWS if of_rows else NUMBERS)[rng.choice(names)])
    over = rng.choice(WIDER[bound]).format(r="a", i="b") if rng.random() < 0.6 else rng.choice(OVER[bound])
    ifs = "".join(f" if {rng.choice(TESTS[rng.choice(names)])}" for _ in range(rng.choice((0, 0, 1))))
    levels = [f" for {bound} in {over}{ifs}"]
    if rng.random() < 0.5:
        levels.insert(rng.choice((0, 1)), f" for {rng.choice(INNER)}{rng.choice(('', '', ' if j != 1'))}")
        element = rng.choice(BEYOND).replace("{}", f"({element})")
    summed = rng.random() < 0.6
    made = "".join((element, *levels))
    made = f"({made})" if summed and rng.random() < 0.7 else f"[{made}]"
    forms = (FROM_ROWS if of_rows else FROM) if summed else OF_ROWS[:-1] if of_rows else OF_NUMBERS[1:]
    form = rng.choice(forms)
    return f"def model(x):\n    n = x.shape[0]\n    return {form.replace('{}', made)}\n"


def draw_model(rng: random.Random) -> str:
    """The text of a function."""
    bound = rng.choice(tuple(OVER))
    names = bound.split(", ")
    ifs = "".join(f" if {rng.choice(TESTS[rng.choice(names)])}" for _ in range(rng.choice((0, 1, 1, 1, 2))))
    over = f" for {bound} in {rng.choice(OVER[bound])}{ifs}"
    kind = rng.choice(("numbers", "rows", "truths"))
    if kind == "numbers":
        element, forms = rng.choice(NUMBERS[rng.choice(names)]), OF_NUMBERS
    elif kind == "rows":
        element, forms = rng.choice(ROWS[rng.choice(names)]), OF_ROWS
    else:
        element, forms = rng.choice(TESTS[rng.choice(names)]), OF_TRUTHS
    form, made = rng.choice(forms), element + over
    bare = any(f"{each}({{}})" in form for each in ("sum", "any", "all", "list", "tuple")) and rng.random() < 0.5
    made = form.replace("{}", made if bare else f"[{made}]")
    return f"def model(x):\n    n = x.shape[0]\n    return {made}\n"


def inputs(seed: int) -> list[torch.Tensor]:
    """Integers at several sizes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-5, 6, (n, 3), generator=generator) for n in (4, 4, 1, 2, 3, 7, 5, 0)]


def outcome(seed: int, wide: bool = False) -> str:
    """What came of one program: "agrees", "is refused: ..." for an error of irkit's, or what is wrong."""
    text = (draw_wide_model if wide else draw_model)(random.Random(seed))
    model = function_of(text, f"/fuzz/taken_{seed}_{wide}.py", "model", {"torch": torch, "itertools": itertools})
    example, *others = inputs(seed)
    if eager_answer(model, example) is None:
        return "agrees"
    try:
        program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    except irkit.errors.IrkitError as error:
        return f"is refused: {error.what}"
    refused = 0
    for x in (example, *others):
        expected = eager_answer(model, x)
        try:
            found = program(x.clone())
        except irkit.errors.IrkitError:  # a kernel refuses places in a list without elements before its check is read
            refused += expected is not None
            continue
        if expected is None:
            return f"gives {found} where torch raises, for {x.tolist()}\n{text}"
        if not agree(expected, found):
            return f"gives {found} where torch gives {expected} for {x.tolist()}\n{text}"
    return "agrees" if refused < 4 else "agrees, and refuses most inputs"


def eager_answer(model: Callable[..., object], x: torch.Tensor) -> object:
    """What eager gives; None where it raises."""
    try:
        return model(x.clone())
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


def agree(one: object, other: object) -> bool:
    """Whether two results are the same, lists by their elements."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(agree, one, other))
    a, b = torch.as_tensor(one), torch.as_tensor(other)
    return a.dtype is b.dtype and torch.equal(a, b)


def main(arguments: Sequence[str]) -> int:
    """Runs programs, and prints those that do not agree: 0 where none is wrong."""
    warnings.simplefilter("ignore")
    wide = "--wide" in arguments
    seeds, wrong, refused = seeds_asked([each for each in arguments if each != "--wide"]), 0, 0
    for seed in seeds:
        try:
            said = outcome(seed, wide)
        except Exception as error:
            said = f"fails: {type(error).__name__}: {error}"
        refused += said.startswith(("is refused", "agrees, and"))
        wrong += not said.startswith(("is refused", "agrees"))
        if said != "agrees":
            text = (draw_wide_model if wide else draw_model)(random.Random(seed))
            print(seed, said, text.splitlines()[-1].strip(), flush=True)
    print(f"{len(seeds)} comprehensions, {refused} refused, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
