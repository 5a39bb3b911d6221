"""Random functions with control flow on data, rewritten, against eager: `python -m tests.fuzz.control_programs 100`.

They compute with integers, so that results are equal to the last digit and no decision hangs on rounding.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import torch

import irkit
from tests.support.written_functions import function_of

SCALARS = (
    "x.sum() % 7", "s + 1", "(s * 3 + t) % 11", "x.max()", "(t - s) % 9", "s + k", "x[0].sum()", "s if s > t else t",
    "max(s, t)", "(x[-1] * s).sum() % 5",
)  # fmt: skip
TENSORS = ("(x * 2 + s) % 13", "x + t", "x - x.min()", "(x * x) % 10 - 4", "x if s > 1 else x + 1", "x * k % 11")
TESTS = (
    "s > t", "x.sum() % 3 == 0", "s % 2 == 0 and t > 1", "not s > 2", "k > 1", "0 < s < 5", "x.max() > 4 or s < t",
    "(x > 3).any()", "x.shape[1] == 3", "bool(s)", "s >= 0 and (t > 0 or not (x < 0).any())", "x[0, 0] < s",
)  # fmt: skip


class Writer:
    """Writes one program; `line` gives its statements."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = 0
        self.left = 14

    def program(self) -> str:
        """The text of a function `f(x)`."""
        body = ["s = x.sum() % 5", "t = x.max()", "k = 1", *self.block(0, False), "return x, s, t, k + s"]
        return "def f(x):\n" + "\n".join(f"    {line}" for line in body) + "\n"

    def block(self, depth: int, loop: bool) -> list[str]:
        """The lines of a block."""
        return [line for _ in range(self.draw.randint(1, 3)) for line in self.statement(depth, loop)]

    def statement(self, depth: int, loop: bool) -> Iterator[str]:
        """The lines of a statement."""
        self.left -= 1
        kinds = ["scalar", "tensor", "number", "write"]
        kinds += (
            ["if", "if", "while", "rows", "range", "list", "grow", "pieces", "split", "kept", "kept"]
            if depth < 3 and self.left > 0
            else []
        )
        kinds += ["leave", "leave"] if depth else []
        kind = self.draw.choice(kinds)
        pick = self.draw.choice
        if kind == "scalar":
            yield f"{pick('st')} = {pick(SCALARS)}"
        elif kind == "tensor":
            yield f"x = {pick(TENSORS)}"
        elif kind == "number":
            yield pick(("k = k + 1", "k = 3", "k += 2", "s = s + 0"))
        elif kind == "write":
            yield from pick((("x = x.clone()", "x[0] = s"), ("t = t + 0", "t += 1"), ("assert x.shape[1] == 3",)))
        elif kind == "leave":
            way = pick(("return x + s, s, t, k + t", "break", "continue") if loop else ("return x, t, s, t",))
            yield f"if {pick(TESTS)}:"
            yield f"    {way}"
        elif kind == "if":
            yield f"if {pick(TESTS)}:"
            yield from self.indented(depth, loop)
            if self.draw.random() < 0.3:
                yield f"elif {pick(TESTS)}:"
                yield from self.indented(depth, loop)
            if self.draw.random() < 0.5:
                yield "else:"
                yield from self.indented(depth, loop)
        else:
            yield from self.loop(kind, depth)

    def loop(self, kind: str, depth: int) -> Iterator[str]:
        """The lines of a loop."""
        self.count += 1
        name = f"{kind}{self.count}"
        if kind == "while":
            yield f"{name} = (x.sum() + s) % 7"
            yield f"while {name} > 0:"
            yield f"    {name} = {name} - 2"
        elif kind == "rows":
            yield f"for {name} in x:"
            yield f"    s = (s + {name}.sum()) % 17"
        elif kind == "range":
            yield f"for {name} in range({self.draw.choice(('2', '3', 'x.shape[0]', 't % 4'))}):"
            yield f"    t = (t + {name}) % 19"
        elif kind in ("grow", "pieces", "split"):
            yield from self.sized(kind, name)
            return
        elif kind == "kept":
            yield from self.kept(name)
            return
        else:
            yield f"{name} = []"
            yield "for row in x:"
            yield f"    {name}.append(row + s)"
            yield f"x = torch.stack({name})"
            return
        yield from self.indented(depth, True)
        if self.draw.random() < 0.2:
            yield "else:"
            yield "    t = t + 1"

    def kept(self, name: str) -> Iterator[str]:
        """The lines of a list that gains elements on some ways only, in loops and without one, and is asked how long it
        is."""
        pick = self.draw.choice
        tests = "row.sum() > s", "row[0] > t", f"len({name}) % 2 == 0", f"len({name}) > 3", "row.max() < 2 and s > 1"
        element = f"row * 2 + {pick(('s', 't', f'len({name})'))}"
        yield f"{name} = [x[0]]"
        for _ in range(self.draw.randint(1, 2)):
            kind = pick(("rows", "rows", "while", "branch"))
            if kind == "branch":
                yield f"if {pick(TESTS)}:"
                yield f"    {name}.append(x[-1] + s)"
                if self.draw.random() < 0.4:
                    yield f"    {name} += [x[0], x[-1]]"
            elif kind == "while":
                yield f"while len({name}) < {pick(('4', 's % 6', 'x.shape[0]'))}:"
                yield f"    {name}.append({name}[-1] % 5 + s)"
                if self.draw.random() < 0.5:
                    yield f"    if {pick(TESTS)}:"
                    yield "        break"
            else:
                yield "for row in x:"
                if self.draw.random() < 0.3:
                    yield f"    if {pick(tests)}:"
                    yield f"        {pick(('continue', 'break'))}"
                yield f"    if {pick(tests)}:"
                yield f"        {name}.append({element})"
                if self.draw.random() < 0.3:
                    yield f"        if {pick(tests)}:"
                    yield f"            {name}.append(row)"
                if self.draw.random() < 0.4:
                    yield "    else:"
                    yield f"        {pick((f'{name}.append(row + 1)', f'{name} += [row, row * 3]', 's = s + 1'))}"
                if self.draw.random() < 0.3:
                    yield f"    t = (t + len({name})) % 13"
        yield f"t = (t + torch.stack({name}).sum() + len({name})) % 23"
        yield f"x = torch.cat([torch.stack({name}), x])[: x.shape[0]] % 17"

    def sized(self, kind: str, name: str) -> Iterator[str]:
        """The lines of a loop that carries a tensor which grows, of a list of tensors of unequal lengths, or of a split
        by lengths of data. What comes of it has as many rows as before, or goes into a number."""
        pick = self.draw.choice
        if kind == "grow":
            yield f"{name} = {pick(('x', 'x[:1]', 'x[:0]', 'x[:, :2]'))}"
            yield f"for step in range({pick(('x.shape[0]', 't % 4', '3'))}):"
            more = pick((f"{name}[:1] + s", f"{name}[step : step + 2]", f"x[:step, : {name}.shape[1]]", f"{name} % 3"))
            yield f"    {name} = torch.cat([{name}, {more}])"
            if self.draw.random() < 0.3:
                yield f"    if {name}.sum() > {pick(('20', 's * 5'))}:"
                yield f"        {pick(('break', 'continue', f'{name} = {name} - 1'))}"
            if self.draw.random() < 0.5:
                yield f"    s = (s + {name}.sum()) % 13"
            yield f"t = (t + {name}.sum() + {name}.shape[0]) % 23"
        elif kind == "pieces":
            size = pick(("2", "3"))
            ways = "x[i : i + {}] + s", "x[: i + 1] * 2", "x[i:]", "(x[i : i + {}], i)", "x[i : i + {}].cumsum(0)"
            element = pick(ways).format(size)
            pairs = element.startswith("(")
            if self.draw.random() < 0.5:
                yield f"{name} = [{element} for i in range(0, x.shape[0], {size})]"
            else:
                yield f"{name} = {'[]' if pairs else pick(('[]', '[x]'))}"
                yield f"for i in range(0, x.shape[0], {size}):"
                yield f"    {name}.append({element})"
            yield f"t = (t + sum([each{'[0]' if pairs else ''}.max() for each in {name}])) % 29"
            yield f"s = (s + len({name})) % 31"
            if not pairs:
                yield f"x = torch.cat({name})[: x.shape[0]] % 17"
        else:
            yield f"{name} = {pick(('x.abs().sum(1) % 3', '(x[:, 0] % 2 + x[:, 1] % 3)', 'torch.ones_like(x[:, 0])'))}"
            yield f"{name} = torch.cat([{name}.minimum(x.shape[0] - {name}.cumsum(0)).clamp(min=0), {name}[:1] * 0])"
            yield f"{name} = torch.cat([{name}, (x.shape[0] - {name}.sum()).reshape(1)])"
            yield f"pieces = {pick((f'torch.split(x, {name}.tolist())', f'x.split({name}.tolist(), dim=0)'))}"
            yield f"x = torch.cat([each * 2 + {pick(('each.sum()', 's', 'each.shape[0]'))} for each in pieces]) % 19"

    def indented(self, depth: int, loop: bool) -> Iterator[str]:
        """The lines of a block inside another."""
        yield from (f"    {line}" for line in self.block(depth + 1, loop))


def inputs(seed: int) -> list[torch.Tensor]:
    """Integers at several sizes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-5, 6, (n, 3), generator=generator) for n in (3, 3, 2, 5, 3)]


def outcome(seed: int) -> str:
    """What came of one program: "agrees", "is refused: ..." for an error of irkit's, or what is wrong."""
    text = Writer(seed).program()
    function = function_of(text, f"/fuzz/control_{seed}.py", space={"torch": torch})
    example, *others = inputs(seed)
    try:
        program = irkit.to_onnx(function, (example,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    except irkit.errors.IrkitError as error:
        return f"is refused: {error.what}"
    refused = 0
    for x in (example, *others):
        expected = function(x.clone())
        try:
            found = program(x.clone())
        except irkit.ContractError as error:
            if not any("n" in text or "x" in text for text, _ in program.report.guards):
                return f"refuses inputs: {error.what}"
            refused += 1
            continue
        for one, other in zip(expected, found, strict=True):
            if not torch.equal(torch.as_tensor(one), torch.as_tensor(other)):
                return f"gives {other} where torch gives {one} for {x.tolist()}\n{text}"
    return "agrees" if refused < 4 else "agrees, and refuses all other inputs"


def main(count: int, first: int = 0) -> int:
    """Runs so many programs, and prints those that do not agree; how many are wrong."""
    wrong, refused = 0, 0
    for seed in range(first, first + count):
        try:
            said = outcome(seed)
        except Exception as error:
            said = f"fails: {type(error).__name__}: {error}"
        if said.startswith("is refused"):
            refused += 1
            print(seed, said.splitlines()[0], flush=True)
        elif not said.startswith("agrees"):
            wrong += 1
            print(seed, said, flush=True)
    print(f"{count - wrong - refused} of {count} agree, {refused} are refused, {wrong} are wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
