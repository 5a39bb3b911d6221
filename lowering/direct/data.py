"""Numbers out of tensors: symbols whose value the data tells; questions about them are answered by the example.
Numbers that a model draws from a seed of its own stand here, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.capture.guards.rounds import Below, always_in_rounds
from lowering.capture.inputs.drawing import SEED
from lowering.direct.meta_device.arguments import lying_as
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import Traced
from lowering.direct.tracer import Tracer
from lowering.errors import LoweringError
from lowering.fold.assertions import noted_checks
from lowering.fold.scope import Check
from lowering.records.members import tells_by_identity
from lowering.records.sizes import is_unbacked
from lowering.records.types import tensor_of
from lowering.tensors.promotion import cast, truth


def item(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """item(x): a number; the one that it always is where no input tells it."""
    value = tracer.read(tracer.handle(args[0]))
    example = tracer.example(value).reshape(()).item()
    if tracer.is_constant(value):
        return example
    scalar = op.Reshape(value, []) if value.rank else value
    if value.dtype is DType.BOOL:
        symbol = tracer.fresh_symbol(int(example))
        tracer.scope.binders[symbol] = (tracer.placed(op.Cast(scalar, to=DType.INT64), "item"), True)
        tracer.truths.add(symbol)
        node = SizeNode(tracer.asked, sympy.Ne(symbol, 0), bool, bool(example))
        made = torch.SymBool(node)
        return node.guard_bool() if tells_by_identity(made, through=True) else made
    if value.dtype.is_integer:
        symbol = tracer.number_of(value)
        if symbol is None:
            symbol = tracer.fresh_symbol(int(example), signed=True)
            whole = scalar if value.dtype is DType.INT64 else op.Cast(scalar, to=DType.INT64)
            tracer.scope.binders[symbol] = (tracer.placed(whole, "item"), True)
            tracer.note_number(value, symbol)
        return torch.SymInt(SizeNode(tracer.asked, symbol, int, int(example)))
    if value.dtype.is_float:
        symbol = sympy.Symbol(f"zuf{tracer.symbols['zuf']}", real=True)
        tracer.symbols["zuf"] += 1
        tracer.scope.numbers[symbol] = tracer.placed(cast(scalar, DType.DOUBLE), "item")
        return torch.SymFloat(SizeNode(tracer.asked, symbol, float, float(example)))
    raise LoweringError(
        f"item() of {value.dtype.short} is not met by direct capture",
        hint="keep the number a tensor, x.reshape(()), or take its parts: x.real.item(), x.imag.item()",
    )


def is_true(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """bool(x): the answer of the example, kept as a condition on the data."""
    value = tracer.read(tracer.handle(args[0]))
    answer = bool(tracer.example(value).reshape(()).item())
    if not tracer.is_constant(value):
        tracer.asked.reached(None)
        flag = truth(op.Reshape(value, []) if value.rank else value)
        keep(tracer, flag if answer else op.Not(flag), answer)
    return answer


def keep(tracer: Tracer, flag: Value, answer: bool) -> None:
    """Keeps a boolean scalar that must be true whenever the program is called."""
    line = tracer.line()
    text = f"a truth value that the model asks for is {answer}"
    tracer.scope.checks.append(Check(tracer.placed(flag, "assert"), text, line))


def equal(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """torch.equal(a, b): the answer of the example, kept as a condition on the data."""
    a, b = (tracer.read(tracer.handle(each)) for each in args[:2])
    if a.rank != b.rank:
        return False
    for mine, other in zip(a.shape, b.shape, strict=True):
        same = tracer.asked.hint(mine) == tracer.asked.hint(other)
        if dims.same(mine, other) is not True:
            tracer.asked.condition(sympy.Eq(sympy.sympify(mine), sympy.sympify(other)), same)
        if not same:
            return False
    with tracer.resumed():
        return bool(torch.eq(args[0], args[1]).all())


def close(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """torch.allclose(a, b, ...): the answer of the example, kept as a condition on the data."""
    with tracer.resumed():
        return bool(torch.isclose(*args, **kwargs).all())


def asserted(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """_assert_async(x, message): what the model asserts of a tensor"""
    value = tracer.read(tracer.handle(args[0]))
    message = args[1] if len(args) > 1 and isinstance(args[1], str) else "all is true"
    if not tracer.is_constant(value):
        line = tracer.line()
        tracer.scope.checks.append(Check(value, f"{message} (asserted of the content of a tensor)", line))


def asserted_number(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """_assert_scalar(condition, message): what the model asserts of numbers"""
    if isinstance(args[0], torch.SymBool):
        args[0].node.expect_true("", 0)


def in_range(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """sym_constrain_range(n, min, max)"""
    number = args[0]
    if not isinstance(number, torch.SymInt):
        return
    low, high = kwargs.get("min"), kwargs.get("max")
    if low is not None:
        torch._check(number >= low)
    if high is not None:
        torch._check(number <= high)


# ---------------------------------------------------------------------------------------------- numbers of bodies


def conditions_within(tracer: Tracer, before: Set[Any]) -> list[Check]:
    """The conditions on numbers of a body that were asked in it, which become the body's own; `before` were there
    earlier; but for those that hold because there are only so many rounds. What they need of numbers around the body is
    captured. Raises LoweringError where nothing tells these."""
    scope, kept = tracer.scope, tracer.asked.kept
    own = {*scope.binders, *scope.numbers}
    asked = [each for each in kept if each not in before and not isinstance(each, str) and each.free_symbols & own]
    for each in asked:
        around = [s for s in dims.symbols_of(each) if s not in own and is_number_of_data(s)]
        if not all(bound_around(tracer, symbol) for symbol in around):
            raise LoweringError(
                f"a body of control flow asks {each}, of numbers in it and around it", source=kept[each].source,
                hint="use capture='torch.export'",
            )  # fmt: skip
    tracer.allowed.clear()
    numbers = numbers_of_rounds(tracer)
    guards = [(each, kept.pop(each)) for each in asked]
    return list(noted_checks(scope, [guard for each, guard in guards if not always_in_rounds(each, numbers)]))


def numbers_of_rounds(tracer: Tracer) -> dict[Any, Any]:
    """What is known of the numbers of the loops around what is traced, by their symbols, the innermost first: of one
    that counts rounds that it is below their number, and what those are that no round changes."""
    found: dict[Any, Any] = {}
    frames = tracer.frames
    around = [{own: outer for outer, own in frame.captured.items()} for frame in frames]
    for place, frame in reversed([*enumerate(frames)]):
        found |= {symbol: known for symbol, known in frame.stands.items() if symbol not in found}
        if frame.counter is None:
            continue
        number, length = frame.counter
        for depth in range(len(frames) - 1, place - 1, -1):
            for symbol, (value, by_content) in frames[depth].scope.binders.items():
                for own in reversed(around[place + 1 : depth + 1]):
                    value = own.get(value, value)
                if by_content and value is number:
                    found.setdefault(symbol, Below(length))
    return found


def is_number_of_data(symbol: Any) -> bool:
    """Whether only data tells what a symbol stands for."""
    return is_unbacked(symbol.name) or symbol.name.startswith("zuf")


def bound_around(tracer: Tracer, symbol: Any, *, numbers: bool = False) -> bool:
    """Whether something around a body tells the number of a symbol, which the body then knows, too; with `numbers` not
    where it is the size of something there."""
    scope = tracer.scope
    for depth, frame in reversed([*enumerate(tracer.frames)]):
        if symbol in frame.outer.binders:
            value, by_content = frame.outer.binders[symbol]
            if numbers and not by_content:
                return False
            scope.binders[symbol] = (tracer.captured(value, depth), by_content)
            return True
        if symbol in frame.outer.numbers:
            scope.numbers[symbol] = tracer.captured(frame.outer.numbers[symbol], depth)
            return True
    return False


# ---------------------------------------------------------------------------------------------- numbers that are drawn


def seeded_draw(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch itself draws where the model has seeded its generator in this run: these are the numbers of each call.

    NotImplemented where it has not, and, with a note, where a size varies, numbers of the data take part or the model
    has a generator of its own: ONNX Runtime draws such numbers anew in each call.
    """
    own = kwargs.get("generator")
    if own is None and torch.default_generator.initial_seed() == SEED:
        return NotImplemented
    given, spec = pytree.tree_flatten((args, dict(kwargs)))
    name = func._schema.name
    if name.endswith("dropout") and any(each is False for each in given):
        return NotImplemented  # which draws nothing
    if own is None and not func._schema.is_mutable:
        like = name.endswith("_like")
        given = [known_content(tracer, each, like) if type(each) is Traced else each for each in given]
    if own is not None or any(isinstance(each, Traced | torch.SymInt | torch.SymFloat) for each in given):
        tracer.drawn[tracer.line()] = None
        return NotImplemented
    args, kwargs = pytree.tree_unflatten(given, spec)
    return func(*args, **kwargs)


def known_content(tracer: Tracer, x: Traced, any_numbers: bool) -> torch.Tensor:
    """What a traced tensor holds in each call, or, with `any_numbers`, one of its type and sizes, which lies in memory
    as it does: in that order torch draws. The argument where these vary."""
    twin = x.handle.twin
    if not all(type(d) is int for d in x.handle.value.shape):
        return x
    if any_numbers:
        return torch.empty_strided(twin.shape, twin.stride(), dtype=twin.dtype)
    value = tracer.read(x.handle)
    return lying_as(twin, tensor_of(tracer.example(value))) if tracer.is_constant(value) else x


def counted_mask(func: Any, args: Sequence[Any]) -> Value | None:
    """The operand whose places that are not 0 are as many as the result is long; None where that is not known."""
    name = func._schema.name
    if name == "aten::nonzero":
        return args[0]
    if name == "aten::masked_select":
        return args[1] if args[0].shape == args[1].shape else None
    masks = [each for each in args[1] if each is not None] if name == "aten::index" else ()
    return masks[0] if len(masks) == 1 and isinstance(masks[0], Value) and masks[0].dtype is DType.BOOL else None


def array_of_weight(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """NumPy's array of a tensor that is none of the traced, as torch gives it, which cannot be written: nobody would
    notice. Raises LoweringError for one that the model writes, of which a later call has another."""
    tensor = args[0]
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        memory, _, _ = tracer.lying(tensor)
        written = tracer.is_written(tensor, tensor.untyped_storage()._cdata, id(tensor) in tracer.names)
        if memory.version or memory.torn or memory.stale or written:
            what = "the model reads a tensor by NumPy that it writes"
            raise LoweringError(what, source=tracer.line(), hint="compute with torch what is to be read")
        found = func(*args, **kwargs)
    found.flags.writeable = False
    return found


def compute_nothing(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """What computes nothing."""


def natively(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What torch itself makes of a call that meets no tensor."""
    return func(*args, **kwargs)


DATA = {
    **dict.fromkeys((f"profiler::_record_function_{each}" for each in ("enter", "enter_new", "exit")), natively),
    "aten::item": item, "aten::_local_scalar_dense": item, "aten::is_nonzero": is_true, "aten::equal": equal,
    "aten::allclose": close,
    "aten::_assert_async": asserted, "aten::_assert_scalar": asserted_number, "aten::sym_constrain_range": in_range,
    "aten::sym_constrain_range_for_size": in_range, "aten::_assert_tensor_metadata": compute_nothing,
}  # fmt: skip
"""By operator: what becomes of numbers, and of what is asserted of them."""
