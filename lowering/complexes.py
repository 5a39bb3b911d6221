"""Complex tensors, which ONNX can name but not compute with: each is a pair of real tensors.

A complex value of the fold is a `Pair`: a value of complex type whose two operands are the real and the imaginary part.
Converters of complex operators take it apart and make a new one, so that no Pair is left below a real result. Operators
that move elements are applied to both parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irkit.blobs import Blob
from irkit.build import const
from irkit.ir import Value
from irkit.types import DType, Tensor
from lowering.errors import Unsupported
from lowering.promotion import scalar
from lowering.shaping import expand

PAIR = "irkit::Pair"
"""The op of a complex value: its operands are the real and the imaginary part."""

PARTS = {DType.COMPLEX64: DType.FLOAT, DType.COMPLEX128: DType.DOUBLE}
"""The element type of the parts of each complex type."""

WHOLES = {part: whole for whole, part in PARTS.items()}
"""The complex type of parts of each type."""

Parts = tuple[Value, Value]


def is_complex(x: Any) -> bool:
    """True for a complex value, a complex number, or a type of such."""
    if isinstance(x, Value):
        return isinstance(x.type, Tensor) and x.type.dtype.is_complex
    return isinstance(x, complex) or (isinstance(x, Tensor) and x.dtype.is_complex)


def involved(args: Any, expected: Any) -> bool:
    """True where some operand, in lists too, or a result is complex."""
    pending = [*args, expected]
    while pending:
        x = pending.pop()
        if isinstance(x, list | tuple):
            pending.extend(x)
        elif is_complex(x):
            return True
    return False


def pair(real: Value, imaginary: Value) -> Value:
    """The complex value of two real ones of one type."""
    return Value(PAIR, (real, imaginary), (), (), Tensor(WHOLES[real.dtype], real.shape))


def parts(x: Value) -> Parts:
    """The real and the imaginary part; of a real value itself and zeros.

    Raises Unsupported for a complex value that is not made here, as an input of the program is.
    """
    if not x.dtype.is_complex:
        return x, expand(scalar(0, x.dtype), x.shape)
    if x.op == PAIR:
        real, imaginary = (refined(v, x) for v in x.inputs if v is not None)
        return real, imaginary
    blob = x.blob
    if blob is None:
        raise Unsupported("complex tensors cannot enter the graph: hand in torch.view_as_real(x)")
    part = PARTS[blob.dtype]
    return (
        const(Blob(part, blob.shape, lambda: np.real(blob.array).copy(), f"{blob.name}.real")),
        const(Blob(part, blob.shape, lambda: np.imag(blob.array).copy(), f"{blob.name}.imag")),
    )


def refined(part: Value, whole: Value) -> Value:
    """A part with the dimensions that are known of the whole."""
    return part if part.shape == whole.shape else part.with_type(Tensor(part.dtype, whole.shape))


def real_type(expected: Any) -> Any:
    """The type of one part of what was recorded."""
    if isinstance(expected, tuple):
        return tuple(real_type(e) for e in expected)
    return Tensor(PARTS[expected.dtype], expected.shape) if is_complex(expected) else expected


def part_of(x: Any, index: int) -> Any:
    """One part of each complex value among arguments; everything else as it is."""
    if isinstance(x, list | tuple):
        return [part_of(v, index) for v in x]
    return parts(x)[index] if isinstance(x, Value) and x.dtype.is_complex else x


def componentwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The converter that applies another one to the real parts and to the imaginary parts of its arguments."""

    def both(*args: Any, **kwargs: Any) -> Any:
        halves = []
        for index in (0, 1):
            given = {name: part_of(value, index) for name, value in kwargs.items()}
            if "expected" in given:
                given["expected"] = real_type(given["expected"])
            halves.append(function(*(part_of(a, index) for a in args), **given))
        real, imaginary = halves
        if isinstance(real, list | tuple):
            return [pair(r, i) for r, i in zip(real, imaginary, strict=True)]
        return pair(real, imaginary)

    return both
