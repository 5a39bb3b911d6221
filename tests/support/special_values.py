"""Pointwise operators of torch at the ends of the floats: the values, the truth, and what differs from eager."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import mpmath
import torch
import torch.nn.functional as F
from mpmath.libmp import NoConvergence
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from tests.support.named_exceptions import Exceptional

TYPES: Mapping[str, torch.dtype] = MappingProxyType({
    "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
})  # fmt: skip
BOUNDS: Mapping[str, int] = MappingProxyType({"float32": 16, "float64": 16, "float16": 2, "bfloat16": 2})
"""By how many units in the last place a file may be further from the truth than eager is."""

Function = Callable[..., Any]
Need = tuple[Exceptional, str, str]
"""An exception, and an operator and a type that need it."""
NAMES = """
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus
    softshrink softsign tanhshrink threshold sigmoid tanh""".split()
MORE: Mapping[str, Function] = MappingProxyType({
    **{f"nn.functional.{name}": getattr(F, name) for name in NAMES},
    "nn.functional.threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "nn.functional.gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "nn.functional.celu 2": lambda x: F.celu(x, 2.0),
    "nn.functional.elu 1.5": lambda x: F.elu(x, 1.5),
    "nn.functional.softplus 2": lambda x: F.softplus(x, 2.0, 5.0),
    "nn.functional.prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "nn.functional.rrelu": F.rrelu,
    "nn.functional.glu": lambda x: F.glu(torch.stack([x, x], 1), 1),
    "sum": lambda x: torch.stack([x, x], 1).sum(1),
    "sum of one": lambda x: x[:, None].sum(1),
    "cumsum": lambda x: torch.stack([x, x], 1).cumsum(1),
    "mean": lambda x: x[:, None].mean(1),
    "prod": lambda x: x[:, None].prod(1),
    "amax": lambda x: x[:, None].amax(1),
    "logsumexp": lambda x: x[:, None].logsumexp(1),
    "masked_fill 0": lambda x: x.masked_fill(x > 0.7, 0.0),
    "masked_fill -0": lambda x: x.masked_fill(x > 0.7, -0.0),
    "where 0": lambda x: torch.where(x > 0.7, 0.0, x),
    "where -0": lambda x: torch.where(x > 0.7, x, -0.0),
    "tril": lambda x: torch.stack([x, x], 1).tril(),
    "clamp": lambda x: x.clamp(-0.7, 0.8), "clamp at 0": lambda x: x.clamp(0.0),
    "clamp below 0": lambda x: x.clamp(max=0.0), "clamp -0": lambda x: x.clamp(-0.0, 1.0),
    "plus 0": lambda x: x + 0.0, "plus -0": lambda x: x + -0.0, "minus 0": lambda x: x - 0.0, "0 -": lambda x: 0.0 - x,
    "minus itself": lambda x: x - x, "times 0": lambda x: x * 0.0, "times -1": lambda x: x * -1.0,
    "by -1": lambda x: x / -1.0, "by itself": lambda x: x / x, "neg of neg": lambda x: x.neg().neg(),
    "sub of sub": lambda x: 0.0 - (0.0 - x), "sub neg": lambda x: 1.0 - (1.0 - x), "cubed": lambda x: x**3,
    "squared": lambda x: x**2, "power 0.5": lambda x: x**0.5, "power -1": lambda x: x**-1, "2 to": lambda x: 2**x,
    "root of square": lambda x: (x * x).sqrt(), "exp of log": lambda x: x.log().exp(),
    "abs of neg": lambda x: (-x).abs(), "relu of neg": lambda x: (-x).relu(), "sign of abs": lambda x: x.abs().sign(),
    "max and min": lambda x: torch.minimum(torch.maximum(x, torch.zeros_like(x)), torch.ones_like(x)),
    "to and fro": lambda x: x.double().to(x.dtype), "neg of relu": lambda x: -x.relu(),
    "masked": lambda x: x * (x > 0.7), "lerp": lambda x: torch.lerp(x, x + 1, 0.3),
})  # fmt: skip
PAIRS: Mapping[str, Function] = MappingProxyType({
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5), "addcdiv": lambda a, b: torch.addcdiv(a, a, b),
    "sum of two": lambda a, b: torch.stack([a, b], 1).sum(1),
    "cumsum of two": lambda a, b: torch.stack([a, b], 1).cumsum(1),
    "where of two": lambda a, b: torch.where(a > b, a, b), "max of two": lambda a, b: torch.stack([a, b], 1).amax(1),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "neg of sub": lambda a, b: -(a - b),
    "sub of neg": lambda a, b: a - -b, "neg times": lambda a, b: -a * b, "add neg": lambda a, b: -a + b,
})  # fmt: skip


def operators() -> dict[str, tuple[Function, int]]:
    """Each operator by name, with the number of its operands."""
    found: dict[str, tuple[Function, int]] = {}
    for each in op_db:
        name = f"{each.name}.{each.variant_test_name}" if each.variant_test_name else each.name
        if each.name.startswith("jiterator"):  # for GPUs alone
            continue
        if isinstance(each, UnaryUfuncInfo):
            given = each.sample_kwargs("cpu", torch.float32, torch.ones(1))[0]
            found[name] = ((lambda x, f=each.op, g=given: f(x, **g)) if given else each.op, 1)
        elif isinstance(each, BinaryUfuncInfo):
            found[name] = (each.op, 2)
    found |= {name: (function, 1) for name, function in MORE.items()}
    found |= {name: (function, 2) for name, function in PAIRS.items()}
    return dict(sorted(found.items()))


OPERATORS = MappingProxyType(operators())


# ---------------------------------------------------------------------------------------------- values


def special_values(kind: str, few: bool = False) -> Tensor:
    """Numbers of a type at which operators turn, of both signs; fewer for pairs of them."""
    dtype = TYPES[kind]
    about = torch.finfo(dtype)
    least = about.smallest_normal * about.eps
    some = [0.0, least, about.tiny, 1e-10, 1e-5, 0.5, 1.0, 2.0, 100.0, about.max, float("inf")]
    if not few:
        some += [
            about.tiny * 2,
            1e-20,
            1e-3,
            0.1,
            0.25,
            0.7,
            1 - about.eps / 2,
            1 + about.eps,
            1.5,
            3.0,
            5.0,
            10.0,
            20.0,
        ]
        some += [30.0, 88.0, 1000.0, 1e5, 1e10, about.max / 2]
    # Twice, in another order: a kernel takes eight at a time, and what is left over one by one.
    signed = [*some, *(-x for x in some), float("nan")]
    return torch.tensor(signed, dtype=torch.float64).to(dtype)


def arguments(kind: str, arity: int) -> tuple[Tensor, ...]:
    """The operands of an operator: special values, or all pairs of some."""
    if arity == 1:
        return (special_values(kind),)
    pairs = torch.cartesian_prod(*[special_values(kind, few=True)] * 2)
    return (pairs[:, 0].contiguous(), pairs[:, 1].contiguous())


# ---------------------------------------------------------------------------------------------- truth

_MP: Mapping[str, Callable[..., Any]] = MappingProxyType({
    **{name: getattr(mpmath, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "digamma", "erf", "erfc", "exp",
        "expm1", "hypot", "log", "log1p", "sin", "sinh", "tan", "tanh",
    )},
    **dict.fromkeys(("lgamma", "mvlgamma.mvlgamma_p_1"), lambda x: mpmath.re(mpmath.loggamma(x))),
    **dict.fromkeys(("polygamma.polygamma_n_0", "special.polygamma.special_polygamma_n_0"), mpmath.digamma),
    "special.ndtr": mpmath.ncdf, "sinc": mpmath.sincpi, "nn.functional.gelu": lambda x: x * mpmath.ncdf(x),
    "nn.functional.gelu tanh": lambda x: (
        x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3))) / 2
    ),
    "nn.functional.tanhshrink": lambda x: x - mpmath.tanh(x),
    "igamma": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    "igammac": lambda a, x: mpmath.gammainc(a, x, regularized=True) if a > 1e-6 else None,  # which takes minutes
})  # fmt: skip


def precise(name: str, args: tuple[Tensor, ...], want: Tensor) -> Tensor:
    """What mpmath gives in 40 digits; eager's answer where it gives none, or no finite number."""
    if name not in _MP:
        return want
    made = want.clone()
    with mpmath.workdps(40):
        for i, each in enumerate(zip(*(a.tolist() for a in args), strict=True)):
            if not torch.isfinite(want[i]) or any(abs(n) > 1e6 for n in each):
                continue
            try:
                found = _MP[name](*map(mpmath.mpf, each))
                made[i] = float(found) if isinstance(found, mpmath.mpf) else made[i]
            except (ArithmeticError, ValueError, NoConvergence):
                continue
    return made


def truths(name: str, function: Function, args: tuple[Tensor, ...], want: list[Tensor]) -> list[Tensor]:
    """The true results in float64, as near as they are known."""
    if args[0].dtype is torch.float64:
        return [precise(name, args, want[0]), *want[1:]] if len(want) == 1 else want
    try:
        wide = tuple(a.double() for a in args)
        found = [each.double() for each in tensors(function(*wide))]
        return [precise(name, wide, found[0])] if len(found) == 1 else found
    except (RuntimeError, TypeError):
        return [each.double() for each in want]


def tensors(found: Any) -> list[Tensor]:
    """The results of a function, one or several."""
    return [found] if isinstance(found, Tensor) else list(found)


# ---------------------------------------------------------------------------------------------- what differs


def spacing(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance to the next number of a type, at each number of float64."""
    about = torch.finfo(dtype)
    size = x.abs().clamp(about.tiny, about.max)
    return torch.exp2(torch.floor(torch.log2(size))) * about.eps


def differences(found: Tensor, want: Tensor, truth: Tensor, kind: str) -> dict[str, Tensor]:
    """Where a result differs, by what differs: the places, and for `far` by how many units of the last place."""
    if not want.is_floating_point():
        return {"whole": found != want}
    right = torch.isclose(
        found.double(), truth.to(want.dtype).double(), BOUNDS[kind] * torch.finfo(want.dtype).eps, 0.0, True
    )
    nan = (found.isnan() != want.isnan()) & ~right
    infinite = (found.isinf() | want.isinf()) & (found != want) & ~right & ~(found.isnan() | want.isnan())
    sign = (found == 0) & (want == 0) & (found.signbit() != want.signbit())
    numbers = found.isfinite() & want.isfinite()
    a, b, true = found.double(), want.double(), torch.where(truth.isfinite(), truth, want.double())
    ours, theirs = (a - true).abs(), (b - true).abs()
    units = torch.where(numbers, (ours - theirs) / spacing(true, want.dtype), 0.0)
    # As near to eager as two neighbours are is near enough, be the truth where it may.
    units = torch.where((a - b).abs() <= spacing(b, want.dtype), 0.0, units)
    return {"nan": nan, "inf": infinite, "sign": sign, "far": torch.where(units > BOUNDS[kind], units, 0.0)}


def covered(each: Exceptional, first: Tensor, found: Tensor, want: Tensor, truth: Tensor) -> Tensor:
    """Where an exception explains a difference: at its sizes of the first operand, and within its bounds."""
    low, high = each.sizes
    size = first.double().abs().nan_to_num(-1.0, math.inf)
    at = ((size >= low) & (size <= high)).reshape(first.shape + (1,) * (want.ndim - first.ndim))
    if each.what != "far":
        return at.expand(want.shape)
    a, b = found.double(), want.double()
    return at & ((a - b).abs() <= each.absolute + each.relative * torch.maximum(b.abs(), truth.abs()))


def unexpected(
    name: str, kind: str, optimize: bool, known: Sequence[Exceptional], needed: set[Need]
) -> list[str] | None:
    """What differs from eager and no exception explains, in words; None where eager has no such operator, or gives
    complex numbers. `needed` is told which exceptions explained something, of this operator and type."""
    function, arity = OPERATORS[name]
    args = arguments(kind, arity)
    try:
        want = tensors(function(*(a.clone() for a in args)))
    except (RuntimeError, TypeError):
        return None
    if any(each.is_complex() for each in want):
        return None
    try:
        program = to_onnx(function, args, dynamic_shapes=tuple({0: "n"} for _ in args), optimize=optimize, widen=False)
        found = tensors(program(*args))
    except IrkitError as error:
        return [f"refused: {str(error).splitlines()[0]}"]
    said: list[str] = []
    # One by one eager may have other signs of zero than eight at a time: either is right.
    alone = tensors(function(*(torch.stack([a, a], 1)[:, 0] for a in args)))
    for got, expected, single, truth in zip(found, want, alone, truths(name, function, args, want), strict=True):
        apart = differences(got, single, truth, kind)
        for what, where in differences(got, expected, truth, kind).items():
            wrong = (where > 0) & (apart[what] > 0)
            for each in known:
                if each.what == what and (here := wrong & covered(each, args[0], got, expected, truth)).any():
                    wrong = wrong & ~here
                    needed.add((each, name, kind))
            if wrong.any():
                said.append(f"{what} {shown(wrong, args, got, expected)}")
    return said


def shown(wrong: Tensor, args: tuple[Tensor, ...], found: Tensor, want: Tensor) -> str:
    """The first place that is wrong: the operands, what was found and what eager gives."""
    at = int(wrong.flatten().to(torch.uint8).argmax())
    given = ", ".join(f"{a[at // max(1, want.numel() // len(a))].item():.9g}" for a in args)
    return f"x{int(wrong.sum())} at ({given}): {found.flatten()[at].item():.9g}, not {want.flatten()[at].item():.9g}"
