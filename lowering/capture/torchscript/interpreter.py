"""The graphs of TorchScript, run operator by operator in Python.

torch's own interpreter hands each operator to torch's dispatcher too, and so could be traced, but it wants plain
integers where a size is asked for, and does not say which way it took. Here an operator on tensors is called as
torch.ops has it, and Python does the rest (`on_numbers`): branches ask their condition, loops their count.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import torch

from lowering.capture.torchscript.on_numbers import (
    MEMORY_FORMATS,
    OF_HELD_NUMBERS,
    ON_CONTAINERS,
    ON_NUMBERS,
    ON_TENSORS,
    extreme,
)
from lowering.errors import CaptureError

DTYPES: Mapping[int, torch.dtype] = MappingProxyType(
    dict(
        enumerate(
            (
                torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
                torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8,
                torch.quint8, torch.qint32, torch.bfloat16,
            )
        )
    )
    | {
        23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 25: torch.float8_e5m2fnuz, 26: torch.float8_e4m3fnuz,
        27: torch.uint16, 28: torch.uint32, 29: torch.uint64,
    }
)  # fmt: skip
"""Element types by the numbers of c10::ScalarType, by which TorchScript names them."""
KINDS_OF_DTYPES: Mapping[torch.dtype, int] = MappingProxyType({dtype: number for number, dtype in DTYPES.items()})
NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
MANY = 2**62
"""A loop without a count of its own has one as large as an integer can be."""


@attrs.frozen
class Held:
    """A tensor of rank 0 that holds a number of Python, as TorchScript's prim::NumToTensor makes it of a size."""

    number: Any
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """The tensor itself."""
        return torch.scalar_tensor(self.number, dtype=self.dtype)


def held(number: Any) -> Held:
    """prim::NumToTensor"""
    if isinstance(number, bool | torch.SymBool):
        return Held(number, torch.bool)
    if isinstance(number, complex):
        return Held(number, torch.complex128)
    return Held(number, torch.int64 if isinstance(number, int | torch.SymInt) else torch.float64)


@attrs.frozen
class Frame:
    """The values of a graph by name, and whether a branch on data is computed, by torch.cond, instead of followed."""

    branches: bool
    known: dict[str, Any] = attrs.field(factory=dict)

    def operands(self, node: Any) -> list[Any]:
        """What a node is handed."""
        return [self.known[value.debugName()] for value in node.inputs()]

    def inside(self) -> Frame:
        """The same values, for a block whose own are to be forgotten."""
        return Frame(self.branches, dict(self.known))


def run_graph(graph: Any, args: Sequence[Any], branches: bool = False) -> Any:
    """What a graph of TorchScript returns for arguments; more than one result as a tuple.

    Raises CaptureError where an operator of TorchScript is not met, and what the operators raise themselves.
    """
    results = [outside(each) for each in run_block(graph, args, Frame(branches))]
    return results[0] if len(results) == 1 else tuple(results)


def outside(value: Any) -> Any:
    """A result as torch gives it."""
    if isinstance(value, Held):
        return value.tensor()
    if type(value) in (list, tuple):
        return type(value)(map(outside, value))
    return {key: outside(each) for key, each in value.items()} if type(value) is dict else value


def run_block(block: Any, args: Sequence[Any], frame: Frame) -> list[Any]:
    """What a block returns, whose values are added to those of the frame."""
    known = frame.known
    for value, given in zip(block.inputs(), args, strict=True):
        known[value.debugName()] = given
    for node in block.nodes():
        outputs, made = list(node.outputs()), run_node(node, frame)
        for value, each in zip(outputs, (made,) if len(outputs) == 1 else made if outputs else (), strict=True):
            known[value.debugName()] = each
    return [known[value.debugName()] for value in block.outputs()]


def run_node(node: Any, frame: Frame) -> Any:
    """The result of an operator, or its results where it has none or several."""
    kind = node.kind()
    if kind == "prim::Constant":
        return constant_of(node)
    given = frame.operands(node)
    if kind == "prim::If":
        return run_if(node, given[0], frame)
    if kind == "prim::Loop":
        return several(node, run_loop(node, given, frame))
    if kind == "aten::Bool" and frame.branches and is_asked_later(node, given[0]):
        return given[0]
    if kind == "prim::CallMethod":  # which is left of recursion and of interfaces only
        graph = given[0].script._c._get_method(node.s("name")).inlined_graph
        return run_graph(graph, given, frame.branches)
    if kind.startswith("aten::"):
        return run_operator(node, kind.removeprefix("aten::"), given)
    function = OF_SCRIPT.get(kind)
    if function is not None:
        return function(node, *given)
    if not kind.startswith("prim::"):  # a custom operator, which libraries register
        namespace, name = kind.split("::")
        return called(node, namespace, name, given)
    raise not_met(node, f"the operator {kind}")


def not_met(node: Any, what: str) -> CaptureError:
    """The error for a part of TorchScript that is not met, with its line."""
    where = str(node.sourceRange()).strip()
    return CaptureError(f"TorchScript has {what}, which is not met", source=where, hint=INSTEAD)


INSTEAD = "pass the module that it was scripted from"


def several(node: Any, made: Sequence[Any]) -> Any:
    """Results as `run_node` gives them."""
    return made[0] if node.outputsSize() == 1 else made


def run_loop(node: Any, given: Sequence[Any], frame: Frame) -> list[Any]:
    """What a loop carries when it ends: after as many rounds as it may have, or when its condition is false."""
    count, going, *carried = given
    (body,) = node.blocks()
    rounds = iter(range(MANY)) if isinstance(count, int) and count > MANY else iter(range(count))
    while going:
        place = next(rounds, None)
        if place is None:
            break
        going, *carried = run_block(body, (place, *carried), frame)
    return carried


def run_if(node: Any, asked: Any, frame: Frame) -> Any:
    """What the block of a branch returns that its condition chooses; of data both, by torch.cond."""
    first, second = node.blocks()
    if not isinstance(asked, torch.Tensor):
        return several(node, run_block(first if asked else second, (), frame))
    around = {id(value) for value in frame.known.values()}

    def way(block: Any) -> Callable[[], tuple[torch.Tensor, ...]]:
        def run() -> tuple[torch.Tensor, ...]:
            made = (tensor_of(each) for each in run_block(block, (), frame.inside()))
            return tuple([each.clone() if id(each) in around else each for each in made])

        return run

    return several(node, list(torch.cond(asked.reshape(()).to(torch.bool), way(first), way(second), ())))


def is_asked_later(node: Any, x: Any) -> bool:
    """Whether a number of data that is traced only chooses between tensors that are computed without a trace."""
    if not isinstance(x, torch.Tensor) or type(x) in (torch.Tensor, torch.nn.Parameter):
        return False
    return all(use.user.kind() == "prim::If" and is_choice(use.user) for use in node.output().uses())


def is_choice(node: Any) -> bool:
    """Whether a branch gives tensors, and its blocks write nothing and raise nothing."""
    outputs = list(node.outputs())
    tensors = bool(outputs) and all(value.type().kind() == "TensorType" for value in outputs)
    return tensors and not any(map(has_effects, node.blocks()))


def has_effects(block: Any) -> bool:
    """Whether a block does something else than to compute its results."""
    for node in block.nodes():
        kind = node.kind()
        if kind in EFFECTS or any(map(has_effects, node.blocks())):
            return True
        if not kind.startswith("prim::") and "!" in str(node.schema()):  # (a!) stands for what is written
            return True
    return False


EFFECTS = (
    "prim::SetAttr", "prim::RaiseException", "prim::CallMethod", "prim::PythonOp", "prim::CreateObject", "prim::Enter",
)  # fmt: skip
"""Operators of TorchScript's own that do something else than to compute their results."""


def constant_of(node: Any) -> Any:
    """The value of a constant; the name of one that is a function."""
    if "value" not in node.attributeNames():
        return node.s("name") if "name" in node.attributeNames() else None
    return node.output().toIValue()


# ---------------------------------------------------------------------------------------------------------------------
# Operators of torch
# ---------------------------------------------------------------------------------------------------------------------


def run_operator(node: Any, name: str, given: Sequence[Any]) -> Any:
    """The result of an operator of the namespace aten: by Python where it is one of numbers, by torch elsewhere."""
    if any(isinstance(each, Held) for each in given):
        found = of_held_numbers(name, given)
        if found is not None:
            return found
        given = [each.tensor() if isinstance(each, Held) else each for each in given]
    if name in ("tensor", "as_tensor"):
        return tensor_made(*given)
    function = ON_TENSORS.get(name)
    if function is None and given and isinstance(given[0], list | tuple | dict | str):
        function = ON_CONTAINERS.get(name)
    if function is not None:
        return function(*given)
    function = None if any(map(holds_tensors, given)) else ON_NUMBERS.get(name)
    return called(node, "aten", name, given) if function is None else of_type_of(node, function(*given))


def of_type_of(node: Any, made: Any) -> Any:
    """A number of the type that the operator's result has: 2 ** 3 is a float in TorchScript, as is what is rounded."""
    kind = node.output().type().kind() if node.outputsSize() == 1 else ""
    if kind == "FloatType" and isinstance(made, int | torch.SymInt):
        return torch.sym_float(made)
    return torch.sym_int(made) if kind == "IntType" and isinstance(made, float | torch.SymFloat) else made


def tensor_made(data: Any, dtype: int | None = None, device: Any = None, requires_grad: bool = False) -> torch.Tensor:
    """aten::tensor and aten::as_tensor: numbers as a tensor"""
    kind = None if dtype is None else DTYPES[dtype]
    if isinstance(data, torch.Tensor):
        return data.to(device=device, dtype=kind)
    return torch.tensor(outside(data), dtype=kind, device=device, requires_grad=requires_grad)


def holds_tensors(value: Any) -> bool:
    """Whether there is a tensor in it."""
    return isinstance(value, torch.Tensor) or (isinstance(value, list | tuple) and any(map(holds_tensors, value)))


def of_held_numbers(name: str, given: Sequence[Any]) -> Any:
    """What an operator gives on tensors that hold integers, which Python computes as torch does; None elsewhere."""
    first = given[0]
    if name in ASKING and isinstance(first, Held):
        return first.number if name in ("ScalarImplicit", "item") else ON_TENSORS[name](first.number)
    function = OF_HELD_NUMBERS.get(name)
    if function is None:
        return None
    numbers: list[Any] = []
    for each in given:
        if isinstance(each, torch.Tensor):
            if each.dim() or type(each) is not torch.Tensor or each.dtype is not torch.int64:
                return None
            each = each.item()
        elif isinstance(each, Held):
            if each.dtype is not torch.int64:
                return None
            each = each.number
        elif isinstance(each, float | complex | torch.SymFloat):
            return None
        numbers.append(each)
    made = function(*numbers)
    return Held(made, torch.int64 if isinstance(made, int | torch.SymInt) else torch.get_default_dtype())


ASKING = ("Int", "Float", "Bool", "ScalarImplicit", "IntImplicit", "FloatImplicit", "item")
"""Operators that ask for the number of a tensor."""


def called(node: Any, namespace: str, name: str, given: Sequence[Any]) -> Any:
    """The result of the operator of torch that the node's schema names."""
    schema = str(node.schema())
    head = schema.split("(", 1)[0].split("::", 1)[-1]
    overload = head.split(".", 1)[1] if "." in head else "default"
    try:
        function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    except AttributeError as error:
        raise not_met(node, f"the operator {namespace}::{name}") from error
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(function._schema.arguments, given, strict=False):
        value = argument_of(str(argument.real_type), value)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return function(*positional, **named)


def argument_of(kind: str, value: Any) -> Any:
    """An argument as torch.ops takes it: element types, layouts and memory formats are numbers to TorchScript."""
    if isinstance(value, Held):
        return value.tensor()
    if type(value) is int and kind.startswith(("ScalarType", "Optional[ScalarType")):
        return DTYPES[value]
    if type(value) is int and kind.startswith(("Layout", "Optional[Layout")):
        return torch.strided if value == 0 else value
    if type(value) is int and kind.startswith(("MemoryFormat", "Optional[MemoryFormat")):
        return MEMORY_FORMATS[value]
    if isinstance(value, NUMBERS) and kind == "Tensor":
        return held(value).tensor()
    return [argument_of("", each) for each in value] if type(value) is list else value


# ---------------------------------------------------------------------------------------------------------------------
# TorchScript's own
# ---------------------------------------------------------------------------------------------------------------------


def attribute_of(node: Any, owner: Any) -> Any:
    """prim::GetAttr"""
    return getattr(owner, node.s("name"))


def set_attribute(node: Any, owner: Any, value: Any) -> tuple[()]:
    """prim::SetAttr"""
    setattr(owner, node.s("name"), outside(value))
    return ()


def unpacked(node: Any, values: Sequence[Any]) -> Any:
    """prim::ListUnpack and prim::TupleUnpack"""
    if len(values) != node.outputsSize():
        raise RuntimeError(f"Expected {node.outputsSize()} elements in a list but found {len(values)}")
    return several(node, list(values))


def tuple_of(node: Any, *parts: Any) -> Any:
    """prim::TupleConstruct"""
    text = node.output().type().str()
    if not text.startswith("NamedTuple("):
        return tuple(parts)
    fields = tuple(re.findall(r"(\w+) : ", text))[: len(parts)]
    return named_tuple(str(node.output().type().annotation_str).rsplit(".", 1)[-1], fields)(*parts)


@functools.lru_cache(maxsize=1 << 8)
def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """The class of a named tuple, the same each time: torch tells structures apart by their classes."""
    return collections.namedtuple(name, fields)


@attrs.define(eq=False, slots=False)
class Instance:
    """An instance of a class of TorchScript, whose methods stand in the graph already."""

    kind: str
    block: Any = None


def created(node: Any) -> Instance:
    """prim::CreateObject"""
    return Instance(str(node.output().type()))


def entered(node: Any, owner: Instance) -> Instance:
    """prim::Enter"""
    if owner.kind.endswith(".no_grad"):
        owner.block = torch.no_grad()
        owner.block.__enter__()
    elif not owner.kind.endswith(".record_function"):
        raise not_met(node, f"with over {owner.kind}")
    return owner


def left(_: Any, owner: Instance, *rest: Any) -> None:
    """prim::Exit"""
    if owner.block is not None:
        owner.block.__exit__(None, None, None)


def dict_of(_: Any, *parts: Any) -> dict[Any, Any]:
    """prim::DictConstruct"""
    return dict(zip(parts[::2], parts[1::2], strict=True))


def raised(_: Any, text: Any, kind: Any = None) -> Any:
    """prim::RaiseException"""
    name = str(kind).rsplit(".", 1)[-1]
    known = {"ValueError": ValueError, "TypeError": TypeError, "IndexError": IndexError, "KeyError": KeyError}
    raise known.get(name, AssertionError if name == "AssertionError" else RuntimeError)(text)


def unwrapped(_: Any, value: Any) -> Any:
    """aten::_unwrap_optional, prim::unchecked_unwrap_optional"""
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def is_instance(node: Any, value: Any) -> bool:
    """prim::isinstance"""
    return any(is_of(kind, value) for kind in node.tys("types"))


def is_of(kind: Any, value: Any) -> bool:
    """Whether a value is of a type of TorchScript."""
    name = kind.kind()
    if name == "OptionalType":
        return value is None or is_of(kind.getElementType(), value)
    if name == "ListType":
        return isinstance(value, list) and all(is_of(kind.getElementType(), each) for each in value)
    if name == "DictType":
        return isinstance(value, dict) and all(is_of(kind.getValueType(), each) for each in value.values())
    if name == "TupleType":
        parts = kind.elements()
        return isinstance(value, tuple) and len(parts) == len(value) and all(map(is_of, parts, value))
    known = KINDS.get(name)
    if known is None:
        raise CaptureError(f"TorchScript asks for a {name} by isinstance, which is not met", hint=INSTEAD)
    return isinstance(value, known) and not (isinstance(value, bool) and name in ("IntType", "NumberType"))


KINDS: Mapping[str, Any] = MappingProxyType(
    {
        "TensorType": (torch.Tensor, Held),
        "IntType": (int, torch.SymInt),
        "FloatType": (float, torch.SymFloat),
        "BoolType": (bool, torch.SymBool),
        "NumberType": NUMBERS,
        "ComplexType": complex,
        "StringType": str,
        "NoneType": type(None),
        "DeviceObjType": torch.device,
    }
)


def property_of(name: str) -> Callable[..., Any]:
    """A function for the property of a tensor."""

    def call(_: Any, x: Any) -> Any:
        return getattr(tensor_of(x), name)

    return call


ELSEWHERE = (
    "cuda",
    "xpu",
    "xla",
    "ipu",
    "mps",
    "vulkan",
    "maia",
    "mkldnn",
    "sparse",
    "sparse_csr",
    "quantized",
    "nested",
)
"""Where and how else tensors may lie."""


def ignored_function(node: Any, *args: Any) -> Any:
    """prim::PythonOp: a function of Python that TorchScript leaves as it is."""
    return node.pyobj()(*map(outside, args))


OF_SCRIPT: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "prim::GetAttr": attribute_of,
        "prim::SetAttr": set_attribute,
        "prim::PythonOp": ignored_function,
        "prim::ListConstruct": lambda node, *parts: list(parts),
        "prim::TupleConstruct": tuple_of,
        "prim::DictConstruct": dict_of,
        "prim::ListUnpack": unpacked,
        "prim::TupleUnpack": unpacked,
        "prim::TupleIndex": lambda node, values, place: values[place],
        "prim::TupleSlice": lambda node, values: values[node.i("beg") : node.i("end")],
        "prim::NumToTensor": lambda node, number: held(number),
        "prim::RaiseException": raised,
        "prim::unchecked_cast": lambda node, value: value,
        "prim::unchecked_unwrap_optional": unwrapped,
        "aten::_unwrap_optional": unwrapped,
        "prim::Uninitialized": lambda node: None,
        "prim::isinstance": is_instance,
        "prim::Print": lambda node, *values: (),
        "prim::dtype": lambda node, x: KINDS_OF_DTYPES[tensor_of(x).dtype],
        "prim::device": lambda node, x: tensor_of(x).device,
        "prim::layout": lambda node, x: 0,
        **{f"prim::is_{kind}": property_of(f"is_{kind}") for kind in ELSEWHERE},
        "prim::is_cpu": lambda node, x: True,
        "prim::is_meta": lambda node, x: False,
        "prim::is_leaf": property_of("is_leaf"),
        "prim::itemsize": property_of("itemsize"),
        "prim::nbytes": property_of("nbytes"),
        "prim::requires_grad": lambda node, x: tensor_of(x).requires_grad,
        "prim::data": lambda node, x: tensor_of(x).detach(),
        "prim::type": lambda node, device: device.type,
        "prim::index": lambda node, device: device.index,
        "prim::min": lambda node, *given: extreme(torch.sym_min)(*given),
        "prim::max": lambda node, *given: extreme(torch.sym_max)(*given),
        "prim::abs": lambda node, x: abs(x),
        "prim::rangelist": lambda node, count: list(range(count)),
        "prim::CreateObject": created,
        "prim::Enter": entered,
        "prim::Exit": left,
    }
)
"""What the operators of TorchScript's own namespace give, each called with its node and its operands."""


def tensor_of(value: Any) -> torch.Tensor:
    """A tensor, or the one that holds a number."""
    return value.tensor() if isinstance(value, Held) else value
