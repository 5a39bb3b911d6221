"""Complex tensors, which ONNX can name but not compute with: each is a pair of real tensors.

A complex value of the fold is a `Pair`: a value of complex type whose two operands are the real and the imaginary part.
Converters of complex operators take it apart and make a new one, so that no Pair is left below a real result. Operators
that move elements are applied to both parts.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from irkit.build import const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor, Type
from lowering.errors import Unsupported
from lowering.tensors.promotion import COMPLEX32, ComplexHalf, cast, scalar
from lowering.tensors.shaping import expand, pick_index, unsqueeze

PAIR = "irkit::Pair"
"""The op of a complex value: its operands are the real and the imaginary part."""

PARTS: Mapping[Any, DType] = {COMPLEX32: DType.FLOAT16, DType.COMPLEX64: DType.FLOAT, DType.COMPLEX128: DType.DOUBLE}
"""The element type of the parts of each complex type."""

WIDER: Mapping[Any, DType] = {DType.FLOAT16: DType.FLOAT, DType.FLOAT: DType.DOUBLE, DType.DOUBLE: DType.DOUBLE}
"""What parts of each type are computed in, where squares of them matter."""

WHOLES: Mapping[Any, DType] = {part: whole for whole, part in PARTS.items()}
"""The complex type of parts of each type."""

Parts = tuple[Value, Value]


COMPLEX_KEY = "irkit.complex"
"""The key of a signature's metadata that tells which parameters and results hold complex numbers: a JSON list of names.

Such a tensor crosses the boundary of the graph as torch.view_as_real gives it, a real one of a last dimension of 2.
"""


def is_complex(x: Any) -> bool:
    """True for a complex value, a complex number, a complex element type, or the type of a complex tensor."""
    if isinstance(x, Value):
        return isinstance(x.type, Tensor) and x.type.dtype.is_complex
    if isinstance(x, DType | ComplexHalf):
        return x.is_complex
    return isinstance(x, complex) or (isinstance(x, Tensor) and x.dtype.is_complex)


def involves_complex(args: Any, expected: Any) -> bool:
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
    whole = Tensor(WHOLES[real.dtype], real.shape)
    return Value(PAIR, (real, refined(imaginary, whole)), (), (), whole)


def parts(x: Value) -> Parts:
    """The real and the imaginary part; of a real value itself and zeros.

    Raises Unsupported for a complex value that is neither a pair nor a constant.
    """
    if not x.dtype.is_complex:
        return x, expand(scalar(0, x.dtype), x.shape)
    if x.op == PAIR:
        real, imaginary = (refined(v, x) for v in x.inputs if v is not None)
        return real, imaginary
    blob = x.blob
    if blob is None:
        raise Unsupported(f"a complex tensor made by {x.op}, whose parts are not known")
    part = PARTS[blob.dtype]
    names = (f"{blob.name}.real", f"{blob.name}.imag") if blob.name else ("", "")
    return (
        const(Blob(part, blob.shape, lambda: np.real(blob.read()).copy(), names[0], of=(blob,))),
        const(Blob(part, blob.shape, lambda: np.imag(blob.read()).copy(), names[1], of=(blob,))),
    )


def boundary_type(type_: Tensor) -> Tensor:
    """The type of a complex tensor where it enters the graph or leaves it; a real type is itself."""
    return Tensor(PARTS[type_.dtype], (*type_.shape, 2)) if type_.dtype.is_complex else type_


def from_real(x: Value) -> Value:
    """The complex value of a real one with real and imaginary part along its last dimension."""
    last = x.rank - 1
    return pair(pick_index(x, last, 0), pick_index(x, last, 1))


def to_real(x: Value) -> Value:
    """A complex value as a real one: real and imaginary part along a new last dimension; what it was `from_real` from,
    where it was."""
    real, imaginary = parts(x)
    source = real.inputs[0] if real.op == imaginary.op == "Gather" else None
    if source is not None and all(is_part(v, source, i) for i, v in enumerate((real, imaginary))):
        return source
    return op.Concat(unsqueeze(real, -1), unsqueeze(imaginary, -1), axis=-1)


def is_part(part: Value, source: Value, index: int) -> bool:
    """True for source[..., index], where the last dimension of the source is 2."""
    where, last = part.inputs[1], source.rank - 1
    if part.inputs[0] is not source or where is None or where.blob is None or source.shape[-1] != 2:
        return False
    return part.attribute("axis", 0) == last and where.rank == 0 and where.blob.array.item() == index


def complex_names(graph: Graph) -> frozenset[str]:
    """The names of the parameters and results that hold complex numbers as pairs of real ones."""
    return frozenset(json.loads(dict(graph.signature.metadata).get(COMPLEX_KEY, "[]")))


def boundary_texts(graph: Graph, named: Iterable[tuple[str, Type]]) -> tuple[tuple[str, str], ...]:
    """The names of parameters or results, each with its type in words: `c64[n] as f32[n, 2]` for a complex one."""
    pairs, texts = complex_names(graph), dict[tuple[bool, Type], str]()  # a cache has many of one type
    found: list[tuple[str, str]] = []
    for name, type_ in named:
        key = (name in pairs, type_)
        if key not in texts:
            texts[key] = repr(type_)
            if name in pairs and isinstance(type_, Tensor):
                texts[key] = f"{Tensor(WHOLES[type_.dtype], type_.shape[:-1])!r} as {type_!r}"
        found.append((name, texts[key]))
    return tuple(found)


def as_type(x: Value, dtype: DType) -> Value:
    """x as a tensor of that element type: of a complex one the real part, where the type is real."""
    if x.dtype is dtype:
        return x
    if not dtype.is_complex:
        return cast(parts(x)[0], dtype)
    a, b = parts(x)
    return pair(cast(a, PARTS[dtype]), cast(b, PARTS[dtype]))


def expand_pair(x: Value, shape: Sequence[Any]) -> Value:
    """x repeated to that shape."""
    return pair(*(expand(part, shape) for part in parts(x))) if x.dtype.is_complex else expand(x, shape)


def apart(values: Iterable[Value]) -> list[Value]:
    """The values with every complex one replaced by its real and its imaginary part."""
    return [part for v in values for part in (parts(v) if v.dtype.is_complex else (v,))]


def together(values: Sequence[Value], types: Sequence[Any]) -> tuple[Value, ...]:
    """What `apart` took apart, by the types of the whole."""
    pending = iter(values)
    return tuple(pair(next(pending), next(pending)) if is_complex(t) else next(pending) for t in types)


def refined(part: Value, whole: Value | Tensor) -> Value:
    """A part with the dimensions that are known of the whole."""
    return part if part.shape == whole.shape else part.with_type(Tensor(part.dtype, whole.shape))


def real_type(expected: Any) -> Any:
    """The type of one part of what was recorded."""
    if isinstance(expected, tuple):
        return tuple(real_type(e) for e in expected)
    return Tensor(PARTS[expected.dtype], expected.shape) if is_complex(expected) else expected


CONTENT = frozenset("self input inp a tensor tensors value values fill fill_value source src s A".split())
"""Parameters of converters that hold elements of the result: the imaginary part of a real one is 0."""

TEMPLATES = frozenset(("other", "the_template"))
"""Parameters of which only the shape counts."""

NUMBERS = frozenset("value fill_value fill s".split())
"""Those of them that may be numbers."""


def part_of(x: Any, index: int, name: str) -> Any:
    """One part of each complex tensor, number and type in the argument `name`; of tensors that are no content the
    real part.

    The imaginary part of a real tensor or number that is content is 0; everything else is as it is.
    """
    content = name in CONTENT
    if isinstance(x, list | tuple):
        return [part_of(v, index, name) for v in x]
    if isinstance(x, DType | ComplexHalf):
        return PARTS.get(x, x)
    if isinstance(x, Value):
        return parts(x)[index] if content else parts(x)[0]
    if content and isinstance(x, complex):
        return x.imag if index else x.real
    return 0 if index and name in NUMBERS and isinstance(x, int | float | sympy.Basic) else x


def componentwise(converter: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The converter that applies another one, with parameters of those names, to the real and to the imaginary parts.

    Where nothing complex goes into the result, which a template for a shape does not, it is applied once. Raises
    Unsupported for a complex argument of which it is not known to be content.
    """

    def halves(*args: Any, expected: Any = None, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, x in given.items():
            if (
                name not in CONTENT | TEMPLATES
                and not isinstance(x, DType | ComplexHalf)
                and involves_complex([x], None)
            ):
                raise Unsupported(f"it is not known what a complex {name} means")
        whole = is_complex(expected) or any(
            involves_complex([x], None) for n, x in given.items() if n in CONTENT or isinstance(x, DType | ComplexHalf)
        )
        made = []
        for index in (0, 1) if whole else (0,):
            taken = {n: part_of(x, index, n) for n, x in given.items()}
            made.append(converter(**taken, **({"expected": real_type(expected)} if wants else {})))
        if not whole:
            return made[0]
        if isinstance(made[0], list | tuple):
            return [pair(real, imaginary) for real, imaginary in zip(*made, strict=True)]
        return pair(*made)

    wants = "expected" in inspect.signature(converter).parameters
    return halves
