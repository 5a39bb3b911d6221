"""Constant storage: lazy, compared by identity when large, handed out read-only.

A content is the value that it had when its blob was made. Small ones are copied then. Large ones that lie in somebody
else's memory, or in a file, are not: they are watched, and refuse with StaleError once they have changed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from irkit.core.types import DType, Tensor, element_type
from irkit.errors import AbsentError, TypeRuleError
from irkit.support.once import once, once_watched
from irkit.support.stored_files import Place
from irkit.support.watch import SampleWatch, Watch, distinct

SMALL = 1024
"""Blobs of up to this many bytes are compared and shared by content; larger ones by identity."""

PART = 1 << 16
"""How many elements are looked at a time, which stay in a processor's cache."""

COPIED = 1 << 14
"""Contents of up to this many bytes that lie in somebody else's memory, or in a large file, are copied at once."""

STRIP = 1 << 19
"""Bytes of `Blob.rows` that are given at a time: what is computed of them is still in the cache when it is written."""


@attrs.frozen(eq=False, repr=False, slots=False)
class Blob:
    """The content of a constant: dtype and shape now, the array when asked.

    `load` returns a numpy array of that dtype and shape without copying where it can (a view of a torch tensor).
    `name` is the public name of a weight (`model.layers.0.weight`), or empty.
    `source` is any object whose identity says that two blobs are the same storage (tied weights). `turned` is the
    matrix that this one is the transpose of, and `parts` are what stands one after the other along its first axis,
    where that is known: both can be written as they lie in memory, which this one cannot. `load` raises AbsentError
    where there are no numbers: for a weight of a model that was built without memory, and for what is made of one.

    `load` must give the same content whenever it is called. Where that is in others' hands, `watch` knows whether it is
    so; `of` are the blobs whose contents it is computed of, or a view of. Everything that reads the content of this
    blob raises StaleError once it, or one of those, has changed. `compute`, where it is known, makes the content of
    theirs, so that the same can be made of others. `place` is where its bytes lie in a file, in the order
    of ONNX, for a content that does. `by_rows`, where it is known, makes the same content some rows of its first axis
    at a time, which writes a large one in less time and memory.
    """

    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]
    name: str = ""
    source: object = None
    turned: Blob | None = None
    parts: tuple[Blob, ...] = ()
    watch: Watch | None = None
    of: tuple[Blob, ...] = ()
    place: Place | None = None
    compute: Callable[..., np.ndarray] | None = None
    by_rows: Callable[[], Iterator[np.ndarray]] | None = None

    @once_watched
    def array(self) -> np.ndarray:
        """The content, read-only. Kept once it was asked for. Raises AbsentError where there is none, StaleError where
        it has changed."""
        return self._loaded()

    def read(self) -> np.ndarray:
        """As `array`, but not kept: a content that was not in memory before is not afterwards."""
        if not self.watched:
            kept = self.__dict__.get("array")
        else:
            self.check()
            kept = self.__dict__.get("_kept", {}).get("array")
        return self._loaded() if kept is None else kept

    @property
    def is_kept(self) -> bool:
        """Whether `array` was asked for, so that the content is in memory."""
        return "array" in self.__dict__ or "array" in self.__dict__.get("_kept", {})

    def rows(self) -> Iterator[np.ndarray]:
        """What `read` gives, for one axis or more, some rows of the first at a time: about `STRIP` bytes of them. Of a
        content in a file, or one that is made by rows, no more is in memory than that, but where it is kept."""
        count = self.shape[0]
        step = max(1, STRIP * count // max(self.nbytes, 1))
        if self.by_rows is not None and not self.is_kept:
            yield from self._made_by(self.by_rows)
        elif self.place is not None and not self.is_kept and self.dtype.bits >= 8:
            self.check()
            row = self.nbytes // max(count, 1)
            for start in range(0, count, step):
                found = self.place.file.read(self.place.start + start * row, min(step, count - start) * row)
                yield found.view(self.dtype.numpy).reshape(-1, *self.shape[1:])
        else:
            whole = self.read()
            yield from (whole[start : start + step] for start in range(0, count, step))

    def _made_by(self, by_rows: Callable[[], Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
        self.check()
        count = 0
        for found in by_rows():
            count += len(found)
            if found.shape[1:] != self.shape[1:]:
                raise ValueError(f"blob {self!r} made rows of shape {found.shape[1:]}")
            yield found.astype(self.dtype.numpy, copy=False)
        if count != self.shape[0]:
            raise ValueError(f"blob {self!r} made {count} rows")

    def _loaded(self) -> np.ndarray:
        found = self.load()
        if found.dtype != self.dtype.numpy or found.shape != self.shape:
            raise ValueError(f"blob {self!r} loaded a {found.dtype} array of shape {found.shape}")
        view = found.view()
        view.flags.writeable = False
        return view

    @once
    def watches(self) -> tuple[Watch, ...]:
        """All that tell whether the content has changed: its own watch, and those of what it is made of."""
        below = (*self.of, *self.parts) if self.turned is None else (*self.of, *self.parts, self.turned)
        if not below:
            return () if self.watch is None else (self.watch,)
        return distinct((self.watch, *(each for blob in below for each in blob.watches)))

    @once
    def watched(self) -> bool:
        """Whether the content is in others' hands, who may change it."""
        if self.watch is None and self.turned is None and not (self.of or self.parts):  # as most are
            return False
        return bool(self.watches)

    def check(self) -> None:
        """Raises StaleError where the content is no longer what it was when the blob was made."""
        for watch in self.watches:
            watch.check()

    @once
    def absent(self) -> bool:
        """Whether there is no content. Loads it to see, unless it lies in a file."""
        if self.place is not None:
            return False
        try:
            self.array  # noqa: B018
        except AbsentError:
            return True
        return False

    @once_watched
    def integers(self) -> tuple[int, ...] | None:
        """The elements, flat, of integers and flags; None for other element types. Kept once asked for. Raises
        StaleError where the content has changed."""
        kind = self.dtype
        if not (kind.is_integer or kind is DType.BOOL):
            return None
        found = self.array.ravel().tolist()
        return tuple(found if kind is DType.INT64 else map(int, found))

    @once
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @once_watched
    def extremes(self) -> tuple[float, float]:
        """The least and the greatest of the numbers, NaN where one is NaN; zeros where there are none. Kept once asked
        for; the content is read some at a time, and not kept."""
        flat = self.read().ravel(order="K")
        parts = [flat[at : at + PART] for at in range(0, self.size, PART)]
        if self.dtype not in (DType.FLOAT, DType.DOUBLE):  # those of ml_dtypes warn of NaN
            found = [(part.min(), part.max()) for part in (part.astype(np.float64) for part in parts)]
        else:
            found = [(part.min(), part.max()) for part in parts]
        least, greatest = np.array(found or [(0.0, 0.0)], np.float64).T
        return float(least.min()), float(greatest.max())

    @once_watched
    def uniform(self) -> Any:
        """The number that every element of numbers is, as a Python number; None where there is none, and for NaN. Kept
        once asked for. Raises StaleError where the content has changed."""
        if not self.size:
            return None
        array = self.array
        first = array.reshape(-1)[0]
        if self.size > 1 and array.tobytes() != first.tobytes() * self.size:
            return None
        number = first.item() if self.dtype.bits > 16 or not self.dtype.is_float else float(first)
        if self.dtype.is_integer:
            number = int(first)
        return None if number != number else number

    @once
    def nbytes(self) -> int:
        """Bytes that the content takes in an ONNX file (0 for strings)."""
        return (math.prod(self.shape) * self.dtype.bits + 7) // 8

    @property
    def is_weight(self) -> bool:
        """True for a named tensor of several floating-point numbers: what a user may want to find, or to exchange."""
        return bool(self.name) and self.dtype.is_float and self.size > 1

    @property
    def type(self) -> Tensor:
        """The tensor type of the content."""
        return Tensor(self.dtype, self.shape)

    @once
    def key(self) -> Hashable:
        """Equal for blobs that may be taken for one: content for small ones, storage identity for large ones and for
        weights, which keep their names even where they hold the same numbers."""
        dtype, shape = self.dtype, self.shape
        if self.nbytes <= SMALL and not (self.name and dtype.is_float and self.size > 1):
            try:
                return (dtype, shape, content(self.array))
            except AbsentError:
                pass
        return (dtype, shape, id(self if self.source is None else self.source))

    @once_watched
    def digest(self) -> bytes:
        """A hash of dtype, shape and content, or name where that is absent; reads the content, once."""
        hasher = hashlib.blake2b(repr((int(self.dtype), self.shape)).encode(), digest_size=16)
        if self.absent:
            hasher.update(b"absent" + self.name.encode())
        elif self.dtype is DType.STRING:
            hasher.update(content(self.array))
        else:
            for chunk in self.chunks():
                hasher.update(chunk)
        return hasher.digest()

    def chunks(self) -> Iterator[memoryview]:
        """The bytes of the elements in order, each element in whole bytes; of a content that lies in a file some at a
        time, so that it is not taken into memory. No strings."""
        if self.place is not None and self.dtype.bits >= 8:
            yield from self.place.chunks(self.nbytes)
        elif self.size:
            yield np.ascontiguousarray(self.array).reshape(-1).view(np.uint8).data

    def __repr__(self) -> str:
        return f"Blob({Tensor(self.dtype, self.shape)!r}{', ' + self.name if self.name else ''})"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _restored, (self.dtype, np.array(self.array), self.name)


def _restored(dtype: DType, array: np.ndarray, name: str) -> Blob:
    return owned_blob(array, dtype, name)


def owned_blob(array: np.ndarray, dtype: DType, name: str = "", source: object = None) -> Blob:
    """The blob of an array that nobody else holds; it can be written no more."""
    array.flags.writeable = False
    return Blob(dtype, array.shape, lambda: array, name, source)


def blob(data: Any, dtype: Any = None, name: str = "", *, copy: bool = True) -> Blob:
    """The blob that holds a copy of an array, or a new array of Python numbers.

    Floats become f32 and ints i64 unless `dtype` says otherwise (numpy arrays keep theirs). To floats it converts as
    numpy's `astype` does, which rounds, to integers only what they hold. With `copy=False` an array of more than
    `COPIED` bytes is not copied: the caller lets it be from then on, and a sample of it is compared when it is read.
    Raises TypeRuleError for what is not an array of numbers or strings, for what is not an element type, and for
    numbers that a type of integers does not hold."""
    array: NDArray[Any]
    if not isinstance(data, np.ndarray) and not isinstance(data, np.generic):
        try:
            array = np.array(data)
        except ValueError as error:
            raise TypeRuleError(f"{data!r} is not an array", hint="give lists of one length each") from error
        if dtype is None and array.dtype == np.float64:
            array = array.astype(np.float32)
        if array.size == 0 and dtype is None:
            array = array.astype(np.int64)
    else:
        array = np.asarray(cast("NDArray[Any]", data))
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype == object and not all(isinstance(each, str | bytes) for each in array.flat):
        raise TypeRuleError(
            f"a constant cannot hold {data!r}", hint="give numbers or strings, lists of them, or an array"
        )
    kind = element_type(array.dtype if dtype is None else dtype)
    if array.dtype != kind.numpy:
        try:
            array = held(array, kind)
        except TypeRuleError:
            raise
        except (TypeError, ValueError) as error:
            raise TypeRuleError(
                f"{data!r} cannot be {kind.short}", hint="give numbers for it, or another dtype"
            ) from error
    if array is data or array.base is not None:
        if not copy and array.nbytes > COPIED and kind is not DType.STRING:
            what = f"the constant {name}" if name else f"a constant {Tensor(kind, array.shape)!r}"
            return Blob(kind, array.shape, lambda: array, name, watch=SampleWatch.of(array, f"the array of {what}"))
        array = np.array(array, order="K")
    return owned_blob(array, kind, name)


def held(array: np.ndarray, kind: DType) -> np.ndarray:
    """The array in an element type. Raises TypeRuleError for numbers that a type of integers does not hold."""
    given = array.dtype.kind
    if not kind.is_integer or given not in "iuf":
        return array.astype(kind.numpy)
    with np.errstate(invalid="ignore") if given == "f" else nullcontext():
        found = array.astype(kind.numpy)
        wrong = found.astype(array.dtype) != array
    if kind.is_unsigned is not (given == "u"):
        wrong |= (array if kind.is_unsigned else found) < 0
    if wrong.any():
        raise TypeRuleError(
            f"{array[wrong].flat[0]!s} cannot be {kind.short}",
            hint="give another element type; round, or let numpy wrap around, before: array.astype(...)",
        )
    return found


def computed_blob(
    dtype: DType, shape: tuple[int, ...], compute: Callable[..., np.ndarray], of: Sequence[Blob], name: str = ""
) -> Blob:
    """The blob whose content `compute` makes of the contents of others, when it is asked for."""
    kept = tuple(of)

    def load() -> np.ndarray:
        return compute(*[each.read() for each in kept]).astype(dtype.numpy, copy=False)

    return Blob(dtype, shape, load, name, of=kept, compute=compute)


def transposed_blob(blob: Blob) -> Blob:
    """The content of a matrix transposed, without a copy of it."""
    return Blob(blob.dtype, blob.shape[::-1], lambda: blob.read().T, blob.name, turned=blob)


def whole(elements: tuple[int, ...], rank: int) -> Blob:
    """The blob of a vector of int64, or of the only element as a scalar; the array is made when it is asked for."""
    shape = (len(elements),) if rank else ()
    return Blob(DType.INT64, shape, lambda: np.array(elements, dtype=np.int64).reshape(shape))


def joined_blob(parts: Sequence[Blob], name: str = "") -> Blob:
    """The blob that holds others of one element type one after the other, along the first axis, without a copy of them
    until it is loaded. Raises ValueError for parts that differ in more than the size of that axis."""
    first = parts[0]
    if any(each.dtype is not first.dtype or each.shape[1:] != first.shape[1:] for each in parts):
        raise ValueError(f"{', '.join(map(repr, parts))} cannot be joined one after the other")
    kept = tuple(parts)
    shape = (sum(each.shape[0] for each in kept), *first.shape[1:])
    return Blob(first.dtype, shape, lambda: np.concatenate([each.read() for each in kept]), name, parts=kept)


def beside(parts: Sequence[Blob], name: str = "") -> Blob:
    """The blob of matrices side by side, without a copy of them until it is loaded; where all of them are known to be
    transposes, it is known to be that of their storage, one below the other. Raises ValueError for parts that are no
    matrices of one element type with as many rows."""
    first = parts[0]
    if any(each.dtype is not first.dtype or each.shape[:-1] != first.shape[:1] for each in parts):
        raise ValueError(f"{', '.join(map(repr, parts))} cannot be joined side by side")
    kept = tuple(parts)
    lying = [each.turned for each in kept if each.turned is not None]
    turned = joined_blob(lying) if len(lying) == len(kept) else None
    shape = (first.shape[0], sum(each.shape[1] for each in kept))
    return Blob(
        first.dtype, shape, lambda: np.concatenate([each.read() for each in kept], 1), name, turned=turned, of=kept
    )


def blobs_in(attribute: Any) -> tuple[Blob, ...]:
    """The contents that an attribute holds."""
    kind = type(attribute)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
    if kind is tuple:
        return tuple([each for each in attribute if type(each) is Blob])
    return (attribute,) if kind is Blob else ()


def content(array: np.ndarray) -> bytes:
    """The bytes of an array; strings are joined with their lengths, so that no two lists give the same bytes."""
    if array.dtype != object:
        return array.tobytes()
    parts = [item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogatepass") for item in array.ravel()]
    return b"".join(len(p).to_bytes(8, "little") + p for p in parts)
