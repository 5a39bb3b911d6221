"""What will run a model: an opset, the domains that it may use, and the kernels of a runtime, read from the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import attrs
import onnx.defs

from irkit.build import dtype_complaint
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor, Tuple, Type
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.errors import RewriteError
from irkit.onnx.writing.downgrade import respelled_value
from irkit.ops.runtime_table import CONTRIB, STOWAWAYS, is_contrib, runtime_schema
from irkit.ops.schemas import BODIES, OPSET, TYPE_STRINGS, OpSpec, row, split_domain
from irkit.support.counts import count_text
from passes.targets.measured import (
    FOREVER,
    MEASURED,
    OPENVINO,
    REFERENCE,
    TRACT,
    WEB,
    Kernel,
    measured_kernels,
)

OLDEST = 13
"""The oldest opset that irkit writes graphs for."""

OURS = frozenset((PARAM, CONSTANT, ITEM, SHAPE_VECTOR, CALL))
"""What becomes no node by itself."""

SELF_CAST = frozenset((DType.FLOAT16,))
"""Element types for which ONNX Runtime itself puts casts to float32 around an operator without a kernel."""


@attrs.frozen(cache_hash=True)
class Target:
    """The opset of a model, the domains beside ONNX's own that it may use, and the execution provider of ONNX Runtime,
    or the other runtime, that runs it.

    Without a provider only ONNX's own rules hold: every operator and element type of the opset is taken to run.
    """

    opset: int = OPSET
    domains: tuple[str, ...] = ()
    provider: str = "CPUExecutionProvider"
    is_onnxruntime: bool = attrs.field(init=False, eq=False, repr=False)
    """True where ONNX Runtime runs the model, be it in a browser: its quirks hold, and it expands functions."""

    @is_onnxruntime.default  # type: ignore[misc]
    def _is_onnxruntime(self) -> bool:
        return self.provider.endswith("Provider") or self.provider == WEB

    def __str__(self) -> str:
        own = f"ONNX Runtime, {self.provider}" if self.provider.endswith("Provider") else self.provider
        runtime = own or "any runtime"
        domains = f", with {', '.join(self.domains)}" if self.domains else ""
        return f"opset {self.opset} on {runtime}{domains}"

    def problem(self, value: Value) -> str:
        """Why a value cannot run here; empty where it can."""
        op = value.op
        if op in OURS:
            return ""
        value = respelled_value(value, self.opset)
        operands = value.inputs
        if op in BODIES:
            operands = operands[: len(operands) - value.attribute("captures", 0)]
        names = tuple([name for name, _ in value.attributes if name != "captures"]) if value.attributes else ()
        try:
            kinds: tuple[Kind, ...] = tuple([v.type.dtype for v in operands])  # type: ignore[union-attr]
        except AttributeError:  # one is left out, or is no tensor
            kinds = tuple([None if v is None else _kind(v.type) for v in operands])
        own = value.type
        return _problem(self, op, kinds, (own.dtype,) if type(own) is Tensor else _kinds(own), names)


NAMES: Mapping[str, Target] = MappingProxyType(
    {
        "onnxruntime-cpu": Target(),
        "onnxruntime-cuda": Target(provider="CUDAExecutionProvider"),
        "onnxruntime-web": Target(provider=WEB),
        "openvino": Target(provider=OPENVINO),
        "tract": Target(provider=TRACT),
        "onnx-reference": Target(provider=REFERENCE),
        "onnx": Target(provider=""),
    }
)
"""Targets by the name that a user gives."""


def target_of(target: str | Target, opset: int | None = None) -> Target:
    """The target of that name, or itself, at an opset (its own where it is None).

    After the name may stand domains of operators that the model may use: "onnxruntime-cpu+com.microsoft".

    Raises RewriteError for an unknown name and for an opset that irkit does not write.
    """
    if not isinstance(target, Target):
        name, *domains = str(target).split("+")
        if name not in NAMES or not all(domains):
            raise RewriteError(
                f"there is no target {target!r}",
                hint=f"known: {', '.join(NAMES)}, each with +com.microsoft or another domain behind it, or a Target",
            )
        target = attrs.evolve(NAMES[name], domains=tuple(domains))
    found = target if opset is None else attrs.evolve(target, opset=opset)
    if type(found.opset) is not int or not OLDEST <= found.opset <= OPSET:
        raise RewriteError(
            f"irkit writes opsets {OLDEST} to {OPSET}, and was asked for {found.opset!r}",
            hint="ask for one of these numbers; where none is asked for, a model gets the newest that its target runs",
        )
    return found


# ---------------------------------------------------------------------------------------------- questions

Kind = DType | str | None
"""What matters of a type: the element type of a tensor, the text of any other type, None for an absent operand."""


def kind_of(value: Value | None) -> Kind:
    """The kind of an operand."""
    return None if value is None else _kind(value.type)


def _kind(type: Type) -> Kind:
    return type.dtype if isinstance(type, Tensor) else type_string(type)


def _kinds(type: Type) -> tuple[Kind, ...]:
    if isinstance(type, Tensor):
        return (type.dtype,)
    return tuple(map(_kind, type.items)) if isinstance(type, Tuple) else (_kind(type),)


def type_string(type: Type) -> str:
    """A type as ONNX's schemas write it: `seq(tensor(float))`."""
    if isinstance(type, Tensor):
        return TYPE_STRINGS[type.dtype]
    if isinstance(type, Tuple):
        return "several"
    return f"{'seq' if type.__class__.__name__ == 'Sequence' else 'optional'}({type_string(type.element)})"


@lru_cache(maxsize=1 << 12)
def row_at(op: str, opset: int) -> OpSpec | None:
    """The row of an operator at an opset; None where the opset does not have it."""
    domain, name = split_domain(op)
    if is_contrib(op):
        schema = runtime_schema(op)
        return None if schema is None else row(schema)
    try:
        schema = onnx.defs.get_schema(name, opset if domain == "" else 1_000, domain)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else row(schema)


def domain_of(op: str) -> str:
    """The domain that a target must allow for an operator: also where ONNX Runtime keeps one of its own in ONNX's."""
    return CONTRIB if op in STOWAWAYS else split_domain(op)[0]


@lru_cache(maxsize=1 << 14)
def _problem(
    target: Target, op: str, operands: tuple[Kind, ...], results: tuple[Kind, ...], attributes: tuple[str, ...]
) -> str:
    name, domain = split_domain(op)[1], domain_of(op)
    found = row_at(op, target.opset)
    if domain and domain not in target.domains and (found is not None or domain in _runtime_domains(target.provider)):
        return f"the target does not allow the domain {domain}"
    if found is None:
        return "" if domain else f"opset {target.opset} has no {name}"
    other = next((n for n in attributes if n not in found.attributes), None)
    if other is not None:
        return f"{name} has no attribute {other} at opset {target.opset}"
    if len(operands) > found.max_inputs:
        return f"{name} has at most {count_text(found.max_inputs, 'operand')} at opset {target.opset}"
    if len(operands) < found.min_inputs:
        return f"{name} has at least {count_text(found.min_inputs, 'operand')} at opset {target.opset}"
    if len(results) > found.max_outputs:
        return f"{name} has at most {count_text(found.max_outputs, 'result')} at opset {target.opset}"
    complaint = dtype_complaint(found, tuple(k if isinstance(k, DType) else None for k in operands))
    complaint = complaint or result_complaint(found, results) or other_kind(op, found, operands, results)
    if complaint:
        return f"{name} at opset {target.opset}: {complaint}"
    if not target.provider:
        return ""
    since, known = (0, frozenset[str]()) if target.provider in MEASURED else runtime_version(op, target.opset)
    other = next((n for n in attributes if known and n not in known), None)
    if other is not None:
        return f"the installed ONNX Runtime knows no attribute {other} of {name}"
    if has_kernel(target, op, found, since or found.since, operands, results):
        return ""
    types = ", ".join("-" if k is None else k.short if isinstance(k, DType) else k for k in (*operands, *results))
    return f"{target.provider} has no kernel of {name} for ({types}) at opset {target.opset}"


def result_complaint(found: OpSpec, results: tuple[Kind, ...]) -> str:
    """Which result an opset does not allow to have its element type; empty where it allows all."""
    for index, kind in enumerate(results):
        formal = found.outputs[min(index, len(found.outputs) - 1)]
        if isinstance(kind, DType) and TYPE_STRINGS[kind] not in found.allowed(formal):
            return f"result {index} cannot be {kind.short}"
    return ""


def other_kind(op: str, found: OpSpec, operands: tuple[Kind, ...], results: tuple[Kind, ...]) -> str:
    """Which sequence or optional an opset does not allow, and the IR's opset does; empty where there is none."""
    newest = row_at(op, OPSET)
    if newest is None or newest.since == found.since:
        return ""
    for formals, new, kinds in ((found.inputs, newest.inputs, operands), (found.outputs, newest.outputs, results)):
        for index, kind in enumerate(kinds):
            old, now = (side[min(index, len(side) - 1)] for side in (formals, new))
            if isinstance(kind, str) and kind in newest.allowed(now) and kind not in found.allowed(old):
                return f"it takes no {kind}"
    return ""


# ---------------------------------------------------------------------------------------------- kernels


@lru_cache(maxsize=16)
def kernels(provider: str) -> Mapping[tuple[str, str], tuple[Kernel, ...]]:
    """The kernels of a provider by (domain, operator), as the installed ONNX Runtime lists them; those of another
    runtime as they were measured.

    A provider that this build of ONNX Runtime does not have is taken to have the kernels of the CPU: nothing else is
    known of it (`provider_note` says so).
    """
    if provider in MEASURED:
        return measured_kernels(provider)
    listed = listed_kernels()
    known = provider if any(k.provider == provider for k in listed) else CPU
    found: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in listed:
        if kernel.provider == known:
            bound = {name: frozenset(types) for name, types in kernel.type_constraints.items()}
            first, last = kernel.version_range
            found.setdefault((kernel.domain, kernel.op_name), []).append((first, last, bound))
    return MappingProxyType({key: tuple(rows) for key, rows in found.items()})


def listed_kernels() -> Sequence[Any]:
    """The kernels of all providers that the installed ONNX Runtime was built with."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    return get_all_opkernel_def()


@lru_cache(maxsize=16)
def provider_note(provider: str) -> str:
    """What is to be known of a provider of ONNX Runtime other than the CPU; empty for that, and for other runtimes."""
    if provider == CPU or not provider.endswith("Provider"):
        return ""
    called = "calls of the program itself run on the CPU"
    if any(kernel.provider == provider for kernel in listed_kernels()):
        return f"no cost was measured on {provider}, so no operator of ONNX Runtime's own is taken there; {called}"
    return f"the installed ONNX Runtime has no {provider}: it is taken to have the kernels of the CPU; {called}"


CPU = "CPUExecutionProvider"
"""The provider that every build of ONNX Runtime has, and whose costs were measured."""


@lru_cache(maxsize=16)
def _runtime_domains(provider: str) -> frozenset[str]:
    return frozenset(domain for domain, _ in kernels(provider)) if provider else frozenset()


@cache
def runtime_schemas() -> Mapping[tuple[str, str], tuple[tuple[int, frozenset[str]], ...]]:
    """The versions of each operator that the installed ONNX Runtime knows, with their attributes, newest first."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found: dict[tuple[str, str], list[tuple[int, frozenset[str]]]] = {}
    for schema in get_all_operator_schema():
        found.setdefault((schema.domain, schema.name), []).append((schema.since_version, frozenset(schema.attributes)))
    return MappingProxyType({key: tuple(sorted(rows, key=lambda r: -r[0])) for key, rows in found.items()})


@cache
def known_domains() -> frozenset[str]:
    """The domains in which ONNX, or the installed ONNX Runtime, has operators."""
    return frozenset(domain for domain, _ in runtime_schemas()) | {s.domain for s in onnx.defs.get_all_schemas()}


def require_domains(graph: Graph, target: Target) -> None:
    """Raises RewriteError where the target allows a domain in which nobody has an operator, and whose name is close to
    one in which ONNX or the installed ONNX Runtime has. A domain of one's own may be allowed for graphs that have none
    of its operators, or no longer."""
    unknown = [domain for domain in target.domains if domain not in known_domains()]
    near = {d: found[0] for d in unknown if (found := get_close_matches(d, sorted(known_domains() - {""}), 1))}
    missing = sorted(near.keys() - domains_of(graph)) if near else []
    if missing:
        raise RewriteError(
            f"the target allows the domain {missing[0]!r}, in which neither ONNX, nor the installed ONNX Runtime, nor "
            "the graph has an operator",
            hint=f"did you mean {near[missing[0]]}?",
        )


def domains_of(graph: Graph) -> frozenset[str]:
    """The domains of the operators of a graph and of its bodies."""
    own = frozenset(domain_of(value.op) for value in graph.order)
    return own.union(*(domains_of(body) for body in walk.bodies(graph.order)))


def runtime_version(op: str, opset: int) -> tuple[int, frozenset[str]]:
    """(version, attributes) of an operator in the installed ONNX Runtime at an opset; (0, none) where it has none."""
    rows = runtime_schemas().get(split_domain(op), ())
    return next((r for r in rows if r[0] <= opset or "::" in op), (0, frozenset[str]()))


def kernels_fitting(target: Target, op: str, since: int) -> tuple[Kernel, ...]:
    """The kernels of an operator for version `since` of it, which is that of the target's opset.

    A kernel whose range is left open serves the version it begins with, and opsets after that which did not change
    the operator; one with an end serves every version in between.
    """
    return tuple(
        (first, last, bound)
        for first, last, bound in kernels(target.provider).get(split_domain(op), ())
        if first == since or (last != FOREVER and first <= since <= last) or since < first <= target.opset <= last
    )


def runs_uncast(target: Target, value: Value) -> bool:
    """True where some kernel takes a value's very operands: ONNX Runtime puts no casts around it."""
    found = row_at(value.op, target.opset)
    if found is None:
        return False
    since = runtime_version(value.op, target.opset)[0] or found.since
    operands = tuple(None if v is None else _kind(v.type) for v in value.inputs)
    return _uncast(target, value.op, found, since, operands, _kinds(value.type))


@lru_cache(maxsize=4096)
def _uncast(
    target: Target, op: str, found: OpSpec, since: int, operands: tuple[Kind, ...], results: tuple[Kind, ...]
) -> bool:
    return _any_takes(kernels_fitting(target, op, since), bindings(found, operands, results))


def has_kernel(
    target: Target, op: str, found: OpSpec, since: int, operands: tuple[Kind, ...], results: tuple[Kind, ...]
) -> bool:
    """True where some kernel takes those operands and gives those results."""
    types = bindings(found, operands, results)
    rows = kernels_fitting(target, op, since)
    if _any_takes(rows, types):
        return True
    if rows and target.is_onnxruntime and any(t == TYPE_STRINGS[k] for k in SELF_CAST for t in types.values()):
        wide = {name: "tensor(float)" if t == "tensor(float16)" else t for name, t in types.items()}
        return _any_takes(rows, wide)
    return False


def _any_takes(rows: tuple[Kernel, ...], types: Mapping[str, str]) -> bool:
    return any(all(types.get(name, "") in ("", *allowed) for name, allowed in bound.items()) for *_, bound in rows)


def bindings(found: OpSpec, operands: tuple[Kind, ...], results: tuple[Kind, ...]) -> dict[str, str]:
    """What each type variable and formal of an operator is, for operands and results of those kinds."""
    types: dict[str, str] = {}
    sides = ((found.inputs, operands), (found.outputs, results))
    for formals, kinds in sides:
        for index, kind in enumerate(kinds):
            if kind is None or not formals:
                continue
            formal = formals[min(index, len(formals) - 1)]
            text = TYPE_STRINGS[kind] if isinstance(kind, DType) else kind
            types.setdefault(formal.type, text)
            types.setdefault(formal.name, text)
    return types
