"""Random functions that write views and names of one memory in branches and loops, rewritten, against eager.

    python -m tests.fuzz.shared_memory 200
    python -m tests.fuzz.shared_memory 200 moves

Each is exported once and called with other data and other sizes. It may be refused at export; what it answers must be
what eager answers.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

import irkit
from irkit.errors import ContractError, IrkitError
from tests.support.written_functions import function_of

HELD = (
    "{v} * 1", "{v}", "{v}[:1]", "{v} + 1", "y[-1:]", "{v}.flip(0)", "z + {v}[:1]", "{v}.view(-1)", "{v}[:]",
)  # fmt: skip
MOVED = ("{v}", "{v}", "{v}[:]", "{v}.view(-1)", "{v} + 1")
TESTS = ("n[0] > 1", "y.sum() > 5", "z.sum() > 3")
LOOPS = ("n.tolist()", "range(n.shape[0])", "range(int(n.min()))")
EXAMPLE = (torch.arange(1.0, 5.0), torch.tensor([2, 1]))
CALLS = (
    EXAMPLE, (torch.tensor([-1.0, 2.0, 7.0]), torch.tensor([0, 1, 3])), (torch.ones(2), torch.tensor([3])),
    (torch.arange(5.0) - 2, torch.tensor([1, 1, 1, 1])),
)  # fmt: skip


def program(seed: int) -> str:
    """The text of a function `f(x, n)`."""
    draw = random.Random(seed)

    def block(depth: int, number: str, count: int) -> Iterator[str]:
        for _ in range(count):
            yield from statement(depth, number)

    def within(head: str, depth: int, number: str) -> Iterator[str]:
        yield head
        yield from (f"    {line}" for line in block(depth + 1, number, draw.randint(1, 3)))

    def statement(depth: int, number: str) -> Iterator[str]:
        name, kind = draw.choice("yz"), draw.random()
        if kind < 0.25:
            yield f"{name}.add_({draw.choice(['1', number])})"
        elif kind < 0.45:
            yield f"{name} = {draw.choice(HELD).format(v=draw.choice('yz'))}"
        elif kind < 0.55:
            yield f"{name}[0] = {draw.choice(['3.0', 'z.sum()', 'y[-1]'])}"
        elif kind < 0.65:
            yield "c = c + 1"
        elif kind < 0.85 and depth < 2:
            yield from within(f"if {draw.choice(TESTS)}:", depth, number)
            if draw.random() < 0.5:
                yield from within("else:", depth, number)
        elif depth == 0:
            yield from within(f"for k in {draw.choice(LOOPS)}:", depth, "k")
            if draw.random() < 0.5:
                yield from ("out = []", "for k in n.tolist():", f"    out.append({draw.choice(['y[:1]', 'z * k'])})")
                yield from (f"{draw.choice('yz')}.mul_(2)", "c = c + torch.cat(out).sum()")
        else:
            yield "y = y + 1"

    lines = ["y = x * 2", "z = y[:1]", "c = x.sum() * 0", *block(0, "2", draw.randint(3, 6)), "return y, z, c"]
    return "def f(x, n):\n" + "".join(f"    {line}\n" for line in lines)


def moves(seed: int) -> str:
    """The text of a function `f(x, n)` that hands tensors of one size from name to name, and writes one in the end:
    what two names may each share with a third one, they may share with each other."""
    draw = random.Random(seed)

    def move() -> str:
        return f"{draw.choice('yzw')} = {draw.choice(MOVED).format(v=draw.choice('yzw'))}"

    lines = ["y = x * 2", "z = x * 3", "w = x * 4", "c = x.sum() * 0"]
    for _ in range(draw.randint(1, 4)):
        head = draw.choice((f"if {draw.choice(TESTS)}:", f"for k in {draw.choice(LOOPS)}:"))
        lines += [head, *(f"    {move()}" for _ in range(draw.randint(1, 3))), "    c = c + 1"]
        if head.startswith("if") and draw.random() < 0.5:
            lines += ["else:", f"    {move()}"]
        if draw.random() < 0.3:
            lines.append(move())
    one, *others = draw.sample("yzw", 3)
    lines += [f"{one}.add_(1)", f"return {draw.choice(others)}, c"]
    return "def f(x, n):\n" + "".join(f"    {line}\n" for line in lines)


def outcome(seed: int, written: Callable[[int], str] = program) -> str:
    """What came of a seed: right, or why it is refused. Raises AssertionError where it answers otherwise than eager."""
    text = written(seed)
    function = function_of(text, f"/fuzz/shared_{written.__name__}_{seed}.py", space={"torch": torch})
    try:
        found = irkit.to_onnx(
            function, copies(EXAMPLE), dynamic_shapes=({0: "a"}, {0: "b"}), rewrite=True, capture="direct"
        )
    except IrkitError as error:
        return f"refused: {str(error).splitlines()[0][:60]}"
    for given in CALLS:
        try:
            answer = found(*copies(given))
        except ContractError:
            continue
        expected = function(*copies(given))
        for one, other in zip(answer, expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), msg=lambda m: f"{m}\n{text}")
    return "right"


def copies(given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The arguments, which may be written."""
    return tuple(each.clone() for each in given)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    kind = moves if "moves" in sys.argv else program
    tally = Counter(outcome(seed, kind) for seed in range(count))
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in tally.most_common())
