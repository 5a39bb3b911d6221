"""Definitions of ONNX Runtime's matrix products and convolutions with what follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from irkit.build.runtime.application import Application, number, op
from irkit.core.ir import Value
from irkit.support.counts import count_text


def fused_mat_mul(a: Application, x: Value, y: Value) -> Value:
    """alpha * x' @ y', where x' is x with the last two axes swapped (transA), or the first moved before the last
    (transBatchA)"""
    left = turned(a, x, a.flag("transA"), a.flag("transBatchA"))
    right = turned(a, y, a.flag("transB"), a.flag("transBatchB"))
    found = op.MatMul(left, right)
    alpha = a.attr("alpha", 1.0)
    return found if alpha == 1 else op.Mul(found, number(found, alpha))


def turned(a: Application, x: Value, swap: bool, batch: bool) -> Value:
    """An operand as it is multiplied: with `batch` (rows, batch..., columns) stands for (batch..., rows, columns); a
    swap of the last two axes comes after that. Vectors stay as they are."""
    if x.rank < 2 or not (swap or batch):
        return x
    perm = list(range(x.rank))
    if batch:
        if x.rank < 3:
            raise a.fail("transBatchA and transBatchB need operands of rank 3 or more")
        perm = [*perm[1:-1], perm[0], perm[-1]]
    if swap:
        perm[-2:] = perm[:-3:-1]
    return x if perm == list(range(x.rank)) else op.Transpose(x, perm=perm)


def fused_gemm(a: Application, x: Value, y: Value, z: Value | None) -> Value:
    """activation(alpha * x' @ y' + beta * z)"""
    names = ("alpha", "beta", "transA", "transB")
    found = op.Gemm(x, y, z, **{name: a.attr(name) for name in names})
    given = {n: a.attributes.get(f"activation_{n}") for n in ("alpha", "beta", "gamma")}
    return activated(a, found, tuple(v for v in given.values() if v is not None))


def fused_conv(a: Application, x: Value, w: Value, b: Value | None, z: Value | None) -> Value:
    """activation(Conv(x, w, b) + z)"""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    found = op.Conv(x, w, b, **{name: a.attr(name) for name in names if a.attr(name) is not None})
    total = found if z is None else op.Add(found, z)
    return activated(a, total, tuple(a.attr("activation_params", ())))


def activated(a: Application, x: Value, params: tuple[float, ...]) -> Value:
    """The activation that attribute `activation` names, of x; x itself where it names none."""
    name = a.attr("activation", "")
    if not name:
        return x
    function = ACTIVATIONS.get(name)
    if function is None:
        raise a.fail(f"the activation {name} is not defined")
    made, count = function
    if len(params) not in (0, count) or (name == "Clip" and len(params) != count):
        raise a.fail(f"the activation {name} takes {count_text(count, 'parameter')}, and there are {len(params)}")
    return made(x, *params)


def _plain(name: str) -> Callable[..., Value]:
    return getattr(op, name)


def _with(name: str, *attributes: str) -> Callable[..., Value]:
    def made(x: Value, *params: float) -> Value:
        return getattr(op, name)(x, **dict(zip(attributes, params, strict=False)))

    return made


def _clipped(x: Value, low: float, high: float) -> Value:
    return op.Clip(x, number(x, low), number(x, high))


ACTIVATIONS: Mapping[str, tuple[Callable[..., Value], int]] = MappingProxyType(
    {
        **{name: (_plain(name), 0) for name in ("Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Softsign")},
        "LeakyRelu": (_with("LeakyRelu", "alpha"), 1),
        "Elu": (_with("Elu", "alpha"), 1),
        "ThresholdedRelu": (_with("ThresholdedRelu", "alpha"), 1),
        "HardSigmoid": (_with("HardSigmoid", "alpha", "beta"), 2),
        "Clip": (_clipped, 2),
    }
)
"""What each activation is, and how many parameters it has."""
