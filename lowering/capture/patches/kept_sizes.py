"""`int(x.shape[0])`, `float`, `len`, `min`, `max` and functions of `math` in the code of a model, which Python answers
with a number that no longer varies, or with one of two sizes."""

from __future__ import annotations

import builtins
import functools
import math
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lowering.capture.patches.arrays_of_sizes import Numpy
from lowering.capture.patches.arrays_of_tensors import OfTensor
from lowering.capture.patches.asked_texts import is_of_data
from lowering.capture.patches.functions_of_numbers import KEPT as OF_MATH
from lowering.capture.patches.functions_of_numbers import MATH, any_varies, has_graph
from lowering.capture.patches.replaced import replaced_attributes
from lowering.errors import CaptureError
from lowering.records.members import tells_by_identity
from lowering.records.torch_internals import export_tracing

FUNCTIONS = (
    "sqrt|isqrt|fabs|log|log2|log10|log1p|exp|sin|cos|tanh|gcd|lcm|comb|perm|radians|fmod|tan|atan|sinh|cosh|expm1|exp2"
    "|erf|fsum|gamma|remainder|hypot|dist|copysign|isclose|isfinite|atan2|modf|ldexp|factorial"
)
ASKED = re.compile(rf"\b(int|len|{FUNCTIONS}|math\.pow|numel)\(")
"""A line that calls what makes numbers of sizes."""
FLOATED = re.compile(rf"\bfloat\(|{ASKED.pattern}")
"""The same, or a line that makes floats, of data too, which operators may take as attributes."""
CHOSEN = re.compile(r"(?<![\w.])(min|max|sorted)\(|\b(np|numpy)\.(maximum|minimum)\(")
"""A line that calls Python's min, max or sorted, or NumPy's like."""
REMEMBERS = type(functools.lru_cache(len))
"""What `functools.lru_cache` makes of a function."""
SYMBOLIC = (torch.SymInt, torch.SymFloat)


class Meta(type):
    """What makes `Int` look like int, and `Float` like float, to those who ask."""

    plain: type
    symbolic: tuple[type, ...]

    def kept(cls, number: Any) -> Any:
        """The symbolic number that stays one; None for what Python's own is called with."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kept = cls.kept(args[0]) if len(args) == 1 and not kwargs else None
        return cls.plain(*args, **kwargs) if kept is None else kept

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.plain, *cls.symbolic))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls.plain or other is cls

    def __hash__(cls) -> int:
        return hash(cls.plain)


class Int(int, metaclass=Meta):
    """int, but that sizes and numbers out of data stay what they are."""

    plain, symbolic = int, (torch.SymInt, torch.SymBool)

    @staticmethod
    def kept(number: Any) -> Any:
        number = number.item() if isinstance(number, torch.Tensor) else number
        return torch.sym_int(number) if isinstance(number, SYMBOLIC) else None


class Float(float, metaclass=Meta):
    """float, but that sizes, and numbers that are computed of them, stay what they are, and so do numbers out of data
    where the way of capture has a graph to compute them."""

    plain, symbolic = float, (torch.SymFloat,)

    @staticmethod
    def kept(number: Any) -> Any:
        number = number.item() if isinstance(number, torch.Tensor) and not number.is_complex() else number
        if not isinstance(number, SYMBOLIC) or (is_of_data(number) and not has_graph(number)):
            return None
        return torch.sym_float(number)


class OfNumpy(Meta):
    """The same for a kind of NumPy's numbers, of which nobody can tell of a size whether it was made one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if isinstance(instance, SYMBOLIC):
            raise CaptureError(
                f"the model asks of a number that sizes tell whether it is a {cls.plain.__name__} of NumPy's",
                hint="ask for int or float, or for numbers.Number",
            )
        return isinstance(instance, cls.plain)


class Int64(np.int64, metaclass=OfNumpy):
    """np.int64, but that sizes, and numbers that are computed of them, stay what they are."""

    plain, symbolic = np.int64, ()

    @staticmethod
    def kept(number: Any) -> Any:
        return torch.sym_int(number) if isinstance(number, SYMBOLIC) and not is_of_data(number) else None


class Float64(np.float64, metaclass=OfNumpy):
    """np.float64, but that sizes, and numbers that are computed of them, stay what they are."""

    plain, symbolic = np.float64, ()

    @staticmethod
    def kept(number: Any) -> Any:
        return torch.sym_float(number) if isinstance(number, SYMBOLIC) and not is_of_data(number) else None


for kept_type in (Int, Float, Int64, Float64):
    kept_type.__name__ = kept_type.plain.__name__


class NumpyOfNumbers(Numpy):
    """What stands for the module `numpy`: its kinds of numbers and extremes of sizes vary with these, too."""

    int64 = int_ = Int64
    float64 = double = Float64

    @staticmethod
    def maximum(a: Any, b: Any, *more: Any, **named: Any) -> Any:
        """np.maximum(a, b)"""
        return of_two(np.maximum, torch.sym_max, (a, b, *more), named)

    @staticmethod
    def minimum(a: Any, b: Any, *more: Any, **named: Any) -> Any:
        """np.minimum(a, b)"""
        return of_two(np.minimum, torch.sym_min, (a, b, *more), named)


def of_two(plain: Callable[..., Any], symbolic: Callable[..., Any], given: Any, named: Any) -> Any:
    """What a function of two numbers gives, one of which may be a size."""
    return symbolic(*given) if len(given) == 2 and not named and are_sizes(given) else plain(*given, **named)


def are_sizes(numbers: Sequence[Any]) -> bool:
    """Whether numbers are of one kind, and some of them vary."""
    return any(isinstance(each, SYMBOLIC) for each in numbers) and kinds_of(numbers) in ({int}, {float})


NUMPY = NumpyOfNumbers()


def uncached(remembering: Any) -> Callable[..., Any]:
    """A function that `functools.lru_cache` made, which asks for no number of sizes: of these it is computed anew."""

    @functools.wraps(remembering)
    def computed(*args: Any, **kwargs: Any) -> Any:
        varying = any_varies((args, tuple(kwargs.values())))
        return (remembering.__wrapped__ if varying else remembering)(*args, **kwargs)

    computed.__dict__.update(cache_clear=remembering.cache_clear, cache_info=remembering.cache_info)
    return computed


class OfType(type):
    """What makes a class stand for one of torch's types of tensors, `torch.LongTensor`, to those who ask."""

    plain: Any
    kind: torch.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and not kwargs else None
        plain = type(given) in (list, tuple)  # otherwise a list of which nobody knows how long it is
        listed = any_varies(given) if plain else isinstance(given, list)
        return torch.tensor(given, dtype=cls.kind) if listed else cls.plain(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls.plain or other is cls

    def __hash__(cls) -> int:
        return hash(cls.plain)


TYPES = {name: OfType(name, (), {"plain": getattr(torch, name), "kind": kind}) for name, kind in (
    ("LongTensor", torch.int64), ("IntTensor", torch.int32), ("FloatTensor", torch.float32),
    ("DoubleTensor", torch.float64),
)}  # fmt: skip
"""What stands for the types of tensors, by name: of a list of sizes they make a tensor that varies with them."""


def plain_type(tensor: torch.Tensor, dtype: Any = None, *more: Any, **named: Any) -> Any:
    """tensor.type(...), which such a class may be given to."""
    return OWN_TYPE(tensor, dtype.plain if isinstance(dtype, OfType) else dtype, *more, **named)


OWN_TYPE = torch.Tensor.type


class Shape(tuple[Any, ...]):
    """What stands for a torch.Size, which makes a number of how many elements there are: here that varies with the
    sizes. Whoever asks for its class is told torch.Size, which has no classes below it."""

    __class__ = property(lambda self: torch.Size)  # pyright: ignore[reportIncompatibleMethodOverride] - what isinstance asks

    def numel(self) -> Any:
        """The product of the sizes."""
        return math.prod(self)

    def returned(self) -> torch.Size:
        """What a program returns for it."""
        return torch.Size(self)

    def __getitem__(self, place: Any) -> Any:
        made = super().__getitem__(place)
        return Shape(made) if isinstance(place, slice) else made

    def __add__(self, other: Any) -> Any:
        return Shape(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return repr(torch.Size(self))


def shape_of(x: torch.Tensor) -> Any:
    """x.shape; in a function that asks a shape for its number of elements, one that keeps sizes."""
    return keeping_shape(OWN_SHAPE(x), sys._getframe(1).f_code)


def size_of(x: torch.Tensor, *place: Any, **named: Any) -> Any:
    """x.size(), as `shape_of`, or x.size(dim)"""
    made = OWN_SIZE(x, *place, **named)
    return keeping_shape(made, sys._getframe(1).f_code) if isinstance(made, torch.Size) else made


def keeping_shape(shape: Any, code: types.CodeType) -> Any:
    """A shape that keeps its sizes, where some vary and a function asks for `numel`."""
    if "numel" not in code.co_names or not any(isinstance(each, torch.SymInt) for each in shape):
        return shape
    return shape if code.co_filename.startswith(TORCH) else Shape(shape)


TORCH = f"{Path(torch.__file__).parent}{os.sep}"
OWN_SHAPE: Any = vars(torch._C.TensorBase)["shape"].__get__
OWN_SIZE: Any = torch.Tensor.size
SHAPES = ((torch.Tensor, "shape", property(shape_of)), (torch.Tensor, "size", size_of))


def kept_function(held: Any) -> Any:
    """What stands for `math`, `numpy`, or a function of `math`, whatever a module calls it; None for others."""
    if held is math:
        return MATH
    if held is np:
        return NUMPY
    if isinstance(held, REMEMBERS):
        return uncached(held)
    if isinstance(held, type):
        return {np.int64: Int64, np.float64: Float64}.get(held)
    return OF_MATH.get(held) if isinstance(held, types.BuiltinFunctionType) else None


def length(value: Any) -> Any:
    """len, but of a tensor the size, which may vary."""
    tensor: Any = value.tensor if isinstance(value, OfTensor) else value
    return tensor.shape[0] if isinstance(tensor, torch.Tensor) and tensor.ndim else len(tensor)


def smallest(*values: Any, **named: Any) -> Any:
    """min, but of sizes a size."""
    return extreme(min, torch.sym_min, values, named)


def greatest(*values: Any, **named: Any) -> Any:
    """max, but of sizes a size."""
    return extreme(max, torch.sym_max, values, named)


def extreme(plain: Callable[..., Any], symbolic: Callable[[Any, Any], Any], values: Any, named: Any) -> Any:
    """What `plain` gives, and of numbers among which are sizes what `symbolic` does."""
    if not values or named:
        return plain(*values, **named)
    every = [*values[0]] if len(values) == 1 else [*values]
    sizes = any(isinstance(each, SYMBOLIC) for each in every) and len(kinds_of(every)) == 1
    return reduce(symbolic, every) if sizes else plain(every)


def kinds_of(numbers: Sequence[Any]) -> set[Any]:
    """The kinds of some numbers: which of two is the greatest tells of which kind that is. Others count as another, and
    so do truths."""
    whole, real = (int, torch.SymInt), (float, torch.SymFloat)
    numbers = [None if type(n) is bool else n for n in numbers]
    return {int if isinstance(n, whole) else float if isinstance(n, real) else None for n in numbers} or {None}


@contextmanager
def builtins_as_in_eager(torchs: Callable[[], Any]) -> Iterator[None]:
    """A block of torch.export's own in which `max`, `min` and `math.pow` take numbers that vary, `torchs`, but for what
    gives another kind of number there than in eager: the greatest of an integer and a float, and a power of integers.
    """
    plain = {"max": max, "min": min}
    of_math = OF_MATH[math.pow]
    with torchs():
        own = {name: partial(of_one_kind, each, getattr(builtins, name)) for name, each in plain.items()}
        of_builtins = ((builtins, name, each) for name, each in own.items())
        with replaced_attributes((math, "pow", of_math), *of_builtins):
            yield


@contextmanager
def kinds_of_export() -> Iterator[None]:
    """A block in which torch.export gives numbers of the kinds that eager gives, and truths of Python's where code
    asks whether something `is True`."""
    tracing = export_tracing()
    own = partial(builtins_as_in_eager, tracing._override_builtin_ops)
    with replaced_attributes((tracing, "_override_builtin_ops", own), (torch.Tensor, "item", item_told)):
        yield


def item_told(x: torch.Tensor) -> Any:
    """x.item(), of which a truth is asked for where it is to be Python's own."""
    made = OWN_ITEM(x)
    return bool(made) if isinstance(made, torch.SymBool) and tells_by_identity(made) else made


OWN_ITEM = torch.Tensor.item


def of_one_kind(plain: Callable[..., Any], torchs: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What `torchs` gives, torch.export's own max or min; of numbers of several kinds what `plain` does."""
    if len(values) == 1 and not isinstance(values[0], torch.Tensor):
        values = ([*values[0]],)
    every = values[0] if len(values) == 1 else values
    numbers = not isinstance(every, torch.Tensor) and {int, float} == kinds_of(every)
    return (plain if numbers else torchs)(*values, **named)


def ordered(values: Any, /, **named: Any) -> list[Any]:
    """sorted, but of a few sizes sizes."""
    every = [*values]
    whole = all(type(each) is int or isinstance(each, torch.SymInt) for each in every)
    if not whole or len(every) > FEW or named.keys() - {"reverse"} or not any(isinstance(e, SYMBOLIC) for e in every):
        return sorted(every, **named)
    for last in range(len(every) - 1, 0, -1):
        for place in range(last):
            pair = every[place : place + 2]
            every[place : place + 2] = torch.sym_min(*pair), torch.sym_max(*pair)
    return every[::-1] if named.get("reverse") else every


FEW = 4
"""Of so many sizes the ordered ones are still dimensions to read."""
KEPT: Mapping[str, Any] = types.MappingProxyType(
    {"int": Int, "float": Float, "len": length, "min": smallest, "max": greatest, "sorted": ordered}
)
"""What stands for the names of Python's own in such code."""
PLAIN_OF: Mapping[Any, Any] = types.MappingProxyType({length: len, smallest: min, greatest: max, ordered: sorted})
"""The functions of Python's own for which these stand."""
ABSENT = object()
"""What stands for a name that a module did not have."""


def asks_for_sizes(error: Any) -> bool:
    """Whether the line that an error of capture names calls int, len, or a function of math."""
    return ASKED.search(getattr(error, "source", "")) is not None


@contextmanager
def sizes_kept(module: torch.nn.Module, places: Sequence[Any] = ()) -> Iterator[None]:
    """A block in which the modules of Python that a model's code stands in, and those whose globals are `places`, have
    an `int`, `float`, `len`, `min`, `max` and `math` that keep sizes, and numbers out of data.

    Who compares types with `is`, or hands `int` to torch as an element type, sees the difference: this is for models
    that cannot be traced without, or of which a size is fixed or in relation to others without.
    """
    changed: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
    own_types = ((torch, name, kind) for name, kind in TYPES.items())
    try:
        for names in (*namespaces(module), *places):
            functions = {name: kept for name, held in [*names.items()] if (kept := kept_function(held)) is not None}
            changed.append((names, {name: names[name] for name in functions}))
            names.update(functions)
            added = {name: kept for name, kept in KEPT.items() if name not in names}
            changed.append((names, dict.fromkeys(added, ABSENT)))
            names.update(added)
        with replaced_attributes((torch.Tensor, "type", plain_type), *own_types, *SHAPES, *remembering_methods(module)):
            yield
    finally:
        for names, before in reversed(changed):
            for name, held in before.items():
                if held is ABSENT:
                    del names[name]
                else:
                    names[name] = held


def remembering_methods(module: torch.nn.Module) -> list[tuple[type, str, Any]]:
    """The methods of a model's classes that `functools.lru_cache` made, and what stands for them."""
    kinds = {kind: None for each in module.modules() for kind in type(each).__mro__}
    held = ((kind, name, each) for kind in kinds for name, each in vars(kind).items())
    return [(kind, name, uncached(each)) for kind, name, each in held if isinstance(each, REMEMBERS)]


def namespaces(module: torch.nn.Module) -> Iterator[dict[str, Any]]:
    """The globals of the functions of a model, but for torch's own."""
    for each in module.modules():
        for kind in type(each).__mro__:
            place = sys.modules.get(kind.__module__)
            if place is not None and kind.__module__.partition(".")[0] not in ("torch", "builtins", "lowering"):
                yield vars(place)
        forward = vars(each).get("forward")
        if isinstance(forward, types.FunctionType):
            yield forward.__globals__
