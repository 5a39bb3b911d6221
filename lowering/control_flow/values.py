"""What the values of a model are while it is captured: whether only data tells them, and what two ways make of one.

A `Slot` is what one variable holds: the structure of it, and for each leaf whether it is a tensor, a number that data
tells, or a constant. Two branches, or a loop before and after a round, are brought to one list of slots.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import torch

from lowering.direct.functions.mixed_kinds import may_be_number, note_number
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError
from lowering.records.disguised_lists import Disguised, disguise, undisguise
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import short_path
from lowering.records.torch_internals import FakeTensor, FunctionalTensor, pytree

HERE = f"{Path(__file__).parents[1]}{os.sep}"
TORCH = f"{Path(torch.__file__).parent}{os.sep}"
NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Undefined:
    """What a variable holds that has no value: reading it is an error, as it is in Python."""

    def __init__(self, name: str, why: str = "") -> None:
        self.name, self.why = name, why

    def error(self) -> Exception:
        """What reading it raises."""
        if self.why:
            return CaptureError(f"{self.name} {self.why}", source=user_line(), hint=f"give {self.name} a value before")
        return UnboundLocalError(f"cannot access local variable {self.name!r} where it is not associated with a value")


class Maybe(NamedTuple):
    """What a variable holds that has a value on some ways only: the value, or zeros; and a tensor that says which."""

    value: Any
    flag: Any


class Unset(Undefined):
    """What a variable of the rewriting holds that nobody reads before it has a value."""


def user_line() -> str:
    """The line of the user's that is being run: `model.py:12 if x:`."""
    import linecache

    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((HERE, TORCH, "<")):
            text = linecache.getline(file, frame.f_lineno).strip()
            return f"{short_path(file)}:{frame.f_lineno} {text}"
        frame = frame.f_back
    return ""


def unwritten(element: torch.Tensor) -> torch.Tensor:
    """A part of a tensor, or of a list, that a loop goes over: a copy, where the model has the part itself, so that it
    refuses to be written."""
    if type(element) is Traced:
        element.handle.memory.doubtful.append(refuse_write)
    return element


def refuse_write() -> None:
    """Raises CaptureError: the model would find what is written in what the loop goes over."""
    raise CaptureError(
        "a loop writes into an element of what it goes over, where a size that varies or data tells how often",
        source=user_line(),
        hint="write into the tensor by the number of the round, x[i] = y, or append what is made to a list",
    )


# ---------------------------------------------------------------------------------------------- what data tells


def is_open(value: Any) -> bool:
    """Whether only data tells what a value is, in a model that is being captured."""
    if type(value) is Traced:
        return not value.tracer.is_constant(value.tracer.read(value.handle))
    if isinstance(value, NUMBERS):
        return is_of_data(value)
    return isinstance(value, FakeTensor) or (isinstance(value, torch.Tensor) and is_functional(value))


def is_functional(value: torch.Tensor) -> bool:
    """Whether a tensor is one of those by which torch.export traces."""
    return isinstance(value, FunctionalTensor)


def is_of_data(number: Any) -> bool:
    """Whether a symbolic number hangs on more than sizes: on what a tensor holds."""
    node = number.node
    symbols = getattr(node.expr, "free_symbols", ())
    return any(is_unbacked(s.name) or s.name.startswith("zuf") for s in symbols)


def is_symbolic(number: Any) -> bool:
    """Whether a size or a number varies."""
    if isinstance(number, NUMBERS):
        node = number.node
        return bool(getattr(node.expr, "free_symbols", ())) if isinstance(node, SizeNode) else not node.is_constant()
    return False


class OpenList(list[Any], ABC):
    """A list of which only data tells how many elements it has."""

    @property
    @abstractmethod
    def length(self) -> Any:
        """How many these are."""


def decider(value: Any) -> Any:
    """What decides where a value is a test: the length of a list that grows, or the value."""
    return value.length if isinstance(value, OpenList) else value


def truth(value: Any) -> Any:
    """A value as a test: a boolean tensor without dimensions, a symbolic boolean, or a bool."""
    if isinstance(value, torch.Tensor) and is_open(value):
        if value.dim():
            if value.numel() != 1:
                raise CaptureError(
                    "the truth of a tensor of more than one element is asked",
                    source=user_line(),
                    hint="write x.any() or x.all()",
                )
            value = value.reshape(())
        return value if value.dtype is torch.bool else value != 0
    if isinstance(value, torch.SymBool):
        return value
    if isinstance(value, NUMBERS):
        return value != 0
    return bool(Moved.followed(value))


def as_tensor(value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A number that may be symbolic as a tensor without dimensions."""
    if isinstance(value, torch.Tensor):
        return value if dtype is None or value.dtype is dtype else value.to(dtype)
    if isinstance(value, torch.SymBool):
        value = torch.ops.higher_order.cond(
            value, lambda: (torch.ones((), dtype=torch.bool),), lambda: (torch.zeros((), dtype=torch.bool),), ()
        )[0]
        return value if dtype is None else value.to(dtype)
    return torch.full((), value, dtype=dtype or DTYPE_OF[kind_of(value)])


DTYPE_OF = {bool: torch.bool, int: torch.int64, float: torch.float64}


def kind_of(value: Any) -> type:
    """bool, int or float, for a number that may be symbolic."""
    for kind, symbolic in ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat)):
        if type(value) is kind or isinstance(value, symbolic):
            return kind
    raise TypeError(f"{type(value).__name__} is no number")


def is_number(value: Any) -> bool:
    """Whether a value is a Python number, or a symbolic one."""
    return type(value) in (bool, int, float) or isinstance(value, NUMBERS)


# ---------------------------------------------------------------------------------------------- slots


@attrs.frozen(eq=False)
class Outer:
    """A tensor or number of the model around a body, which the body left as it is."""

    original: Any
    inside: Any


@attrs.frozen
class Leaf:
    """What becomes of one leaf: it is a `tensor` of a type, a number (`int`, `float`, `bool`) that data tells, or a
    `constant`. `mixed` says of a tensor that it is a number in eager on one of the ways."""

    kind: str
    dtype: torch.dtype | None = None
    rank: int = 0
    value: Any = attrs.field(default=None, eq=id)
    shape: Any = attrs.field(default=None, eq=False)
    mixed: bool = False


@attrs.frozen
class Slot:
    """What a variable holds, by its leaves; `spec` is None where it has no value. `maybe` says that it has one on some
    ways only, and that a flag tells on which."""

    spec: Any
    leaves: tuple[Leaf, ...] = ()
    maybe: bool = False

    @property
    def dynamic(self) -> tuple[Leaf, ...]:
        """The leaves that are results, the flag among them."""
        return (*(each for each in self.leaves if each.kind != "constant"), *([Leaf("bool")] if self.maybe else []))


def leaves_of(value: Any) -> tuple[list[Any], Any]:
    """(leaves, structure) of what a variable holds; an undefined one has no structure."""
    if isinstance(value, Undefined):
        return [], None
    if isinstance(value, Outer):
        return [value], LEAF
    leaves, spec = pytree.tree_flatten(value, is_leaf=lambda each: isinstance(each, Outer | Undefined))
    return leaves, spec


LEAF = pytree.tree_flatten(0)[1]


def bare(leaf: Any) -> Any:
    """A leaf as a body sees it."""
    return leaf.inside if isinstance(leaf, Outer) else leaf


def leaf_of(leaf: Any, varying: bool) -> Leaf:
    """What one value of a leaf says of it; a number varies where it is that of a loop."""
    value = bare(leaf)
    if isinstance(value, torch.Tensor):
        if isinstance(leaf, Outer) and not varying:
            return Leaf("constant", value.dtype, value.dim(), leaf.original, tuple(value.shape))
        return Leaf("tensor", value.dtype, value.dim(), shape=tuple(value.shape), mixed=is_mixed(leaf))
    if is_number(value):
        symbolic = isinstance(value, NUMBERS) and is_symbolic(value)
        if varying or (symbolic and not isinstance(leaf, Outer)):
            return Leaf(kind_of(value).__name__)
        return Leaf("constant", value=leaf.original if isinstance(leaf, Outer) else value)
    return Leaf("constant", value=value)


def is_mixed(leaf: Any) -> bool:
    """Whether a tensor is a number in eager on one way."""
    return may_be_number(leaf.original if isinstance(leaf, Outer) else leaf)


def slot_of(value: Any, varying: bool = False) -> Slot:
    """What one value of a variable says of it."""
    if isinstance(value, Maybe):
        return attrs.evolve(dynamic(value.value), maybe=True)
    leaves, spec = leaves_of(value)
    return Slot(spec, tuple(leaf_of(each, varying) for each in leaves))


def merged_slot(name: str, one: Any, other: Any, where: tuple[str, str]) -> Slot:
    """What a variable is that holds one value or another. Raises CaptureError where no type fits both; `where` says in
    words when it is which."""
    held = [each for each in (one, other) if not isinstance(each, Undefined)]
    values = [each.value if isinstance(each, Maybe) else each for each in held]
    if not values:
        return Slot(None)
    if len(values) == 1:
        internal = isinstance(one, Unset) or isinstance(other, Unset)
        return attrs.evolve(dynamic(values[0]), maybe=not internal or isinstance(held[0], Maybe))
    if any(isinstance(each, Maybe) for each in held):
        slot = merged_slot(name, values[0], values[1], where)
        return attrs.evolve(slot, maybe=True)
    (ones, spec), (others, second) = leaves_of(one), leaves_of(other)
    if spec != second:
        raise mismatch(name, shape_text(one), shape_text(other), where)
    found = [merged_leaf(name, a, b, where) for a, b in zip(ones, others, strict=True)]
    return Slot(spec, tuple(found))


def dynamic(value: Any) -> Slot:
    """What a variable is that holds this value, or nothing that is read."""
    leaves, spec = leaves_of(value)
    found = [leaf_of(each, True) for each in leaves]
    return Slot(spec, tuple(found))


def merged_leaf(name: str, one: Any, other: Any, where: tuple[str, str]) -> Leaf:
    """What one leaf is that has one value or another."""
    a, b = bare(one), bare(other)
    if isinstance(one, Outer) and isinstance(other, Outer) and one.original is other.original:
        return leaf_of(one, False)
    tensors = [each for each in (a, b) if isinstance(each, torch.Tensor)]
    if len(tensors) == 2:
        if a.dtype is not b.dtype or a.dim() != b.dim() or not shapes_fit(a.shape, b.shape):
            raise mismatch(name, type_text(a), type_text(b), where)
        return Leaf("tensor", a.dtype, a.dim(), shape=tuple(a.shape), mixed=is_mixed(one) or is_mixed(other))
    if len(tensors) == 1:
        number = b if tensors[0] is a else a
        if not is_number(number) or tensors[0].dim() or not fits(number, tensors[0].dtype):
            raise mismatch(name, shape_text(a), shape_text(b), where)
        return Leaf("tensor", tensors[0].dtype, 0, shape=(), mixed=True)
    if is_number(a) and is_number(b):
        if type(a) is type(b) and not isinstance(a, NUMBERS) and (a == b or a != a):
            return Leaf("constant", value=a)
        kinds = {kind_of(a), kind_of(b)}
        if bool in kinds and len(kinds) > 1:
            raise mismatch(name, repr(a), repr(b), where)
        return Leaf("float" if float in kinds else "int" if int in kinds else "bool")
    if a is b or (type(a) is type(b) and type(a) in PLAIN and a == b):
        return Leaf("constant", value=a)
    raise mismatch(name, shape_text(a), shape_text(b), where)


PLAIN = (str, bytes, type(None), torch.dtype, torch.device, torch.Size, slice, type(...))


def shapes_fit(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are equal, or hang on sizes that may be."""
    return all(
        a == b for a, b in zip(one, other, strict=True) if type(a) is int and type(b) is int
    )  # symbolic ones become a size of their own


def fits(number: Any, dtype: torch.dtype) -> bool:
    """Whether a number is one of an element type."""
    kind = kind_of(number)
    if kind is bool:
        return dtype is torch.bool
    return dtype.is_floating_point or (kind is int and dtype is not torch.bool and not dtype.is_complex)


class Mismatch(CaptureError):
    """A variable is of two types."""


class Absent(Mismatch):
    """A variable has a value on one way, and is None on the other."""


class Grows(Mismatch):
    """A list is longer on one way of a branch, which a loop around it may follow: `held` is the list."""

    held: Any = None

    @classmethod
    def of(cls, told: Mismatch, held: Any) -> Grows:
        """What is told, of a list."""
        found = cls(told.what, source=told.source, hint=told.hint)
        found.held = held
        return found


def mismatch(name: str, one: str, other: str, where: tuple[str, str]) -> Mismatch:
    """The error for a variable that is of two types."""
    what = name or "the result"
    kind = Absent if "None" in (one, other) else Mismatch
    return kind(
        f"{what} is {one} {where[0]}, and {other} {where[1]}",
        source=user_line(),
        hint="make both of one structure, element type and rank; or leave this function out: "
        "rewrite=[functions] rewrites only those that it names",
    )


def type_text(value: torch.Tensor) -> str:
    """The type of a tensor: `float32[3, n]`."""
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def shape_text(value: Any) -> str:
    """What a value is, in a few words."""
    value = bare(value)
    if isinstance(value, torch.Tensor):
        return type_text(value)
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value) if type(value) in (*PLAIN, bool, int, float) else f"a {type(value).__name__}"


# ---------------------------------------------------------------------------------------------- results


def outputs(value: Any, slot: Slot) -> Iterator[torch.Tensor]:
    """The tensors that say what a variable holds, of the types of its slot."""
    if slot.spec is None:
        return
    if slot.maybe:
        flag = bare(value.flag) if isinstance(value, Maybe) else not isinstance(value, Undefined)
        yield from outputs(value.value if isinstance(value, Maybe) else value, attrs.evolve(slot, maybe=False))
        yield flag.clone() if isinstance(flag, torch.Tensor) else torch.full((), flag)
        return
    leaves, spec = leaves_of(value)
    if spec is None:
        yield from (zeros(each) for each in slot.dynamic)
        return
    for leaf, kind in zip(leaves, slot.leaves, strict=True):
        if kind.kind == "constant":
            continue
        held = bare(leaf)
        if kind.kind == "tensor":
            if isinstance(held, torch.Tensor):
                yield as_real(held.clone() if isinstance(leaf, Outer) else held)
            elif kind.rank:
                yield as_real(torch.full(kind.shape, held, dtype=kind.dtype))
            else:
                yield as_real(as_tensor(held, kind.dtype))
        else:
            yield as_tensor(held, DTYPE_OF[{"int": int, "float": float, "bool": bool}[kind.kind]])


def zeros(leaf: Leaf) -> torch.Tensor:
    """A tensor for a variable that nobody reads yet: empty where data tell its sizes, which may be those of a body."""
    if leaf.kind == "tensor":
        shape: Any = [0 if isinstance(size, NUMBERS) and is_of_data(size) else size for size in leaf.shape]
        return as_real(torch.zeros(shape, dtype=leaf.dtype))
    return torch.zeros((), dtype=DTYPE_OF[{"int": int, "float": float, "bool": bool}[leaf.kind]])


def rebuilt(slot: Slot, tensors: Iterator[torch.Tensor], undefined: Callable[[], Undefined]) -> Any:
    """What a variable holds, out of the tensors that say so."""
    if slot.spec is None:
        return undefined()
    leaves = [each.value if each.kind == "constant" else number_of(next(tensors), each) for each in slot.leaves]
    value = pytree.tree_unflatten(leaves, slot.spec)
    return Maybe(value, next(tensors)) if slot.maybe else value


def number_of(tensor: torch.Tensor, leaf: Leaf) -> Any:
    """A tensor, or the number in it; a truth stays a tensor."""
    return tensor.item() if leaf.kind in ("int", "float") else whole_of(tensor, leaf)


def whole_of(tensor: torch.Tensor, leaf: Leaf) -> torch.Tensor:
    """A tensor that came out of a body, which gives a complex one as pairs of real numbers."""
    if leaf.mixed:
        note_number(tensor)
    return as_complex(tensor) if leaf.dtype is not None and leaf.dtype.is_complex else tensor


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it goes into a body and out of it: a complex one as pairs of real numbers."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def as_complex(tensor: torch.Tensor) -> torch.Tensor:
    """What `as_real` was made of a complex tensor."""
    return tensor if tensor.is_complex() else torch.view_as_complex(tensor)


def known_element(stacked: torch.Tensor) -> list[Any] | None:
    """The number that each element of a tensor is, where that is one of the model's own, expanded; None otherwise."""
    if type(stacked) is not Traced or stacked.dim() != 1:
        return None
    value = stacked.tracer.read(stacked.handle)
    while value.op in ("Expand", "Identity") and value.inputs[0] is not None:
        value = value.inputs[0]
    if not stacked.tracer.is_constant(value):
        return None
    example = stacked.tracer.example(value)
    return [example.reshape(()).item()] if example.size == 1 else None


# ---------------------------------------------------------------------------------------------- other names


def grown_elsewhere(kind: str, does: str, name: str) -> CaptureError:
    """The error for a list or dict that a loop changes, and that is used by another name."""
    return CaptureError(
        f"the {kind} {name!r} {does} in a loop or branch on data, and is used by another name, which does not",
        source=user_line(),
        hint="use the name by which it grows, and return it from the function that does that",
    )


class Moved:
    """What stands in a list that grows in a loop on data, for names other than the loop's. In the loop it refuses all;
    behind it it knows what the list became, which answers for the list then. `holder` is the list."""

    def __init__(self, name: str, holder: Any) -> None:
        self.__dict__.update(name=name, holder=holder, became=None)

    @staticmethod
    def leave(held: Any, name: str) -> Moved | None:
        """Puts it into a list, or for each value into a dict."""
        if type(held) is dict:
            held.update(dict.fromkeys(held, Moved(name, held)))
        if not isinstance(held, list):
            return None
        made = Moved(name, held)
        list.__setitem__(held, slice(None), [made])
        disguise(held)
        return made

    @property
    def is_alone(self) -> bool:
        """Whether the list is as it was left: nobody changed it by another name."""
        holder = self.__dict__["holder"]
        return isinstance(holder, dict) or [*map(id, list.__iter__(holder))] == [id(self)]

    @staticmethod
    def followed(given: Any) -> Any:
        """What a list became that a loop made grow; anything else as it is."""
        plain = type(given) in (list, Disguised)
        found = next((each for each in list.__iter__(given) if type(each) is Moved), None) if plain else None
        return given if found is None else found.answering(given)

    def answering(self, given: Any) -> Any:
        """What answers for the list in which it stands."""
        became = self.__dict__["became"]
        return self.refused() if became is None or self.is_elsewhere(given) else became

    def is_elsewhere(self, given: Any) -> bool:
        """Whether it stands in another list than the one that it was left in, or not alone."""
        return self.__dict__["holder"] is not given or not self.is_alone

    def refused(self, *_: Any, **__: Any) -> Any:
        """Raises CaptureError."""
        known = self.__dict__
        kind, does = ("dict", "changes") if type(known["holder"]) is dict else ("list", "grows")
        raise grown_elsewhere(kind, does, known["name"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch gives of the lists that these became."""
        new = [cls.followed(each) for each in args], {key: cls.followed(each) for key, each in (kwargs or {}).items()}
        left = next((each for each in pytree.tree_leaves(new) if isinstance(each, cls)), None)
        return left.refused() if left is not None else func(*new[0], **new[1])

    __getattr__ = __getitem__ = __iter__ = __len__ = __bool__ = __add__ = __radd__ = __mul__ = __rmul__ = refused
    __eq__ = __lt__ = __gt__ = __sub__ = __rsub__ = __int__ = __index__ = __float__ = __call__ = refused


@contextmanager
def set_aside(holders: Sequence[tuple[Any, str]]) -> Iterator[None]:
    """A block in which lists and dicts that a loop changes refuse to be used by another name than the loop's, since
    they hold then what they held before it."""
    before = [(holder, holder.copy() if type(holder) is dict else [*list.__iter__(holder)]) for holder, _ in holders]
    plain = [holder for holder, _ in holders if type(holder) is list]
    try:
        left = [Moved.leave(*each) for each in holders]
        yield
        for each in left:
            if each is not None and not each.is_alone:
                each.refused()
    finally:
        for holder, held in before:
            if type(holder) is dict:
                holder.clear()
                holder.update(held)
            else:
                list.__setitem__(holder, slice(None), held)
        undisguise(*plain)
