"""Random models that write what is a view at some sizes and a copy at others, against eager at many sizes.

    python -m tests.fuzz.copied_views 200 --seed 7

A view is taken of a tensor, perhaps of a part of it whose size data tells; reshape, contiguous, flatten and their like
are asked of that; what they give, or what they were given, is written, and both are read. By each way of capture the
program must give what eager gives, or refuse.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import torch

import irkit
from irkit.errors import IrkitError
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

BASES = ("x * 1", "x", "(x * 1).t()", "(x * 1)[1:]", "x.clone().unsqueeze(1)", "x[x[:, 0] > 0]", "(x * 1)[None]")
VIEWS = (
    "{u}.mT", "{u}[:-1]", "{u}[1:]", "{u}[..., :-1]", "{u}[..., 1:]", "{u}[..., :3]", "{u}[:k]", "{u}[..., :k]",
    "{u}[::2]", "{u}[..., ::2]", "{u}.narrow(-1, 0, 2)", "{u}.unsqueeze(-1)", "{u}.select(-1, 0)", "{u}.movedim(0, -1)",
    "{u}[..., : x.shape[0]]", "{u}.split(2, -1)[0]", "{u}.chunk(2, 0)[0]", "{u}.flip(0).mT", "{u}[:, None]",
    "{u}.unflatten(-1, (-1, 1))", "{u}.swapaxes(0, -1)", "{u}.diagonal(0, 0, -1)", "{u}.unfold(-1, 1, 1)",
    "{u}.squeeze(0)",
)  # fmt: skip
COPIES = (
    "{u}.reshape(-1)", "{u}.contiguous()", "{u}.flatten()", "{u}.ravel()", "{u}.reshape(1, -1)", "{u}.flatten(0, 1)",
    "{u}.reshape({u}.shape[0], -1)", "{u}.reshape(-1, {u}.shape[-1])", "{u}.reshape_as({u})", "{u}.mT.contiguous()",
    "{u}.reshape({u}.shape[::-1])", "{u}.to(x.dtype)", "torch.flatten({u}, -2)", "{u}.reshape(*{u}.shape, 1)",
    "{u}.contiguous().reshape(-1)", "{u}.reshape(-1).contiguous()", "{u}.mT.reshape(-1)", "torch.atleast_2d({u})",
    "{u}.sum_to_size(1, {u}.shape[-1])", "{u}.reshape(-1, 2)", "{u}.unflatten(-1, (1, -1)).contiguous()",
    "{u}.type_as(x)", "{u}.float()", "{u}.squeeze()", "torch.reshape({u}, (-1,))[1:]",
    "{u}.expand_as({u}).contiguous()",
)  # fmt: skip
WRITES = ("v.mul_(2)", "u.add_(1)", "w.sub_(3)", "v.zero_()", "v[:1] = 7.0", "v.copy_(v + 1)", "v += 1", "w.neg_()")
WAYS = ("torch.export", "direct", "file")
SPECS: tuple[dict[int, str], ...] = ({0: "n"}, {1: "m"}, {0: "n", 1: "m"})
SIZES = (0, 1, 2, 3, 4, 5, 6, 8)


def program(seed: int) -> tuple[str, dict[int, str], tuple[int, int]]:
    """(the text of a function `f(x)`, which of its sizes vary, the sizes of the example)"""
    draw = random.Random(seed)
    lines = [f"w = {draw.choice(BASES)}", "u = w"]
    if draw.random() < 0.3:
        lines.insert(0, "k = int(x.sum() > 0) + 1" if draw.random() < 0.5 else "k = x.shape[1] - 2")
    else:
        lines.insert(0, "k = 2")
    lines += [f"u = {draw.choice(VIEWS).format(u='u')}" for _ in range(draw.randint(0, 3))]
    lines += [f"v = {draw.choice(COPIES).format(u='u')}"]
    lines += [f"v = {draw.choice(COPIES + VIEWS).format(u='v')}" for _ in range(draw.random() < 0.3)]
    lines += [draw.choice(WRITES) for _ in range(draw.randint(1, 2))]
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in (*lines, "return w, u * 1, v * 1"))
    return text, draw.choice(SPECS), draw.choice(((5, 6), (3, 3), (6, 4), (4, 2), (2, 5), (1, 4)))


def outcomes(seed: int, ways: tuple[str, ...] = WAYS) -> list[str]:
    """What came of a seed by each way. Raises AssertionError where a program answers otherwise than eager."""
    text, spec, sizes = program(seed)
    function = function_of(text, f"/fuzz/copied_{seed}.py", space={"torch": torch})
    if answer(function, sizes) is None:
        return ["raises for its example"]
    return [outcome(function, f"{text}{way} {spec} {sizes}", spec, sizes, way) for way in ways]


def outcome(function: Any, told: str, spec: dict[int, str], sizes: tuple[int, int], way: Any) -> str:
    """right, and how often it refused, or why there is no program"""
    try:
        found = exported(function, spec, numbers(*sizes), way)
    except IrkitError as error:
        return f"{way}, none: {str(error).splitlines()[0][:90]}"
    if found is None:
        return f"{way}, torch.export does not capture it"
    for one, other in product(*(SIZES if axis in spec else (sizes[axis],) for axis in (0, 1))):
        expected = answer(function, (one, other))
        try:
            made = found(numbers(one, other))
        except IrkitError:
            continue
        assert expected is not None, f"eager refuses {(one, other)}, the program does not\n{told}"
        for mine, eager in zip(made, expected, strict=True):
            assert mine.shape == eager.shape, f"{list(mine.shape)} for {list(eager.shape)} at {(one, other)}\n{told}"
            assert torch.equal(mine, eager), f"{mine.tolist()} for {eager.tolist()} at {(one, other)}\n{told}"
    return f"{way}, right"


def exported(function: Callable[..., Any], spec: dict[int, str], example: torch.Tensor, way: Any) -> Any:
    """The program, by torch.export itself and a file of it, too; None where torch.export does not take the model."""
    if way != "file":
        return irkit.to_onnx(function, (example,), dynamic_shapes=(spec,), capture=way, widen=False)

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/program.pt2"
        try:
            shapes = (dict.fromkeys(spec, torch.export.Dim.AUTO),)
            torch.export.save(torch.export.export(Module(), (example,), dynamic_shapes=shapes), path)
        except Exception:  # in errors of every class
            return None
        return irkit.to_onnx(path)


def answer(function: Callable[..., Any], sizes: tuple[int, int]) -> Any:
    """What eager gives at sizes; None where it raises."""
    try:
        return function(numbers(*sizes))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


def numbers(one: int, other: int) -> torch.Tensor:
    """Numbers that all differ, some of them negative."""
    return torch.arange(float(one * other)).reshape(one, other) * 3 % 11 - 2


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for drawn in seeds_asked(sys.argv[1:]):
        try:
            sys.stdout.writelines(f"{drawn} {each}\n" for each in outcomes(drawn))
        except AssertionError as error:
            sys.stdout.write(f"{drawn} WRONG {error}\n")
        sys.stdout.flush()
