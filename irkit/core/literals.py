"""Strings, names, numbers and arrays as text, and back, without losing a bit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from irkit.core.attributes import single
from irkit.core.blobs import SMALL, Blob, content
from irkit.core.types import DType
from irkit.dims.notation import quoted_text
from irkit.support.counts import count_text

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
"""Names that stand in text without quotes; `RESERVED` ones do not."""

PLAIN_OP = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(::[A-Za-z_][A-Za-z0-9_]*)?\Z")
"""Operators that stand in text without quotes."""

RESERVED = frozenset(("inf", "nan", "true", "false"))
"""Words that are numbers."""

FILL = 8
"""More equal elements than this are written once."""

SHOWN = 32
"""So many elements, at most, stand in what `print(graph)` shows."""


# ---------------------------------------------------------------------------------------------- strings and names


def unquoted_text(token: str) -> str:
    """What `quoted_text` was given. Raises ValueError for a malformed escape."""
    return json.loads(token, strict=False)


def quoted_bytes(data: bytes) -> str:
    """Bytes as `b"..."`, one escape for each byte beyond ASCII."""
    return "b" + json.dumps(data.decode("latin-1"))


def unquoted_bytes(token: str) -> bytes:
    """What `quoted_bytes` was given. Raises ValueError for a character beyond one byte."""
    return json.loads(token[1:], strict=False).encode("latin-1")


def name_text(name: str) -> str:
    """A name, in quotes where it needs them."""
    return name if PLAIN_NAME.match(name) and name not in RESERVED else quoted_text(name)


def op_text(op: str) -> str:
    """An operator, in quotes where it needs them."""
    return op if PLAIN_OP.match(op) and op not in RESERVED else quoted_text(op)


# ---------------------------------------------------------------------------------------------- float attributes


def float_text(value: float) -> str:
    """A float attribute: the shortest decimal of an f32, which ONNX's attributes are; with `d` behind it a double."""
    if value != value or single(value) == value:
        return str(np.float32(value))
    return repr(value) + "d"


def float_of(token: str) -> float:
    """What `float_text` was given."""
    return float(token[:-1]) if token.endswith("d") else single(float(token))


def finite(token: str) -> float:
    """What `float_text` was given. Raises ValueError where a decimal overflows."""
    found = float_of(token)
    if not math.isfinite(found) and "inf" not in token and "nan" not in token:
        raise ValueError(f"{token} does not fit f32; a double ends in `d`")
    return found


# ---------------------------------------------------------------------------------------------- arrays


def is_large(blob: Blob) -> bool:
    """True for a blob whose content stays out of the text: more than 1 KiB, or absent. Numbers of larger ones are not
    looked at for it."""
    if blob.dtype is not DType.STRING:
        return blob.nbytes > SMALL or blob.size > SMALL or blob.absent
    return blob.size > SMALL or len(content(blob.array)) > SMALL


def is_long(blob: Blob) -> bool:
    """True for a blob that `str(graph)` names only: a large one, and one of more than 32 elements that are not all
    equal. `irkit.print_graph` and `Graph.text` leave large ones out alone."""
    return is_large(blob) or (blob.size > SHOWN and not is_uniform(blob.array))


def is_uniform(array: np.ndarray) -> bool:
    """Whether all elements are one, bit by bit."""
    if array.dtype == object:
        return all(x == array.flat[0] for x in array.flat)
    data = array.tobytes()
    return data == data[: array.itemsize] * array.size


def array_text(array: np.ndarray, dtype: DType) -> str:
    """The elements in nested brackets, one level for each axis; a single element without brackets for rank 0; and
    `fill x` for many elements that are all x."""
    parts = element_texts(array, dtype)
    if not parts:
        return "[]"
    if len(parts) > FILL and parts.count(parts[0]) == len(parts):
        return f"fill {parts[0]}"
    for size in reversed(array.shape):
        parts = [f"[{', '.join(parts[i : i + size])}]" for i in range(0, len(parts), size)]
    return parts[0]


def element_texts(array: np.ndarray, dtype: DType) -> list[str]:
    """Each element as text, in C order."""
    flat = array.ravel()
    if dtype is DType.STRING:
        return [quoted_bytes(x) if isinstance(x, bytes) else quoted_text(str(x)) for x in flat]
    if dtype is DType.BOOL:
        return ["true" if x else "false" for x in flat]
    if dtype.is_integer:
        return [str(int(x)) for x in flat]
    if dtype.is_complex:
        half = DType.FLOAT if dtype is DType.COMPLEX64 else DType.DOUBLE
        parts = float_texts(np.ascontiguousarray(flat).view(half.numpy), half)
        return [f"({re_}, {im})" for re_, im in zip(parts[::2], parts[1::2], strict=True)]
    return float_texts(flat, dtype)


def float_texts(flat: np.ndarray, dtype: DType) -> list[str]:
    """The shortest decimal of each float that reads back as the same bits; the bits themselves where none does."""
    bits = bits_of(flat)

    def lossy(texts: list[str]) -> list[int]:
        return np.flatnonzero(bits_of(rounded([float(t) for t in texts], dtype)) != bits).tolist()

    texts = [str(x) for x in flat]
    for i in lossy(texts):
        texts[i] = repr(float(flat[i]))
    bare = lossy(texts)
    texts = [t + ".0" if t.lstrip("-").isdigit() else t for t in texts]
    for i in bare:
        texts[i] = hex(int(bits[i]))
    return texts


def bits_of(flat: np.ndarray) -> np.ndarray:
    """The elements' bits, as unsigned integers of their width."""
    return np.ascontiguousarray(flat).view(f"u{flat.dtype.itemsize}")


def rounded(numbers: Sequence[float], dtype: DType) -> np.ndarray:
    """Python floats as an array of that element type."""
    with np.errstate(all="ignore"):
        return np.array(numbers, dtype=np.float64).astype(dtype.numpy)


def array_of(elements: Sequence[Any], dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The array with those elements: token texts for numbers, pairs of them for complex, str or bytes for strings.

    Raises ValueError for a wrong count and for an element that the type cannot hold.
    """
    count = 1
    for size in shape:
        count *= size
    if len(elements) != count:
        raise ValueError(
            f"the shape {list(shape)} has {count_text(count, 'element')}, and the text gives {len(elements)}"
        )
    if dtype is DType.STRING:
        flat = np.empty(count, dtype=object)
        flat[:] = elements
    elif dtype.is_complex:
        half = DType.FLOAT if dtype is DType.COMPLEX64 else DType.DOUBLE
        flat = floats_of([part for pair in elements for part in pair], half).view(dtype.numpy)
    elif dtype is DType.BOOL:
        flat = np.array([boolean(t) for t in elements], dtype=np.bool_)
    elif dtype.is_integer:
        flat = integers_of(elements, dtype)
    else:
        flat = floats_of(elements, dtype)
    return flat.reshape(shape)


def boolean(token: str) -> bool:
    """The truth value that a token names."""
    if token not in ("true", "false"):
        raise ValueError(f"{token} is neither true nor false")
    return token == "true"


def integers_of(tokens: Iterable[str], dtype: DType) -> np.ndarray:
    """Integers of that type. Raises ValueError for one out of its range."""
    numbers = [int(t) for t in tokens]
    low = 0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1))
    high = 2 ** (dtype.bits if dtype.is_unsigned else dtype.bits - 1) - 1
    for number in numbers:
        if not low <= number <= high:
            raise ValueError(f"{number} does not fit {dtype.short}")
    wide = np.array(numbers, dtype=np.uint64 if dtype is DType.UINT64 else np.int64)
    return wide.astype(dtype.numpy)


def floats_of(tokens: Sequence[str], dtype: DType) -> np.ndarray:
    """Floats of that type, from decimals or from bits as `0x...`. Raises ValueError where a decimal overflows."""
    is_bits = [t.startswith("0x") for t in tokens]
    numbers = [0.0 if b else float(t) for t, b in zip(tokens, is_bits, strict=True)]
    flat = rounded(numbers, dtype)
    wide = flat.astype(np.float64)
    for token, number, kept in zip(tokens, numbers, wide, strict=True):
        said_so = "inf" in token or "nan" in token
        if not said_so and not (np.isfinite(number) and np.isfinite(kept)):
            raise ValueError(f"{token} does not fit {dtype.short}")
    if any(is_bits):
        bits = bits_of(flat).copy()
        for i, token in enumerate(tokens):
            if is_bits[i]:
                bits[i] = fitting(int(token, 16), bits.dtype.itemsize * 8, token)
        flat = bits.view(dtype.numpy)
    return flat


def fitting(number: int, width: int, token: str) -> int:
    """The number, where it has no more bits than `width`."""
    if number.bit_length() > width:
        raise ValueError(f"{token} has more than {width} bits")
    return number
