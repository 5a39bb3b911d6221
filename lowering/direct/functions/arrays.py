"""`x.numpy()` of a traced tensor: what NumPy's array would do, done by the tensor, of which nobody has the numbers."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lowering.capture.patches.arrays_of_tensors import OfTensor
from lowering.direct.functions.numbers import has_symbols, nested_lists, tensor_of
from lowering.errors import LoweringError

DTYPES: Mapping[Any, Any] = types.MappingProxyType({
    np.dtype(name): getattr(torch, "bool" if name == "bool" else name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
})  # fmt: skip
"""The element types that NumPy and torch have in common, and ONNX computes with."""
OF_TORCH: Mapping[Any, Any] = types.MappingProxyType({kind: name for name, kind in DTYPES.items()})
NUMBERS = (torch.bool, torch.int64, torch.float64)
"""The types of which an element is a number of Python's, or one of NumPy's that is counted with as it is."""


def operators(
    ufunc: np.ufunc,
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The methods of an array behind a + b, its reverse, and a += b."""
    return (
        lambda own, other: ufunc(own, other), lambda own, other: ufunc(other, own),
        lambda own, other: ufunc(own, other, out=(own,)),
    )  # fmt: skip


class Array(OfTensor):
    """An array of NumPy's whose content is that of a traced tensor, in the same memory. An element is a number that
    varies, or an array without dimensions where NumPy counts otherwise with it than Python does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.dtype not in OF_TORCH:
            raise refusal(f"an array of {tensor.dtype}")
        self.tensor = tensor

    # ---- what it is

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self.tensor.dim()

    @property
    def size(self) -> Any:
        """How many elements it has."""
        return self.tensor.numel()

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return OF_TORCH[self.tensor.dtype]

    @property
    def T(self) -> Array:
        """The array with its axes in reverse."""
        return self.transpose()

    def __len__(self) -> int:
        if isinstance(self.tensor.shape[0], torch.SymInt):  # torch, where it is an index, takes that for no sequence
            raise refusal("len(array)", "write array.shape[0]")
        return len(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __float__(self) -> float:
        return float(self.tensor)

    def __index__(self) -> int:
        return self.tensor.__index__()

    def __repr__(self) -> str:
        return f"Array({self.tensor!r})"

    def __iter__(self) -> Iterator[Any]:
        return iter([element(each) for each in self.tensor.unbind(0)])

    def __getitem__(self, place: Any) -> Any:
        axes = backward_axes(self, place)
        return element(self.tensor[indices(place)]) if axes is None else Backwards(self, axes)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.tensor[indices(place)] = value.tensor if isinstance(value, Array) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise noted(self.tensor, refusal(f"ndarray.{name}"))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise noted(self.tensor, refusal("a function of NumPy's"))

    # ---- what it becomes

    def tolist(self) -> Any:
        """Nested lists of its numbers."""
        return nested_lists(self.tensor)

    def item(self, *place: int) -> Any:
        """One of its numbers."""
        return (self.tensor[place] if place else self.tensor).item()

    def astype(self, dtype: Any) -> Array:
        """The array with elements of another type."""
        return Array(self.tensor.to(torch_type(dtype), copy=True))

    def copy(self) -> Array:
        """The array in a memory of its own."""
        return Array(self.tensor.clone())

    def reshape(self, *shape: Any) -> Array:
        """The elements in other axes."""
        return Array(self.tensor.reshape(*shape))

    def ravel(self) -> Array:
        """The elements one behind the other."""
        return Array(self.tensor.reshape(-1))

    def flatten(self) -> Array:
        """The elements one behind the other, in a memory of its own."""
        return self.ravel().copy()

    def squeeze(self, axis: Any = None) -> Array:
        """The array without axes of length 1, or without one of them."""
        return Array(self.tensor.squeeze() if axis is None else self.tensor.squeeze(axis))

    def transpose(self, *axes: Any) -> Array:
        """The array with its axes in another order."""
        order = axes[0] if len(axes) == 1 else axes
        return Array(self.tensor.permute(*order) if order else self.tensor.permute(*reversed(range(self.ndim))))

    def cumsum(self, axis: int | None = None) -> Array:
        """The sums up to each element."""
        self.refuse_unsigned("cumsum")
        return Array(self.ravel().tensor.cumsum(0) if axis is None else self.tensor.cumsum(axis))

    def argsort(self, axis: int | None = -1, **how: Any) -> Array:
        """Where the elements stand in order."""
        if how.keys() - {"kind", "stable"}:
            raise refusal("ndarray.argsort with these arguments")
        along = self.ravel() if axis is None else self
        return Array(torch.argsort(along.tensor, dim=-1 if axis is None else axis, stable=True))

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        """Each element as often, one behind the other."""
        along = self.ravel() if axis is None else self
        if isinstance(repeats, Array | np.ndarray | list | tuple):
            raise refusal("ndarray.repeat by several numbers")
        return Array(torch.repeat_interleave(along.tensor, repeats, 0 if axis is None else axis))

    def nonzero(self) -> tuple[Array, ...]:
        """Where the elements are that are not 0, along each axis."""
        return tuple(map(Array, self.tensor.nonzero(as_tuple=True)))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The sum along axes."""
        self.refuse_unsigned("sum")
        return element(self.tensor.sum(axes_of(self, axis), keepdim=keepdims))

    def refuse_unsigned(self, name: str) -> None:
        """Raises LoweringError for numbers without a sign, whose sums are in NumPy, too, and in torch are not."""
        if self.tensor.dtype is torch.uint8:
            raise refusal(f"ndarray.{name} of uint8", "make it int64 first: array.astype('int64')")

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The mean along axes, of integers a double."""
        floats = self.tensor if self.tensor.is_floating_point() else self.tensor.double()
        return element(floats.mean(axes_of(self, axis), keepdim=keepdims))

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The greatest along axes."""
        return element(self.tensor.amax(axes_of(self, axis), keepdim=keepdims))

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The smallest along axes."""
        return element(self.tensor.amin(axes_of(self, axis), keepdim=keepdims))

    def argmax(self, axis: int | None = None) -> Any:
        """Where the greatest is."""
        return element(self.tensor.argmax(axis))

    def argmin(self, axis: int | None = None) -> Any:
        """Where the smallest is."""
        return element(self.tensor.argmin(axis))

    def any(self, axis: int | None = None) -> Any:
        """Whether one is true."""
        return element(self.tensor.any() if axis is None else self.tensor.any(axis))

    def all(self, axis: int | None = None) -> Any:
        """Whether all are true."""
        return element(self.tensor.all() if axis is None else self.tensor.all(axis))

    # ---- functions of NumPy's

    __add__, __radd__, __iadd__ = operators(np.add)
    __sub__, __rsub__, __isub__ = operators(np.subtract)
    __mul__, __rmul__, __imul__ = operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = operators(np.true_divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = operators(np.floor_divide)
    __mod__, __rmod__, __imod__ = operators(np.remainder)
    __pow__, __rpow__, __ipow__ = operators(np.power)
    __and__, __rand__, __iand__ = operators(np.bitwise_and)
    __or__, __ror__, __ior__ = operators(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = operators(np.bitwise_xor)
    __lt__, __le__, __gt__, __ge__ = (
        operators(each)[0] for each in (np.less, np.less_equal, np.greater, np.greater_equal)
    )
    __eq__, __ne__ = (operators(each)[0] for each in (np.equal, np.not_equal))
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return np.negative(self)

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __invert__(self) -> Any:
        return np.invert(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, out: Any = (None,), **named: Any) -> Any:
        (into,) = out
        if method != "__call__" or named or ufunc not in UFUNCS or not (into is None or isinstance(into, Array)):
            raise refusal(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
        if ufunc in DIVIDING and (isinstance(given[1], Array | np.ndarray | torch.SymInt) or not given[1]):
            raise refusal(f"np.{ufunc.__name__} by numbers that may be 0")
        *kinds, made = ufunc.resolve_dtypes((*map(kind_of, given), None))
        if ufunc is np.power and made.kind in "iu" and type(given[1]) is int and 0 < given[1] <= MOST_FACTORS:
            return functools.reduce(np.multiply, [given[0]] * given[1]) if into is None else self.refuse_into(ufunc)
        whole_power = ufunc is np.power and made.kind != "f"  # of which one below 0 is an error
        if whole_power or made not in DTYPES or any(kind not in DTYPES for kind in kinds):
            raise refusal(f"np.{ufunc.__name__} of these types")
        found = UFUNCS[ufunc](*(operand(each, DTYPES[kind]) for each, kind in zip(given, kinds, strict=True)))
        if into is None:
            return element(found.to(DTYPES[made]))
        if not np.can_cast(made, into.dtype, "same_kind"):
            raise refusal(f"np.{ufunc.__name__} into {into.dtype}")
        into.tensor.copy_(found)
        return into

    def refuse_into(self, ufunc: np.ufunc) -> Any:
        """Raises LoweringError: a function writes into an array."""
        raise refusal(f"np.{ufunc.__name__} into an array")

    def __array_function__(self, func: Any, kinds: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name = func.__name__
        if name in JOINING:
            every = [listed_part(each) for each in args[0]]
            parts = [operand(each, kind) for kind in [common_type(every)] for each in every]
            return Array(JOINING[name](parts, *args[1:], **kwargs))
        if name in OF_ARRAYS and {*kinds} <= {Array, Backwards, np.ndarray} and kwargs.keys() <= NAMED:
            return OF_ARRAYS[name](*args, **kwargs)
        if name in METHODS and args and args[0] is self:
            return getattr(self, name)(*args[1:], **kwargs)
        raise refusal(f"np.{name}")


class Backwards(Array):
    """An array whose elements are another's in the opposite order along some axes, what is written into that too. What
    would share the memory of both is refused."""

    def __init__(self, of: Array, axes: Sequence[int]) -> None:
        self.of, self.axes = of, tuple(axes)

    @property
    def tensor(self) -> torch.Tensor:
        """The elements as they are now, in a memory of their own."""
        return self.of.tensor.flip(self.axes)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int | torch.SymInt) and self.ndim == 1:
            return element(self.tensor[place])
        raise self.refused()

    def __setitem__(self, place: Any, value: Any) -> None:
        raise self.refused()

    def __iter__(self) -> Iterator[Any]:
        if self.ndim > 1:
            raise self.refused()
        return super().__iter__()

    def in_own_order(self) -> Array:
        return self.copy()

    def refused(self) -> LoweringError:
        """The error for what would share the memory of both."""
        return refusal("a part of an array in the opposite order", "make it an array of its own: array[::-1].copy()")

    def shared(self, *_: Any, **__: Any) -> Any:
        """Raises LoweringError: the result has the memory of both."""
        raise self.refused()

    @property
    def T(self) -> Array:
        """Raises LoweringError: the transpose has the memory of both."""
        raise self.refused()

    reshape = ravel = squeeze = transpose = shared
    flatten = lambda self: Array(self.tensor.reshape(-1))  # noqa: E731
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = __iand__ = __ior__ = (
        __ixor__
    ) = shared

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, out: Any = (None,), **named: Any) -> Any:
        if any(each is self for each in out):
            raise self.refused()
        return super().__array_ufunc__(ufunc, method, *given, out=out, **named)


def backward_axes(array: Array, place: Any) -> list[int] | None:
    """The axes that an index turns round, where it does nothing else: `array[::-1]`; None for any other index. Raises
    LoweringError for steps backwards that do more."""
    parts = place if isinstance(place, tuple) else (place,)
    steps = [each.step for each in parts if isinstance(each, slice)]
    if not any(isinstance(step, int) and step < 0 for step in steps):
        return None
    ends = [end for each in parts if isinstance(each, slice) for end in (each.start, each.stop)]
    whole = all(isinstance(each, slice) or each is Ellipsis for each in parts) and all(end is None for end in ends)
    if not whole or any(step not in (None, 1, -1) for step in steps):
        raise refusal(
            "a part of an array in steps backwards", "reverse all of it, array[::-1].copy(), then take the part"
        )
    front = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    axes = [axis for axis, each in enumerate(parts[:front]) if each.step == -1]
    behind = parts[front + 1 :]
    return axes + [axis - len(behind) for axis, each in enumerate(behind) if each.step == -1]


def reversed_array(array: Array, axis: Any = None) -> Array:
    """np.flip(array, axis)"""
    return Backwards(array, axes_of(array, axis))


def limited(array: Any, low: Any, high: Any) -> Any:
    """np.clip(array, low, high)"""
    raised = array if low is None else np.maximum(array, low)
    return raised if high is None else np.minimum(raised, high)


def padded(array: Array, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Array:
    """np.pad(array, pad_width) with a number."""
    widths: list[Any] = [pad_width] if isinstance(pad_width, int | torch.SymInt) else [*pad_width]
    if not any(isinstance(each, list | tuple) for each in widths):
        widths = [widths * 2 if len(widths) == 1 else widths] * array.ndim
    elif len(widths) == 1:
        widths *= array.ndim
    plain = isinstance(constant_values, int | float | bool) and all(len(each) == 2 for each in widths)
    if mode != "constant" or not plain or len(widths) != array.ndim:
        raise refusal("np.pad with these arguments")
    if kind_of(constant_values) is float and not array.tensor.is_floating_point():
        raise refusal("np.pad of integers with a float")
    around = [end for each in reversed(widths) for end in each]
    return Array(torch.nn.functional.pad(array.tensor, around, value=constant_values))


def rolled(array: Array, shift: Any, axis: Any = None) -> Array:
    """np.roll(array, shift, axis)"""
    return Array(torch.roll(array.tensor, shift, axis))


def listed_part(part: Any) -> Any:
    """A list of numbers that is joined with arrays, as an array."""
    if not isinstance(part, list | tuple):
        return part
    if not has_symbols(part):
        return np.asarray(part)
    return Array(tensor_of(part, torch.float64 if any(kind_of(each) is float for each in part) else torch.int64))


def chosen(condition: Any, *given: Any) -> Any:
    """np.where(condition, a, b)"""
    if len(given) != 2:
        raise refusal("np.where(condition)", "write condition.nonzero()")
    weak = [kind() if isinstance(kind, type) else kind for kind in map(kind_of, given)]
    kind = torch_type(np.result_type(*weak))
    return element(torch.where(operand(condition, torch.bool), *(operand(each, kind) for each in given)))


def of_part(function: Callable[..., torch.Tensor]) -> Callable[..., Array]:
    """np.triu and np.tril."""

    def part(array: Array, k: int = 0) -> Array:
        if array.ndim < 2:
            raise refusal("a triangle of a row", "make the matrix first")
        return Array(function(array.tensor, k))

    return part


def grids(*rows: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """np.meshgrid(...) of rows."""
    tensors = [operand(each, torch_type(each.dtype)) for each in rows]
    return tuple(Array(each.clone()) for each in torch.meshgrid(*tensors, indexing=indexing))


def products(a: Any, b: Any) -> Any:
    """np.outer(a, b)"""
    return a.ravel()[:, None] * b.ravel()[None, :]


def element(tensor: torch.Tensor) -> Any:
    """What NumPy gives for a result: an array, or where it has no dimensions the number in it."""
    if tensor.dim():
        return Array(tensor)
    return tensor.item() if tensor.dtype in NUMBERS else Array(tensor.clone())


def no_tensors(parts: list[Any]) -> list[Any]:
    """The parts that are no tensors, which cannot be compared with others."""
    return [part for part in parts if not isinstance(part, torch.Tensor | torch.SymInt | list)]


def axes_taken(part: Any) -> int:
    """How many axes a part of an index is about."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8)
    return part.dim() if mask else 1


def indices(place: Any) -> Any:
    """An index with tensors in the place of arrays."""
    if isinstance(place, tuple):
        return tuple(map(indices, place))
    return place.tensor if isinstance(place, Array) else place


def axes_of(array: Array, axis: Any) -> tuple[int, ...]:
    """The axes that are meant, all of them by None."""
    return tuple(range(array.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def torch_type(dtype: Any) -> torch.dtype:
    """The type of torch's for one of NumPy's. Raises LoweringError where there is none."""
    found = DTYPES.get(np.dtype(dtype))
    if found is None:
        raise refusal(f"ndarray.astype({dtype})")
    return found


def kind_of(given: Any) -> Any:
    """What NumPy goes by for the type of a result: the type of an array, or int, float or bool for a number."""
    if isinstance(given, Array | np.ndarray | np.generic):
        return given.dtype
    for kind, symbolic in ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat)):
        if type(given) is kind or isinstance(given, symbolic):
            return np.dtype(bool) if kind is bool else kind
    raise refusal(f"an array beside {type(given).__name__}")


def common_type(parts: Sequence[Any]) -> torch.dtype:
    """The type that arrays are joined in."""
    kinds = [kind_of(each) for each in parts]
    if any(kind is int or kind is float for kind in kinds):
        raise refusal("an array joined with numbers")
    return torch_type(np.result_type(*kinds))


def operand(given: Any, kind: torch.dtype) -> torch.Tensor:
    """An operand as a tensor of a type."""
    if isinstance(given, Array):
        return given.tensor.to(kind)
    if isinstance(given, np.ndarray | np.generic):
        return torch.as_tensor(np.array(given)).to(kind)
    return tensor_of(given, kind)


def refusal(what: str, hint: str = "compute with the tensor itself, by torch's functions") -> LoweringError:
    """The error for what is done with an array and is not met."""
    return LoweringError(
        f"{what} asks for the numbers of a tensor, which has none while the model is traced", hint=hint
    )


def noted(tensor: Any, error: LoweringError) -> LoweringError:
    """An error that eager does not raise, which the run of a traced tensor keeps: the model may catch it."""
    if hasattr(tensor, "note"):
        tensor.note(error)
    return error


def refuse_numpy(given: Any) -> Any:
    """Raises LoweringError: NumPy asks for the numbers of a tensor."""
    raise refusal("a function of NumPy's")


UFUNCS: Mapping[Any, Callable[..., torch.Tensor]] = types.MappingProxyType({
    np.add: torch.add, np.subtract: torch.sub, np.multiply: torch.mul, np.true_divide: torch.true_divide,
    np.negative: torch.neg, np.absolute: torch.abs, np.sqrt: torch.sqrt, np.exp: torch.exp, np.log: torch.log,
    np.sin: torch.sin, np.cos: torch.cos, np.tanh: torch.tanh, np.square: torch.square, np.power: torch.pow,
    np.maximum: torch.maximum, np.minimum: torch.minimum, np.floor: torch.floor, np.ceil: torch.ceil,
    np.less: torch.lt, np.less_equal: torch.le, np.greater: torch.gt, np.greater_equal: torch.ge,
    np.equal: torch.eq, np.not_equal: torch.ne, np.logical_and: torch.logical_and, np.logical_or: torch.logical_or,
    np.logical_not: torch.logical_not, np.bitwise_and: torch.bitwise_and, np.bitwise_or: torch.bitwise_or,
    np.invert: torch.bitwise_not, np.isnan: torch.isnan, np.isfinite: torch.isfinite,
    np.floor_divide: torch.floor_divide, np.remainder: torch.remainder, np.tan: torch.tan, np.arctan: torch.atan,
    np.sinh: torch.sinh, np.cosh: torch.cosh, np.log2: torch.log2, np.log10: torch.log10, np.log1p: torch.log1p,
    np.expm1: torch.expm1, np.exp2: torch.exp2, np.sign: torch.sign, np.rint: torch.round, np.trunc: torch.trunc,
    np.fabs: torch.abs, np.isinf: torch.isinf, np.logical_xor: torch.logical_xor, np.bitwise_xor: torch.bitwise_xor,
    np.arctan2: torch.atan2, np.hypot: torch.hypot, np.deg2rad: torch.deg2rad, np.radians: torch.deg2rad,
})  # fmt: skip
"""What computes a function on elements, its operands being of the types that NumPy computes it in."""
NAMED = frozenset("k indexing axis mode constant_values shift pad_width".split())
"""What functions of NumPy's are given by name that are met."""
MOST_FACTORS = 8
"""So many times an integer is multiplied with itself for its power."""
DIVIDING = (np.floor_divide, np.remainder)
JOINING: Mapping[str, Callable[..., torch.Tensor]] = types.MappingProxyType(
    {"concatenate": torch.cat, "stack": torch.stack}
)
OF_ARRAYS: Mapping[str, Callable[..., Any]] = types.MappingProxyType({
    "triu": of_part(torch.triu), "tril": of_part(torch.tril), "where": chosen, "outer": products, "meshgrid": grids,
    "tile": lambda array, reps: Array(array.tensor.tile(reps if isinstance(reps, tuple | list) else (reps,))),
    "flip": reversed_array, "clip": limited, "pad": padded, "roll": rolled,
    "zeros_like": lambda array: Array(torch.zeros_like(array.tensor)),
    "ones_like": lambda array: Array(torch.ones_like(array.tensor)),
})  # fmt: skip
"""What computes functions of NumPy's on arrays that are no methods."""
METHODS = frozenset(
    "repeat cumsum argsort nonzero sum mean max min argmax argmin any all reshape ravel squeeze transpose copy".split()
)
"""Functions of NumPy's that are methods of an array, too."""
