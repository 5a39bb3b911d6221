"""`and`, `or`, `not`, chained comparisons and builtins that ask for truths, of tensors as of anything else."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import torch

from lowering.capture.patches import kept_sizes
from lowering.capture.patches.kinds_of_numbers import PLAIN, type_in
from lowering.control_flow.branches import Branches, is_direct
from lowering.control_flow.elements import open_map
from lowering.control_flow.ragged import open_len
from lowering.control_flow.rows import (
    GrownList,
    open_enumerate,
    open_pairwise,
    open_range,
    open_reversed,
    open_split,
    open_tolist,
    open_unbind,
    open_zip,
)
from lowering.control_flow.values import (
    Absent,
    Grows,
    Mismatch,
    as_tensor,
    decider,
    fits,
    is_open,
    truth,
    user_line,
)
from lowering.direct.functions.arrays import Array
from lowering.direct.functions.mixed_kinds import may_be_number
from lowering.errors import CaptureError

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def choose(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """yes() if test else no()"""
    test = decider(test)
    if not is_open(test):
        return yes() if test else no()
    try:
        return Branches(test, (yes, no), (), (), frozenset(), ()).run()
    except Mismatch as told:
        if not is_kept(test, told):
            raise
        return yes() if test else no()


def is_kept(test: Any, told: Mismatch) -> bool:
    """Whether the example's answer to a test stays a condition, since the model goes on in two ways that do not fit
    together: where one gives None, or the test is of a size that data tells, as where sizes of inputs are asked for."""
    followed = isinstance(told, Grows) and is_direct(test)  # by a loop or branch around
    return isinstance(told, Absent) or (type(test) is torch.SymBool and not followed)


def not_(value: Any) -> Any:
    """not value"""
    value = decider(value)
    if not is_open(value):
        return not value
    asked = truth(value)
    return torch.sym_not(asked) if isinstance(asked, torch.SymBool) else torch.logical_not(asked)


def and_(value: Any, *rest: Callable[[], Any], lazy: bool = False, as_value: bool = False) -> Any:
    """value and rest[0]() and ...; those behind a value of data are computed always, unless they may fail (`lazy`).
    Only the truth is asked, but `as_value`, where it is one of the values, as Python has it"""
    return joined(value, rest, lazy, False, as_value)


def or_(value: Any, *rest: Callable[[], Any], lazy: bool = False, as_value: bool = False) -> Any:
    """value or rest[0]() or ...; those behind a value of data are computed always, unless they may fail (`lazy`).
    Only the truth is asked, but `as_value`, where it is one of the values, as Python has it"""
    return joined(value, rest, lazy, True, as_value)


def joined(value: Any, rest: Iterable[Callable[[], Any]], lazy: bool, decisive: bool, as_value: bool) -> Any:
    """`and`, or `or` where True decides."""
    for each in rest:
        value = value if as_value else decider(value)
        if not is_open(value):
            if bool(value) is decisive:
                return value
            value = each()
        elif as_value:
            value = one_of(value, each, lazy, decisive)
        elif lazy:
            value = lazily(value, each, decisive)
        else:
            value = both(value, decider(each()), decisive)
    return value


def lazily(value: Any, other: Callable[[], Any], decisive: bool) -> Any:
    """`value and other()` by a branch, so that `other` is computed only where it counts."""
    value = as_tensor(truth(value))

    def second() -> Any:
        return as_tensor(truth(decider(other())), torch.bool)

    def first() -> Any:
        return torch.full((), decisive)

    return choose(value, first, second) if decisive else choose(value, second, first)


def one_of(value: Any, other: Callable[[], Any], lazy: bool, decisive: bool) -> Any:
    """`value and other()`, or `or`, as Python has it: one of both, whatever it is. Raises CaptureError where these are
    of two types."""
    boolean = is_boolean(value)
    if not lazy:
        found = other()
        tensors = isinstance(found, torch.Tensor) and isinstance(value, torch.Tensor)
        alike = tensors and found.dtype is value.dtype and found.dim() == value.dim() == 0
        if alike or (boolean and is_boolean(found)):
            return both(value, found, decisive)

    def second() -> Any:
        found = other()
        return as_tensor(truth(found), torch.bool) if boolean and is_boolean(found) else found

    def first() -> Any:
        return torch.full((), decisive) if boolean else value

    asked = as_tensor(truth(value))
    return choose(asked, first, second) if decisive else choose(asked, second, first)


def both(one: Any, other: Any, decisive: bool) -> Any:
    """One value and, or or, another, where data tells the first."""
    if is_plain(other) and is_boolean(one):
        return decisive if other == decisive else one
    boolean = is_boolean(one) and is_boolean(other)
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    if not boolean and tensors and one.dtype is other.dtype and one.dim() == other.dim() == 0:
        return torch.where(truth(one), one, other) if decisive else torch.where(truth(one), other, one)
    if isinstance(one, torch.SymBool) and isinstance(other, torch.SymBool):
        return (one | other) if decisive else (one & other)
    function = torch.logical_or if decisive else torch.logical_and
    return function(as_tensor(truth(one), torch.bool), as_tensor(truth(other), torch.bool))


def is_plain(value: Any) -> bool:
    """Whether a value is a truth value of Python's own."""
    return type(value) is bool


def is_boolean(value: Any) -> bool:
    """Whether a value is a truth value."""
    return isinstance(value, bool | torch.SymBool) or (isinstance(value, torch.Tensor) and value.dtype is torch.bool)


def chain(names: tuple[str, ...], first: Any, second: Any, *rest: Callable[[], Any]) -> Any:
    """first < second < rest[0]() ..."""
    found = OPERATORS[names[0]](first, second)
    left = second
    for name, each in zip(names[1:], rest, strict=True):
        if not is_open(found):
            if not found:
                return found
            right = each()
            found = OPERATORS[name](left, right)
        else:
            right = each()
            found = both(found, OPERATORS[name](left, right), False)
        left = right
    return found


def assert_(test: Any, message: Callable[[], Any] | None = None) -> None:
    """assert test, message: of data, a condition that the program keeps"""
    if not is_open(test):
        if not test:
            raise AssertionError(*([] if message is None else [message()]))
        return
    text = "the model asserts it" if message is None else str(message())
    asked = truth(test)
    if isinstance(asked, torch.SymBool):
        torch._check(asked, lambda: text)
    else:
        torch.ops.aten._assert_async.msg(asked, text)


# ---------------------------------------------------------------------------------------------- functions


def traceable(function: Any) -> Any:
    """The same function, or one that does it for tensors whose content only data tells."""
    method = getattr(function, "__self__", None)
    if isinstance(method, torch.Size):
        return partial(number_of_elements, method) if function.__name__ == "numel" else function
    if isinstance(method, Array):
        return partial(open_tolist, method.tensor) if function.__name__ == "tolist" else function
    if isinstance(method, torch.Tensor):
        return METHODS[function.__name__](method) if function.__name__ in METHODS else function
    try:
        return FUNCTIONS.get(function, function)
    except TypeError:  # not hashable
        return function


def number_of_elements(shape: torch.Size) -> Any:
    """shape.numel()"""
    return reduce(operator.mul, shape, 1)


def bool_(value: Any = False) -> Any:
    """bool(value)"""
    return truth(value) if is_open(value) else bool(value)


def kind_error() -> CaptureError:
    """The error for a model that asks whether something is a number or a tensor."""
    return CaptureError(
        "the model asks whether a value is a number or a tensor, and it is one where a condition on data holds, and "
        "the other where it does not",
        source=user_line(),
        hint="make it a tensor on both ways: torch.zeros(()) in place of 0",
    )


def asked_kind(ask: Callable[..., bool]) -> Callable[..., bool]:
    """isinstance, hasattr or torch.is_tensor; of what is a number on one way of a branch on data, and a tensor on the
    other, it is answered where all numbers give the answer that a tensor gives."""

    def asked(value: Any, *kinds: Any) -> bool:
        found = ask(value, *kinds) or (type(value) in PLAIN and ask(PLAIN[type(value)](), *kinds))
        if may_be_number(value) and any(ask(number, *kinds) != found for number in (0, 0.0, False)):
            raise kind_error()
        return found

    return asked


def type_(value: Any) -> type:
    """type(value); of a number that data or sizes tell, what it is in eager"""
    if may_be_number(value):
        raise kind_error()
    return type_in(sys._getframe(1).f_globals, value)


def any_(values: Any) -> Any:
    """any(values)"""
    values = truths_of(values)
    return values.any() if isinstance(values, torch.Tensor) and values.dim() == 1 else folded(values, True)


def all_(values: Any) -> Any:
    """all(values)"""
    values = truths_of(values)
    return values.all() if isinstance(values, torch.Tensor) and values.dim() == 1 else folded(values, False)


def truths_of(values: Any) -> Any:
    """The elements of a list whose length varies as one tensor; anything else as it is."""
    return values.gathered(torch.bool) if isinstance(values, GrownList) else values


def folded(values: Iterable[Any], decisive: bool) -> Any:
    """any(values), or all(values) where False decides."""
    found: Any = not decisive
    for each in values:
        if not is_open(found) and bool(found) is decisive:
            return decisive
        found = each if not is_open(found) else both(found, each, decisive)
    return truth(found) if is_open(found) else bool(found)


def extreme_by(function: Any, greatest: bool) -> Any:
    """max or min, by a function that gives it of numbers that nobody needs to compute."""

    def found(*values: Any, **named: Any) -> Any:
        return extreme(function, greatest, values, named)

    return found


def extreme(function: Any, greatest: bool, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """max or min, of tensors as of numbers."""
    if len(values) == 1 and isinstance(values[0], GrownList) and not named:
        return values[0].extreme(greatest)
    every = list(values[0]) if len(values) == 1 else list(values)
    if named or not any(map(is_open, every)):
        return function(every, **named)
    found = every[0]
    for each in every[1:]:
        if isinstance(found, torch.Tensor) or isinstance(each, torch.Tensor):
            a, b = beside(found, each), beside(each, found)
            if a.numel() != 1 or b.numel() != 1:
                raise CaptureError(
                    f"{'max' if greatest else 'min'} compares tensors of more than one element",
                    source=user_line(),
                    hint="use torch.maximum or torch.minimum",
                )
            found = torch.where(b > a if greatest else b < a, b, a)
        else:
            found = torch.sym_max(found, each) if greatest else torch.sym_min(found, each)
    return found


def beside(value: Any, other: Any) -> torch.Tensor:
    """A number as a tensor, of the type of a tensor that it is compared with where that holds it."""
    number = isinstance(other, torch.Tensor) and not isinstance(value, torch.Tensor)
    return as_tensor(value, other.dtype if number and fits(value, other.dtype) else None)


def equal(a: Any, b: Any) -> Any:
    """torch.equal(a, b)"""
    if not is_open(a) and not is_open(b):
        return torch.equal(a, b)
    return a.shape == b.shape and (a == b).all()


def allclose(*args: Any, **kwargs: Any) -> Any:
    """torch.allclose(a, b, ...)"""
    return torch.isclose(*args, **kwargs).all() if any(map(is_open, args[:2])) else torch.allclose(*args, **kwargs)


def is_nonzero(value: Any) -> Any:
    """torch.is_nonzero(value)"""
    return truth(value) if is_open(value) else torch.is_nonzero(value)


FUNCTIONS: dict[Any, Any] = {
    bool: bool_, any: any_, all: all_, max: extreme_by(max, True), min: extreme_by(min, False), range: open_range,
    enumerate: open_enumerate, zip: open_zip, reversed: open_reversed, pairwise: open_pairwise, len: open_len,
    torch.equal: equal,
    torch.allclose: allclose, type: type_, isinstance: asked_kind(isinstance), hasattr: asked_kind(hasattr),
    torch.is_tensor: asked_kind(torch.is_tensor), torch.is_nonzero: is_nonzero, torch.unbind: open_unbind,
    torch.split: open_split, map: open_map, kept_sizes.length: partial(open_len, plain=kept_sizes.length),
    kept_sizes.greatest: extreme_by(kept_sizes.greatest, True),
    kept_sizes.smallest: extreme_by(kept_sizes.smallest, False),
}  # fmt: skip
METHODS: dict[str, Callable[[Any], Any]] = {
    "equal": lambda own: lambda other: equal(own, other),
    "allclose": lambda own: lambda *args, **kwargs: allclose(own, *args, **kwargs),
    "is_nonzero": lambda own: lambda: is_nonzero(own),
    "tolist": lambda own: partial(open_tolist, own),
    "unbind": lambda own: partial(open_unbind, own),
    "split": lambda own: partial(open_split, own),
}
