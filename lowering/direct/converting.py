"""What an operator gives: torch itself runs it on the twins, a converter makes the value, and the two are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from irkit import dims
from irkit.core.ir import Value, vertex
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import SHAPE_VECTOR
from irkit.dims.algebra import any_fresh
from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from lowering.aten.movement.joining import aten_cat
from lowering.capture.guards.answers import words
from lowering.direct.expected import KNOWN
from lowering.direct.functions.numbers import hangs_on_data
from lowering.direct.functions.sparse import HINTS
from lowering.direct.meta_device.asked import laid_as_asked, may_lie_otherwise
from lowering.direct.meta_device.results import TOLD, teller
from lowering.direct.repeats import Entry as Known
from lowering.direct.repeats import Met
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import META
from lowering.direct.tracer import Alike, Tracer
from lowering.errors import LoweringError, Unsupported, WrongConverter
from lowering.fold.arguments import call_arguments
from lowering.fold.asserted_operands import ARANGE
from lowering.fold.complex_registry import complex_entry
from lowering.fold.decompose import decomposition_of
from lowering.fold.lower import with_domain
from lowering.fold.memory import storage
from lowering.fold.registry import Entry, Registry, operator_of
from lowering.fold.scope import bind_symbols, without_elements
from lowering.records.sizes import inexact
from lowering.records.types import DTYPES
from lowering.tensors.complex_pairs import involves_complex
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import reshape

CONTIGUOUS = torch.ops.aten.contiguous.default


class Info:
    """What is known of an operator for every call: what it writes, whether its results may share memory, whether it
    takes a device, whether it draws random numbers, whether a result lies in memory as most operands do."""

    __slots__ = (
        "aliases",
        "asked",
        "device",
        "draws",
        "lies_alike",
        "masked",
        "names",
        "pointwise",
        "quick",
        "reshapes",
        "sized_by_data",
        "text",
        "writes",
    )

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.text = func.name()
        self.writes = storage.written_arguments(func)
        self.reshapes = storage.reshapes_in_place(func)
        composite = func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        name = schema.name.removeprefix("aten::")
        may_be = composite and name not in MASKS
        self.aliases = may_be or any(r.alias_info is not None for r in schema.returns)
        self.asked = may_lie_otherwise(func)
        self.names = [a.name for a in schema.arguments]
        self.device = "device" in self.names
        self.draws = torch.Tag.nondeterministic_seeded in func.tags
        alone = len(schema.returns) == 1 and not self.aliases and not self.writes
        self.pointwise = alone and (torch.Tag.pointwise in func.tags or name in MASKS)
        self.quick = self.pointwise or name in QUICK
        self.lies_alike = self.pointwise and "memory_format" not in self.names and name not in ORDERING
        tags = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
        self.masked = func is torch.ops.aten.index.Tensor
        tagged = any(tag in func.tags for tag in tags) and (func not in TOLD or self.masked)
        self.sized_by_data = tagged or (name in SIZED_BY_DATA and schema.overload_name not in BY_NUMBERS)

    def is_sized_by_data(self, args: Sequence[Any]) -> bool:
        """Whether the sizes of results hang on data: of places in tensors only where a mask is among them."""
        if not self.sized_by_data or not self.masked:
            return self.sized_by_data
        return any(isinstance(each, torch.Tensor) and each.dtype in MASKING for each in args[1])


MASKING = (torch.bool, torch.uint8)
"""Element types of indices that tell which elements are taken, rather than their places."""


@lru_cache(maxsize=1 << 12)
def info_of(func: Any) -> Info:
    """What is known of an operator."""
    return Info(func)


MASKS = frozenset(("__and__", "__or__", "__xor__"))
"""Operators on elements, too, which torch does not tag so, and takes apart: into one that gives a new tensor."""

ORDERING = frozenset(("masked_fill", "mvlgamma", "threshold_backward", "pow", "ldexp"))
"""Operators on elements whose result lies as one operand does, or in order, however the others lie."""

QUICK = frozenset("linear layer_norm softmax log_softmax mean sum rms_norm mm bmm hardswish log_sigmoid".split())
"""Operators whose result is new and lies in order where their operands do, so that torch need not be asked."""

KEEPING = frozenset({"aten::roll"})
"""Operators that give the sizes of their first operand, put together of parts whose sizes hang on more."""

SIZED_BY_DATA = frozenset(
    "nonzero masked_select nonzero_numpy unique_consecutive repeat_interleave _pack_padded_sequence "
    "_pad_packed_sequence".split()
)
BY_NUMBERS = frozenset({"self_int"})
"""Overloads of these that are told by numbers what others are told by a tensor."""


def tensors_in(given: Any) -> list[torch.Tensor]:
    """The tensors among arguments, lists of tensors included."""
    found: list[torch.Tensor] = []
    for each in given:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += tensors_in(each)
    return found


def operand(tracer: Tracer, given: Any) -> Any:
    """An argument as converters take it: values, dimensions, numbers."""
    if isinstance(given, torch.Tensor):
        return tracer.read(tracer.handle(given))
    if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
        node = given.node
        return node.expr if isinstance(node, SizeNode) else node.maybe_as_int()
    if isinstance(given, list | tuple):
        return type(given)(operand(tracer, each) for each in given)
    return given


def operands(
    tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """(args, kwargs) as converters take them. What is computed of floats out of data is a tensor, in the element type
    that torch takes a Python float for."""
    positional, named = [operand(tracer, a) for a in args], {k: operand(tracer, v) for k, v in kwargs.items()}
    if type(kwargs.get("alpha")) is torch.SymFloat:
        named["alpha"] = inexact(named["alpha"])
    for place, each in enumerate(args):
        if type(each) is torch.SymFloat:
            positional[place] = real_beside_integers(tracer, positional[place], args)
    numbers = tracer.scope.numbers
    if not numbers or not any(is_of_data(numbers, each) for each in (*positional, *named.values())):
        return positional, named
    types = [v.dtype for v in (*positional, *named.values()) if isinstance(v, Value) and isinstance(v.type, Tensor)]
    wide = DType.DOUBLE in types or named.get("dtype") is torch.float64 or func._schema.name == ARANGE

    def scalars(each: Any) -> Any:
        if not is_of_data(numbers, each):
            return each
        if isinstance(each, Relational | BooleanFunction):
            return tracer.placed(scalar(each, DType.BOOL, numbers), "item")
        made = scalar(each, DType.DOUBLE, numbers)
        return tracer.placed(made if wide else cast(made, DType.FLOAT), "item")

    return [scalars(each) for each in positional], {key: scalars(each) for key, each in named.items()}


def real_beside_integers(tracer: Tracer, given: Any, args: Sequence[Any]) -> Any:
    """A float of sizes that is a whole number, where the tensors beside it are of integers: converters, which take it
    for an integer, would make integers of them."""
    beside = [each for each in args if isinstance(each, torch.Tensor)]
    if not getattr(given, "is_integer", False) or not beside or any(each.is_floating_point() for each in beside):
        return given
    return tracer.placed(cast(scalar(given, DType.DOUBLE, tracer.scope.numbers), DType.FLOAT), "float")


def is_of_data(numbers: Mapping[Any, Value], given: Any) -> bool:
    """Whether an operand is a number that hangs on floats out of data."""
    return not isinstance(given, Value) and bool(getattr(given, "free_symbols", frozenset()) & numbers.keys())


def twin_of(tracer: Tracer, given: Any) -> Any:
    """An argument as torch takes it on the meta device, with the example's sizes."""
    if isinstance(given, torch.Tensor):
        return tracer.handle(given).twin
    if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
        return given.node.hint
    if isinstance(given, list | tuple):
        return type(given)(twin_of(tracer, each) for each in given)
    return META if isinstance(given, torch.device) else given


def on_twins(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch gives on the twins: element types, sizes, memory. Raises what the model would raise."""
    given = {key: twin_of(tracer, each) for key, each in kwargs.items() if key != "pin_memory"}
    if info.device:
        given["device"] = META
        position = info.names.index("device")
        if position < len(args):
            del given["device"]
    twins = [twin_of(tracer, each) for each in args]
    plain = func is CONTIGUOUS and dims.are_numbers(tracer.handle(args[0]).value.shape)
    told = (func if plain else teller(func))(*twins, **given)
    return laid_as_asked(func, twins, given, told) if info.asked else told


def on_twins_if_possible(tracer: Tracer, func: Any, info: Info, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch gives on the twins; None where it must see numbers, or does not say: then it is asked on numbers."""
    try:
        return on_twins(tracer, func, info, args, kwargs)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


class Decomposed:
    """The result of an operator that was run as others."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


def apply_converter(
    tracer: Tracer, func: Any, args: Any, kwargs: Any, twins: Any, given: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """What the converter of an operator makes of its arguments; where there is none, what its decomposition does."""
    target = operator_of(func)
    registry = tracer.options.registry
    tracer.domains = with_domain(tracer.domains, func, named)
    expected = expected_of(tracer, func, args, kwargs, twins)
    several = (*args, *kwargs.values())
    shown = twins if isinstance(twins, list) else [twins]
    mixed = involves_complex(several, expected) or any(map(is_complex_twin, shown))
    found = complex_entry(registry, target) if mixed else Registry.find(registry, target)
    reason = "no converter"
    if found is not None:
        if isinstance(twins, torch.Tensor) and is_made_of_nothing(func, found, given, kwargs):
            kwargs = {**kwargs, "dtype": twins.dtype}
        try:
            positional, keyword = call_arguments(target, found, tuple(args), kwargs, expected)
        except Unsupported as declined:
            if registry.handed_in(target) is not None:
                hint = f"call its parameters as torch does: {target._schema}"
                raise WrongConverter(str(declined), hint=hint) from None
            reason = str(declined)
        else:
            try:
                made = found.function(*positional, **keyword)
                return with_known_sizes(made, expected) if func._schema.name in KNOWN else made
            except Unsupported as declined:
                reason = str(declined)
            except (AttributeError, TypeError, ValueError) as refused:
                fixed = with_plain_scalars(func, given, named)
                if fixed is not None:
                    again_given, again_named = operands(tracer, func, *fixed)
                    return apply_converter(tracer, func, again_given, again_named, twins, *fixed)
                if not tracer.scope.numbers:
                    raise
                reason = f"it takes no number out of data: {refused}"
    function = decomposition_of(target)
    if function is None or tracer.options.strict:
        raise LoweringError(f"{func} cannot be lowered ({reason})", hint=HINTS.get(func, "hand a converter in"))
    tracer.scope.decomposed[str(func)] += 1
    return Decomposed(again(tracer, function, given, named))


def with_plain_scalars(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """(args, kwargs) with the numbers of the example, which that fixes, for those of sizes that an operator multiplies
    by, raises to, and the like: its converter takes them as attributes. None where there are none."""
    schema = {argument.name: argument.type for argument in func._schema.arguments}
    names = [*schema][: len(args)]

    def plain(name: str, each: Any) -> Any:
        if type(each) is torch.SymFloat and not hangs_on_data(each):
            return float(each)
        whole = type(each) is torch.SymInt and not hangs_on_data(each) and str(schema[name]) in SCALARS
        return int(each) if whole else each

    positional = [plain(name, each) for name, each in zip(names, args, strict=True)]
    named = {name: plain(name, each) for name, each in kwargs.items()}
    changed = any(a is not b for a, b in zip((*args, *kwargs.values()), (*positional, *named.values()), strict=True))
    return (positional, named) if changed else None


SCALARS = ("number", "Optional[number]")


def with_known_sizes(made: Any, expected: Any) -> Any:
    """A result with the sizes that are known of it where its type rule could not tell them; without axes whose length
    is 1 at the sizes of a run, which is a condition."""
    if not isinstance(made, Value) or not isinstance(expected, Tensor) or not isinstance(made.type, Tensor):
        return made
    if made.dtype is expected.dtype and made.rank > len(expected.shape) and is_part_of(expected.shape, made.shape):
        return reshape(made, expected.shape)
    fresh = any(dims.is_fresh(s) for d in made.shape for s in dims.symbols_of(d))
    same = made.dtype is expected.dtype and made.rank == len(expected.shape)
    return made.with_type(expected) if fresh and same else made


def is_part_of(few: Sequence[Any], many: Sequence[Any]) -> bool:
    """Whether some sizes are others without a few of these."""
    left = iter(many)
    return all(any(size == each for each in left) for size in few)


def refuse_other_count(tracer: Tracer, func: Any, made: Any, flat: list[Any] | None) -> None:
    """Raises LoweringError where a converter gave another number of results than torch, which gives a tensor (None) or
    several results."""
    given = f"{type_text(made)} of {len(made)}" if isinstance(made, tuple | list) else "one result"
    if flat is None and isinstance(made, tuple | list):
        raise contradiction(tracer, func, given, "one")
    handed_in = tracer.options.registry.handed_in(operator_of(func)) is not None
    if flat is not None and handed_in and (not isinstance(made, tuple | list) or len(made) != len(flat)):
        raise contradiction(tracer, func, given, count_text(len(flat), "result"))


def contradiction(tracer: Tracer, func: Any, given: Any, wanted: Any) -> LoweringError:
    """The error for a converter that gave something else than torch gives."""
    own = tracer.options.registry.handed_in(operator_of(func)) is not None
    return (WrongConverter if own else LoweringError)(
        f"the converter of {func} gave {given}, where torch gives {wanted}",
        hint="the converter is wrong; hand lower() another one with converters={...}",
    )


def is_made_of_nothing(func: Any, found: Entry, given: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator makes a tensor out of sizes, in an element type that it was not told."""
    named = "dtype" in found.names and any(a.name == "dtype" for a in func._schema.arguments)
    return named and kwargs.get("dtype") is None and not tensors_in(given)


def again(tracer: Tracer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a Python function gives on traced tensors, operator by operator."""
    with tracer.resumed():
        return function(*args, **kwargs)


def is_complex_twin(twin: Any) -> bool:
    """Whether a result is complex."""
    return isinstance(twin, torch.Tensor) and twin.is_complex()


def expected_of(tracer: Tracer, func: Any, args: Any, kwargs: Any, twins: Any) -> Any:
    """What is known of the results before they are made: their types where no size varies."""
    own = KNOWN.get(func._schema.name)
    if own is not None and varies((*args, *kwargs.values())):
        return own(tracer, args, kwargs, twins)
    if twins is None or varies((*args, *kwargs.values())):
        return None
    if isinstance(twins, torch.Tensor):
        return type_of_twin(twins)
    if isinstance(twins, list) and all(isinstance(t, torch.Tensor) for t in twins):
        return tuple(type_of_twin(t) for t in twins)
    return None


def type_of_twin(twin: torch.Tensor) -> Tensor:
    """The type of a result whose sizes do not vary."""
    return Tensor(DTYPES[twin.dtype], tuple(twin.shape))


def varies(given: Any) -> bool:
    """Whether an argument has a size that varies."""
    for each in given:
        if isinstance(each, Value):
            if isinstance(each.type, Tensor) and not dims.are_numbers(each.shape):
                return True
        elif isinstance(each, list | tuple):
            if varies(each):
                return True
        elif hasattr(each, "free_symbols"):
            return True
    return False


def settle_results(
    tracer: Tracer, func: Any, results: list[Any], twins: list[Any], name: str, operands: Sequence[Any]
) -> list[Any]:
    """The results with their dimensions found out, held against the twins, and stamped with their origin."""
    refined: dict[Value, Tensor] = {}
    results = [without_elements(each) for each in results]
    for value, twin in zip(results, twins, strict=False):
        if isinstance(value, Value) and isinstance(twin, torch.Tensor):
            refined[value] = refined_type(tracer, func, value, twin, operands)
    new = tracer.stamped(refined, tracer.origin(func.name(), name))
    if any(v.op == SHAPE_VECTOR and any_fresh(symbols_in_dims(v)) for v in new.values()):
        alike(tracer, operands)
    found = [new.get(v, v) if isinstance(v, Value) else v for v in results]
    for value in found:
        if isinstance(value, Value) and tracer.symbols["u"]:
            bind_symbols(tracer.scope, value)
    return found


def symbols_in_dims(vector: Value) -> list[Any]:
    """The symbols in the dimensions of a ShapeVector."""
    return [s for d in vector.attributes[0][1] for s in dims.symbols_of(d)]


def alike(tracer: Tracer, operands: Sequence[Any]) -> None:
    """Raises Alike where names among the sizes of operands are equal in the example: what an operator computes of them
    can be told only if they always are. Names that meet where operands are broadcast come first."""
    shapes = [v.shape for v in leaves_of(operands) if isinstance(v, Value) and isinstance(v.type, Tensor)]
    longest = max(map(len, shapes), default=0)
    swaps: dict[Any, Any] = {}
    for axis in range(1, longest + 1):
        swaps |= names_alike(tracer, [shape[-axis] for shape in shapes if len(shape) >= axis])
    swaps = swaps or names_alike(tracer, [d for shape in shapes for d in shape])
    if swaps and all(s.name in tracer.named and o.name in tracer.named for s, o in swaps.items()):
        raise Alike(swaps, tracer.line())


def names_alike(tracer: Tracer, sizes: Sequence[Any]) -> dict[Any, Any]:
    """Those of some sizes that are symbols, and equal in the example to one before them, with that one."""
    first: dict[int, Any] = {}
    symbols = dict.fromkeys(d for d in sizes if type(d) is not int and d.is_Symbol)
    found = {symbol: first.setdefault(tracer.asked.hint(symbol), symbol) for symbol in symbols}
    return {symbol: other for symbol, other in found.items() if other is not symbol}


def refined_type(tracer: Tracer, func: Any, value: Value, twin: torch.Tensor, operands: Sequence[Any]) -> Any:
    """The type of a result. Raises LoweringError where it contradicts what torch gives for the example."""
    type_: Any = value.type
    shape = value.shape
    sizes = twin.shape
    if DTYPES[twin.dtype] is not type_.dtype or len(shape) != len(sizes):
        raise contradiction(tracer, func, repr(type_), f"{DTYPES[twin.dtype].short}{list(sizes)}")
    if shape == sizes:
        return type_
    if any_fresh(shape) or any(type(d) is not int and any(dims.is_fresh(s) for s in dims.symbols_of(d)) for d in shape):
        shape = tuple(
            size if tracer.is_constant(value) else known_dim(tracer, func, d, size, axis - len(shape), operands)
            for axis, (d, size) in enumerate(zip(shape, sizes, strict=True))
        )
        type_ = Tensor(type_.dtype, shape)
    for d, size in zip(shape, sizes, strict=True):
        if d != size and tracer.asked.hint(d) != size:
            raise contradiction(tracer, func, repr(type_), f"{list(sizes)} for the example")
    return type_


ADDING = frozenset(("aten::addmm", "aten::_addmm_activation", "aten::baddbmm"))
"""Operators (bias, a, b) that add a product of matrices to what is broadcast to it."""


ALIKE = 6
"""By how many operators masks may be computed that are known to be the same: `x[~mask] += y[~mask]`."""


def known_dim(tracer: Tracer, func: Any, dim: Any, size: int, axis: int, operands: Sequence[Any]) -> Any:
    """A dimension that the type rule could not tell: that of an operand whose sizes are kept; of operands that are
    broadcast the one that they have in common, which is kept as a condition; else a symbol that the data tells."""
    if type(dim) is int or not any(dims.is_fresh(s) for s in dims.symbols_of(dim)):
        return dim
    if func._schema.name in KEEPING:
        return operands[0].shape[axis]
    flat = [v for v in leaves_of(operands) if isinstance(v, Value) and isinstance(v.type, Tensor) and v.rank >= -axis]
    if func._schema.name in ADDING and axis >= -2:
        flat = [v for v in flat if v is not operands[1 if axis == -1 else 2]]  # its axis there is the one summed over
    aligned = [v.shape[axis] for v in flat]
    distinct: list[Any] = []
    for each in aligned:
        if each != 1 and not any(dims.same(each, d) is True for d in distinct):
            distinct.append(each)
    if len(distinct) > 1 and all(tracer.asked.hint(d) in (size, 1) for d in distinct):
        ones = [d for d in distinct if tracer.asked.hint(d) != size or (size == 1 and dims.bounds(d, {}).hi == 1)]
        ones = ones if len(ones) < len(distinct) else [d for d in distinct if tracer.asked.hint(d) != size]
        wide = [d for d in distinct if d not in ones]
        if wide:
            chosen = min(wide, key=lambda d: len(words(d)))
            for each in distinct:
                tracer.asked.equal(each, 1 if each in ones else chosen)
            return chosen
    mask = None if tracer.counted is None else (id(tracer.scope), tracer.computed_alike(tracer.counted, ALIKE))
    made, _ = tracer.found.get(mask) or (tracer.fresh_symbol(size), None)
    if mask is not None:
        tracer.found[mask] = made, tracer.scope
    if not info_of(func).sized_by_data:
        tracer.dependent.add(made.name)
    return made


def has_fresh(dim: Any) -> bool:
    """Whether a dimension hangs on one that no type rule could tell."""
    return type(dim) is not int and (dims.is_fresh(dim) or any(map(dims.is_fresh, dims.symbols_of(dim))))


def leaves_of(given: Sequence[Any]) -> list[Any]:
    """The leaves of nested lists."""
    return [leaf for each in given for leaf in (leaves_of(each) if isinstance(each, list | tuple) else [each])]


def as_list(given: Any) -> list[Any]:
    """A list of one, or of several."""
    return list(given) if isinstance(given, list | tuple) else [given]


# ---------------------------------------------------------------------------------------------- met before


def form_of(tracer: Tracer, func: Any, raw: Sequence[Any], values: Sequence[Value]) -> tuple[str, Any] | None:
    """The one operator, with its attributes, that a converter made of all operands in order, if it looks at nothing but
    their types; None elsewhere."""
    if func is not CAT or len(raw) != 1 or raw[0].inputs != values or raw[0].bodies:
        return None
    found = Registry.find(tracer.options.registry, operator_of(func))
    return (raw[0].op, raw[0].attributes) if found is not None and found.function is aten_cat else None


CAT = torch.ops.aten.cat.default


def converted_again(
    tracer: Tracer, met: Met, entry: Known, values: tuple[Value, ...], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """What the converter of an operator makes of other arguments of the same types, the tensors among which hold these
    values; nothing where it declines."""
    if entry.form is not None and entry.types is not None and entry.conditions is not None:
        op, attributes = entry.form
        return [vertex(op, values, attributes, (), entry.types[0])]
    target = operator_of(met.func)
    found = Registry.find(tracer.options.registry, target)
    value_args, value_kwargs = operands(tracer, met.func, args, kwargs)
    if entry.conditions is None:
        tracer.asked.told.clear()
        entry.expected = expected_of(tracer, met.func, value_args, value_kwargs, entry.twins)
        entry.conditions = tuple(tracer.asked.told)
    if found is None:
        return []
    try:
        positional, keyword = call_arguments(target, found, tuple(value_args), value_kwargs, entry.expected)
        made = found.function(*positional, **keyword)
        made = with_known_sizes(made, entry.expected) if met.func._schema.name in KNOWN else made
    except Unsupported:
        return []
    return list(made) if isinstance(made, tuple | list) else [made]
