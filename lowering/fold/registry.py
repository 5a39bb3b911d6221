"""Which converter serves which torch operator: an immutable map gathered from the converter modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import attrs
import torch
from pyrsistent import PMap, pmap

import lowering.aten
from irkit.support.arguments import type_text
from lowering.aten.aliases import ALIASES
from lowering.aten.further.prims import AS_ATEN
from lowering.errors import LoweringError
from lowering.fold.function_converters import function_converter
from lowering.fold.memory import storage
from lowering.records.torch_internals import OpOverload, OpOverloadPacket

Converter = Callable[..., Any]
PREFIXES = {
    "aten_": "aten", "prims_": "prims", "torchvision_": "torchvision", "torchaudio_": "torchaudio",
    "transformers_": "transformers",
    "onnx_symbolic_": "onnx_symbolic", "onnx_": "onnx", "torch_nn_": "torch_nn",
    "quantized_decomposed_": "quantized_decomposed", "torchao_": "torchao",
}  # fmt: skip


@attrs.frozen(eq=False)
class Entry:
    """A converter and what the fold must know of its parameters: their names, and whether it also takes what it is told
    of the result (`expected`), any other argument by name (`**`), and any other by position (`*`)."""

    function: Converter
    names: tuple[str, ...]
    wants_expected: bool
    takes_all: bool
    takes_rest: bool = False


def entry(function: Converter) -> Entry:
    """The entry of a converter function: its parameter names, in order."""
    parameters = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter
    names = tuple(p.name for p in parameters if p.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL))
    named, placed = (any(p.kind is kind for p in parameters) for kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL))
    return Entry(function, tuple(n for n in names if n != "expected"), "expected" in names, named, placed)


@lru_cache(maxsize=1 << 11)
def standard_entry(function: Converter) -> Entry:
    """The entry of one of irkit's own converters, remembered: those of a user are let go with the registry."""
    return entry(function)


@lru_cache(maxsize=1 << 12)
def named_function(function: Converter, name: str) -> Converter:
    """The function under this name, in tracebacks too: one that a factory made bears the name of all its kind."""
    if not isinstance(function, FunctionType) or function.__code__.co_name == name:
        return function
    code = function.__code__.replace(co_name=name, co_qualname=name)
    made = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    made.__dict__.update(function.__dict__)
    return made


def gather_converters(*modules: ModuleType, prefixes: tuple[str, ...] = tuple(PREFIXES)) -> PMap[str, Converter]:
    """Every converter function of the modules by its name, which starts with one of the prefixes, and by its aliases.

    Raises LoweringError where two modules define one name.
    """
    found: dict[str, Converter] = {}
    for module in modules:
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and name.startswith(prefixes)
            if own and function.__module__ == module.__name__:
                if name in found:
                    raise LoweringError(
                        f"two converters are called {name}: in {found[name].__module__} and {module.__name__}",
                        hint="keep one of them",
                    )
                found[name] = named_function(function, name)
    if twice := sorted(found.keys() & ALIASES.keys()):
        raise LoweringError(
            f"{', '.join(twice)} is both a converter and a name in lowering/aten/aliases.py", hint="keep one of them"
        )
    return pmap({**found, **{name: found[served] for name, served in ALIASES.items() if served in found}})


def converter_modules() -> tuple[str, ...]:
    """The names of the converter modules: every file below `lowering/aten`."""
    found = pkgutil.walk_packages(lowering.aten.__path__, "lowering.aten.")
    return tuple(info.name for info in found if not info.ispkg)


def load_modules(names: Iterable[str]) -> tuple[ModuleType, ...]:
    """The modules of these names."""
    return tuple(importlib.import_module(name) for name in names)


LOADED_LATE = frozenset(
    f"lowering.aten.{name}"
    for name in """
        complex.elementwise complex.movement complex.reduce linear_algebra.complex_eigen
        linear_algebra.complex_spectral linear_algebra.factor linear_algebra.householder linear_algebra.lstsq
        linear_algebra.matrix_functions linear_algebra.solve linear_algebra.spectral linear_algebra.symmetric
        creation.distributions special.bessel special.error_functions special.gamma special.incomplete_gamma
        special.polynomials special.zeta
    """.split()
)
"""The modules that few models need, with the algorithms of `lowering/algorithms` that they are made of: they are loaded
when an operator is asked for that no other module serves."""


def by_operator(converters: Mapping[Any, Any]) -> dict[Any, Converter]:
    """The caller's converters by operator or overload; what `torch.library.custom_op` made counts as its overload, and
    a function of ONNX or onnxscript, or a graph, as the converter that applies it.

    Raises LoweringError for a key that is not an operator, and for a value that cannot be called.
    """
    found: dict[Any, Converter] = {}
    if not isinstance(converters, Mapping):
        raise LoweringError(
            f"converters is {type_text(converters)}",
            hint="give a dict from operators to functions: {torch.ops.aten.gelu: aten_gelu}",
        )
    for key, function in converters.items():
        operator = getattr(key, "_opoverload", key)
        if not isinstance(operator, OpOverload | OpOverloadPacket):
            raise LoweringError(
                f"converters has the key {key!r}, which is not a torch operator",
                hint="give an operator, torch.ops.mylib.op, or an overload of it, torch.ops.mylib.op.default",
            )
        converter = function_converter(operator, function) or function
        if not callable(converter):
            raise LoweringError(
                f"the converter of {operator} is {function!r}, which cannot be called",
                hint="give a function from its arguments to values: def convert(self, ...)",
            )
        found[operator] = converter
    return found


STANDARD = gather_converters(*load_modules(name for name in converter_modules() if name not in LOADED_LATE))
"""irkit's own converters by function name, but for those that are loaded late."""


@cache
def late_converters() -> PMap[str, Converter]:
    """The converters of the modules that are loaded late, by function name."""
    return gather_converters(*load_modules(sorted(LOADED_LATE)))


def standard_converter(names: Sequence[str]) -> Converter | None:
    """irkit's own converter of the first of these names that has one; None where none has."""
    for converters in (lambda: STANDARD, late_converters):
        for name in names:
            if name in converters():
                return converters()[name]
    return None


@attrs.frozen(eq=False)
class Registry:
    """irkit's own converters by name, and the caller's by operator, which win."""

    custom: Mapping[Any, Converter] = MappingProxyType({})
    _found: dict[Any, Entry | None] = attrs.field(factory=dict, repr=False)

    def find(self, target: Any) -> Entry | None:
        """The converter for an OpOverload (exact overload first, then the operator), or None."""
        if target not in self._found:
            self._found[target] = self._search(target)
        return self._found[target]

    def handed_in(self, target: Any) -> Converter | None:
        """The caller's own converter of an overload or its operator; None where there is none."""
        for key in (target, getattr(target, "overloadpacket", None)):
            if key is not None and key in self.custom:
                return self.custom[key]
        return None

    def _search(self, target: Any) -> Entry | None:
        own = self.handed_in(target)
        if own is not None:
            return entry(own)
        function = standard_converter(names_of(target))
        return None if function is None else standard_entry(function)


def names_of(target: Any) -> tuple[str, ...]:
    """The converter names looked for, in order: `aten_add_Tensor`, then `aten_add`."""
    if not isinstance(target, OpOverload):
        return ()
    space, _, name = target._schema.name.partition("::")
    own = (f"{space}_{name}_{target._overloadname}", f"{space}_{name}")
    return (*own, f"aten_{name}") if space == "prims" and name in AS_ATEN else own


def writing_operator(registry: Registry, target: Any) -> Any:
    """The operator whose converter serves a call that writes arguments: itself where the caller hands one in for it, or
    irkit has one for just that (which returns the results, then the new contents), else torch's functional form of it;
    None where there is none."""
    own = registry.handed_in(target) is not None or (ends_in_place(target) and registry.find(target) is not None)
    return target if own else functional_of(target)


def ends_in_place(target: Any) -> bool:
    """True for `fill_diagonal_`, by its name, and for what other libraries than torch have; False for `add.out`, which
    the converter of `add` does not serve."""
    name = target._schema.name
    return name.endswith("_") or not name.startswith("aten::")


def operator_of(target: Any) -> Any:
    """The operator whose converter serves a call that writes no element: that of `t` for `t_`."""
    return functional_of(target) if storage.reshapes_in_place(target) else target


def meaningful(target: Any) -> list[str]:
    """The names of an operator's arguments, without results to write to and those that only say where and as what. What
    `dropout` calls input, `dropout_` calls self."""
    names = [a.name for a in target._schema.arguments if not a.is_out and a.name not in PLACEMENT]
    return ["self" if name == "input" else name for name in names]


PLACEMENT = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format", "generator"))


@lru_cache(maxsize=1 << 12)
def functional_of(target: Any) -> Any:
    """The operator that computes what an in-place or `out=` overload writes: `aten.add.Tensor` for `aten.add_.Tensor`;
    None where torch has none of that name."""
    space, _, name = target._schema.name.partition("::")
    bare = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if bare.startswith("__i") and bare.endswith("__"):
        bare = "__" + bare[3:]
    wanted = meaningful(target)
    for candidate in (f"{bare}_functional", bare):
        packet = getattr(getattr(torch.ops, space), candidate, None)
        if packet is None:
            continue
        named = (target._overloadname, target._overloadname.removesuffix("_out"), "default")
        known = packet.overloads()
        for overload in (*(n for n in named if n in known), *known):
            found = getattr(packet, overload)
            if not found._schema.is_mutable and meaningful(found) == wanted:
                return found
    return None
