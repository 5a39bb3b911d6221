"""Python's own arithmetic on sizes: dimension algebra while lowering, and at every size what Python computes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError

TORCH: Any = torch
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31)
NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "added": lambda n, m: n + m - 3, "product": lambda n, m: n * m * 2, "negated": lambda n, m: -n + +m,
    "floor of a negative": lambda n, m: (n - 9) // 2, "floor of a difference": lambda n, m: (n - m) // 3,
    "floor by a size": lambda n, m: (n * 5 - 40) // m, "floor by a negative": lambda n, m: n // -4,
    "remainder": lambda n, m: n % 3, "remainder of a negative": lambda n, m: (n - 20) % 7,
    "remainder of a negative divisor": lambda n, m: n % -5, "rounded up": lambda n, m: -(-n // 4),
    "power": lambda n, m: n**2 + 2**3, "max": lambda n, m: max(n, m, 4), "min": lambda n, m: min(n - 2, m),
    "abs": lambda n, m: abs(n - 8), "floor": lambda n, m: math.floor(n / 3), "ceil": lambda n, m: math.ceil(n / 3),
    "trunc": lambda n, m: math.trunc(n / 3), "floor below 0": lambda n, m: math.floor((n - 11) / 4),
    "ceil below 0": lambda n, m: math.ceil((n - 11) / 4), "operator.floordiv": lambda n, m: operator.floordiv(n - 7, 2),
    "operator.mod": lambda n, m: operator.mod(n - 7, 3), "operator.neg": lambda n, m: operator.neg(n),
    "operator.add": lambda n, m: operator.add(n, operator.mul(m, 2)), "operator.sub": lambda n, m: operator.sub(m, n),
    "sym_max": lambda n, m: torch.sym_max(n, m), "sym_min": lambda n, m: torch.sym_min(n, 6),
    "sym_int": lambda n, m: torch.sym_int(n / 2), "sym_sum": lambda n, m: torch.sym_sum([n, m, n]),
    "sum": lambda n, m: sum([n, m, 1]), "shifted": lambda n, m: n << 2,
}  # fmt: skip
FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "true division": lambda n, m: n / m, "root of a product": lambda n, m: (n * m) ** 0.5,
    "sym_float": lambda n, m: TORCH.sym_float(n) * 1.5, "operator.truediv": lambda n, m: operator.truediv(n, 3),
    "sym_sqrt": lambda n, m: TORCH._sym_sqrt(n), "scaled": lambda n, m: 1.0 / TORCH._sym_sqrt(n) + m,
    "power": lambda n, m: 2.0**n / 1024, "floored": lambda n, m: n // 2 / m,
}  # fmt: skip


class Computed(torch.nn.Module):
    """Sizes into an element of a tensor, and as many elements as a size says where it says more than 0."""

    def __init__(self, function: Callable[[Any, Any], Any], many: bool) -> None:
        super().__init__()
        self.function, self.many = function, many

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = self.function(x.shape[0], x.shape[1])
        if not self.many:
            return (x.new_zeros(()) + made,)
        return x.new_zeros(()) + made, torch.full((made * made,), made, dtype=torch.int64)


def agrees(function: Callable[[Any, Any], Any], many: bool) -> None:
    """Fails where the exported sizes are not Python's."""
    model = Computed(function, many)
    program = to_onnx(model, (torch.zeros(5, 7, dtype=torch.float64),), dynamic_shapes={"x": {0: "n", 1: "m"}})
    ran = 0
    for n in SIZES:
        for m in (2, 7, 10):
            x = torch.zeros(n, m, dtype=torch.float64)
            try:
                found = program(x)
            except ContractError:
                continue
            ran += 1
            difference = compare([t.numpy() for t in model(x)], [t.numpy() for t in found], rtol=1e-12, atol=0)
            assert difference is None, f"n = {n}, m = {m}: {difference}"
    assert ran > len(SIZES)


@pytest.mark.parametrize("name", NUMBERS)
def test_whole_numbers(name: str) -> None:
    agrees(NUMBERS[name], many=True)


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    agrees(FLOATS[name], many=False)


def test_sizes_alone_need_no_arithmetic_in_the_file() -> None:
    """A size that an operand shows is read off it; nothing is computed that dimension algebra settles."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            return x.reshape((2 * n + n - 2 * n, -1)) + ((n * 3) // 3 - n)

    program = to_onnx(Model(), (torch.zeros(4, 6),), dynamic_shapes={"x": {0: Dim("n", min=1, max=64)}})
    held = {node.op_type for node in program.proto.graph.node}
    assert not held & {"Shape", "Mul", "Div", "Gather"}, held


WIDE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "factor": lambda x: x * x.shape[0] ** 16,
    "least of two": lambda x: x * min(x.shape[0] ** 16, 5),
    "remainder": lambda x: x * (x.shape[0] ** 16 % 7),
    "length": lambda x: x.new_zeros(min(x.shape[0] ** 16, 3)),
    "branch": lambda x: torch.cond(x.shape[0] ** 16 > 2**70, lambda x: x * 2, lambda x: x + 1, (x,)),
}


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", WIDE)
def test_numbers_beyond_64_bits_are_refused(name: str, capture: Any) -> None:
    program = to_onnx(WIDE[name], (torch.ones(3, 2),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (0, 1, 2, 15):
        x = torch.ones(size, 2)
        torch.testing.assert_close(program(x), WIDE[name](x))
    for size in (16, 20, 30):
        with pytest.raises(ContractError, match=r"n\*\*16 <= 9223372036854775807"):
            program(torch.ones(size, 2))


def test_numbers_that_no_tensor_is_too_small_for_ask_nothing() -> None:
    """What 64 bits hold for all sizes that tensors in memory have."""

    def model(x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = x.shape
        return x.reshape(a * b * c * d) * (a * b) + a * b * c * 8 + (c * d) ** 0.5

    program = to_onnx(model, (torch.ones(3, 4, 5, 6),), dynamic_shapes=({0: "a", 1: "b", 2: "c", 3: "d"},))
    assert not program.report.guards
    ranged = to_onnx(WIDE["factor"], (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", max=15)},))
    assert not ranged.report.guards
