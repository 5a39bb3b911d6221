"""What shows that a rule is wrong: both sides under shared names, what they are fed, what they give, and where that
differs; as text, and as Python to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.checking.comparison import compare
from irkit.checking.draws import assignment
from irkit.core.ir import Graph, Port, Signature, Value
from irkit.core.printer import large_blobs, value_names
from irkit.core.types import DType, Tensor
from irkit.core.walk import post_order
from irkit.errors import RewriteError, indent
from irkit.evaluation.kernels.common import Content, is_array
from irkit.rewriting.type_checks import SAME_TYPE

MANY = 60
"""More elements than this are shown as numpy shows them."""

BROADCASTS = (
    'where something broadcasts, the left side has another type: return decline("it broadcasts") where m.root has '
    "another shape than what you build, or say more of the holes: rank=, shape=, dtype="
)
MAY_BE_NONE = (
    "blob is None for what is no constant, its `uniform` where the numbers differ or are NaN, and an optional part "
    "that is left out is None: ask first, and return decline('why')"
)
ROUNDS = "say exact=False where the equation is one of real numbers, so that the last bits may differ"
OTHER_NUMBERS = "these are other numbers, not the same ones rounded in another way: mend the right side"
DIGITS = (
    "an attribute of ONNX holds a float32, and an f64 has more digits: give the number as an operand, or say "
    'dtype=("f16", "bf16", "f32") of what it is computed with'
)
LETS_THROUGH = (
    "the pattern lets this left side through: return decline('why') there, or say more of the holes: rank=, shape=, "
    "dtype=, where="
)


@attrs.frozen(eq=False)
class Case:
    """One instance on which a rule is wrong.

    Attributes:
        rule: its name.
        kind: what is wrong: "numbers", "runtime" (on ONNX Runtime), "types", "fails".
        why: in words.
        left: the values that the rule replaces, one for each result.
        right: what it made of them; () where it made nothing.
        params: the parameters, and `names` for them.
        arrays: what each is fed; None where the types already differ.
        expected: what the left side gives, and `actual` the right one; None where that is not the matter.
        index: the first place that differs: the number of the result, and the place in it.
    """

    rule: str
    kind: str
    why: str
    left: tuple[Value, ...]
    right: tuple[Value, ...]
    params: tuple[Value, ...]
    names: Mapping[Value, str] = MappingProxyType({})
    arrays: tuple[Content, ...] | None = None
    expected: tuple[Content, ...] | None = None
    actual: tuple[Content, ...] | None = None
    index: tuple[int, tuple[int, ...]] | None = None

    def same_element_types(self) -> bool:
        """Whether each result is, on both sides, a tensor of one element type."""
        pairs = [(a.type, b.type) for a, b in zip(self.left, self.right, strict=False)]
        return all(isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is b.dtype for a, b in pairs)

    def loses_digits(self) -> bool:
        """Whether what the right side adds makes numbers of 64 bits with an attribute, which holds 32."""
        before = set(post_order((*self.params, *self.left)))
        added = (v for v in post_order(self.right) if v not in before)
        wide = (v for v in added if isinstance(v.type, Tensor) and v.type.dtype in (DType.DOUBLE, DType.COMPLEX128))
        return any(isinstance(held, float) for v in wide for _, held in v.attributes)

    def is_close(self) -> bool:
        """Whether both sides give the same within the tolerances of `irkit.compare`."""
        return self.expected is not None and self.actual is not None and compare(self.expected, self.actual) is None

    def graph(self) -> Graph:
        """Both sides as one graph: the results of the left one, then those of the right one."""
        results = (*self.left, *self.right)
        reached = set(post_order(results))
        params = tuple(p for p in self.params if p in reached)
        ports = tuple(Port(name) for name in named(params, self.names))
        ends = tuple(
            Port(f"{side}{i or ''}", "output")
            for side, values in (("left", self.left), ("right", self.right))
            for i in range(len(values))
        )
        return Graph(params, results, signature=Signature(ports, ends), name=self.rule)

    def text(self) -> str:
        """Both sides, line by line: first the left one, then what the right one adds."""
        graph = self.graph()
        names = value_names(graph)
        lines = [line.removeprefix("  ") for line in graph.text().splitlines()[1:-1]]
        lines = lines[: next(i for i, line in enumerate(lines) if line.startswith("return"))]
        before = set(post_order((*graph.params, *self.left)))
        added = next((v for v in graph.order if v not in before), None)
        cut = len(lines)
        if added is not None:
            cut = next(i for i, line in enumerate(lines) if line.startswith(f"{names[added]}:"))
        found = [*lines[:cut], f"left:  {', '.join(names[v] for v in self.left)}"]
        if self.right:
            found += [*lines[cut:], f"right: {', '.join(names[v] for v in self.right)}"]
        return "\n".join(found)

    def sizes(self) -> str:
        """The numbers that the symbols stand for: "n = 2, m = 1"."""
        if self.arrays is None:
            return ""
        given = dict(zip(self.params, self.arrays, strict=True))
        found = assignment(self.params, np.random.default_rng(0), given)
        symbols = sorted(
            {s for p in self.params if isinstance(p.type, Tensor) for d in p.shape for s in dims.symbols_of(d)}, key=str
        )
        return ", ".join(f"{s} = {found[dims.label(s)]}" for s in symbols if dims.label(s) in found)

    def numbers(self) -> str:
        """What is fed, and what both sides give."""
        if self.arrays is None:
            return ""
        lines = [f"sizes: {self.sizes()}"] if self.sizes() else []
        names = named(self.params, self.names)
        reached = set(post_order((*self.left, *self.right)))
        lines += [
            f"%{name} = {shown(array)}"
            for p, name, array in zip(self.params, names, self.arrays, strict=True)
            if p in reached
        ]
        where = "on ONNX Runtime " if self.kind == "runtime" else ""
        if self.expected is not None:
            lines.append(f"the left side gives  {', '.join(map(shown, self.expected))}")
        if self.actual is not None:
            lines.append(f"the right side {where}gives {', '.join(map(shown, self.actual))}")
        if self.index is not None and self.expected is not None and self.actual is not None:
            number, place = self.index
            which = f" of result {number}" if len(self.left) > 1 else ""
            a, b = (np.asarray(side[number])[place] for side in (self.expected, self.actual))
            at = f"at {list(place)}" if place else "in the only element"
            lines.append(f"they differ first {at}{which}: {element(a)} and {element(b)}")
        return "\n".join(lines)

    def python(self) -> str:
        """A program that shows the difference; it needs irkit and numpy."""
        graph = self.graph()
        names = [port.name for port in graph.signature.params]
        lines = ["import numpy as np", "", "import irkit", "", 'both = irkit.parse(r"""', graph.text()]
        lines.append(f'"""{self._blobs(graph)})')
        if self.arrays is None:
            lines.append("for result, port in zip(both.results, both.signature.results):")
            return "\n".join([*lines, "    print(port.name, result.type)"])
        given = dict(zip(self.params, self.arrays, strict=True))
        lines.append("inputs = {")
        lines += [f"    {name!r}: {source(given[p])}," for name, p in zip(names, graph.params, strict=True)]
        lines.append("}")
        count = len(self.left)
        if self.actual is None:
            return "\n".join([*lines, *self._sides(count)])
        lines.append("found = irkit.evaluate(both, inputs)")
        if self.kind == "runtime":
            lines += ["from irkit.checking.agreement import run", "there = run(both, list(inputs.values()))"]
        right = "there" if self.kind == "runtime" else "found"
        lines += [f'print("left: ", *found[:{count}])', f'print("right:", *{right}[{count}:])']
        return "\n".join(lines)

    @staticmethod
    def _sides(count: int) -> list[str]:
        """The end of a program whose right side cannot be computed."""
        return [
            f"left, right = both.results[:{count}], both.results[{count}:]",
            'print("left: ", *irkit.evaluate(irkit.Graph(both.params, left), list(inputs.values())))',
            "try:",
            '    print("right:", *irkit.evaluate(irkit.Graph(both.params, right), list(inputs.values())))',
            "except irkit.EvaluateError as error:",
            '    print("right:", error.what)',
        ]

    @staticmethod
    def _blobs(graph: Graph) -> str:
        large = large_blobs(graph)
        if not large:
            return ""
        held = (f"{label.strip(chr(34))!r}: {source(b.array)}" for label, b in large.items())
        return f", {{{', '.join(held)}}}"


class Counterexample(RewriteError):
    """A rule is wrong: its two sides differ on an instance, which `case` holds (see `Case`)."""

    def __init__(self, what: str, *, ir: str = "", source: str = "", hint: str = "", case: Case | None = None) -> None:
        super().__init__(what, ir=ir, source=source, hint=hint)
        self.case = case

    @classmethod
    def of(cls, case: Case) -> Counterexample:
        """The error for a case."""
        case = attrs.evolve(case, arrays=None if case.arrays is None else tuple(map(settled, case.arrays)))
        hint = ""
        if case.kind == "types":
            hint = BROADCASTS if case.same_element_types() else SAME_TYPE
        elif case.kind == "fails":
            hint = MAY_BE_NONE if "None" in case.why else LETS_THROUGH
        elif case.kind == "numbers" and case.loses_digits():
            hint = DIGITS
        elif "is said to be exact" in case.why:
            hint = ROUNDS if case.is_close() else OTHER_NUMBERS
        elif case.kind == "numbers":
            hint = OTHER_NUMBERS
        return cls(f"the rule {case.rule} {case.why}", ir=case.text(), source=case.numbers(), hint=hint, case=case)

    @property
    def python(self) -> str:
        """A program that shows the difference, to be pasted; empty where there is no case."""
        return "" if self.case is None else self.case.python()

    def __str__(self) -> str:
        parts = [self.what, "  in the instance:\n" + indent(self.ir)] if self.ir else [self.what]
        if self.source:
            parts.append("  with\n" + indent(self.source))
        if self.hint:
            parts.append("  try: " + self.hint)
        if self.case is not None:
            parts.append("  as a program:\n" + indent(self.python))
        return "\n".join(parts)


def named(params: Sequence[Value], names: Mapping[Value, str]) -> list[str]:
    """A name for each parameter: its own, or a letter that no other has."""
    taken = {names[p] for p in params if p in names}
    letters = iter([a for a in (*ascii_lowercase, *(f"x{i}" for i in range(len(params)))) if a not in taken])
    return [names[p] if p in names else next(letters) for p in params]


# ---------------------------------------------------------------------------------------------- numbers as text


def settled(array: np.ndarray) -> np.ndarray:
    """A number of numpy's as an array of rank 0; anything else as it is."""
    return np.asarray(array) if isinstance(array, np.generic) else array


def element(number: Any) -> str:
    """One element of an array, as short as it can be told."""
    if is_array(number):
        number = number[()]
    return repr(number) if isinstance(number, str) else str(number)


def shown(array: Content) -> str:
    """An array as nested lists, long ones as numpy shows them; lists of arrays likewise."""
    if isinstance(array, list | tuple):
        return f"[{', '.join(map(shown, cast('list[Content]', array)))}]"
    if not is_array(array):
        return str(array)
    if array.size > MANY:
        return f"{DType.of(array.dtype).short} {list(array.shape)} {np.array2string(array, threshold=20)}".replace(
            "\n", " "
        )
    if not array.size:
        return f"[] of shape {list(array.shape)}"
    return _nested([element(n) for n in array.reshape(-1)], array.shape)


def source(array: Content) -> str:
    """Python that makes the array, bit for bit where it holds no NaN; lists of arrays likewise."""
    if isinstance(array, list | tuple):
        return f"[{', '.join(map(source, cast('list[Content]', array)))}]"
    if not is_array(array):
        return repr(array)
    kind = DType.of(array.dtype)
    plain = array.dtype.kind in "fiubc" and array.dtype.isbuiltin
    name = repr("object" if kind is DType.STRING else array.dtype.name)
    ending = f", {name})" if plain or kind is DType.STRING else f').astype(irkit.DType.of("{kind.short}").numpy)'
    if not array.size:
        inside = f"np.zeros({array.shape}"
        return inside + ending
    return f"np.array({_nested([_literal(n, kind) for n in array.reshape(-1)], array.shape)}{ending}"


def _nested(parts: list[str], shape: tuple[int, ...]) -> str:
    for size in reversed(shape):
        parts = [f"[{', '.join(parts[i : i + size])}]" for i in range(0, len(parts), size)]
    return parts[0]


def _literal(number: Any, kind: DType) -> str:
    if kind is DType.STRING:
        return repr(number)
    if kind is DType.BOOL:
        return str(bool(number))
    if kind.is_integer:
        return str(int(number))
    if kind.is_complex:
        return f"complex({_float(number.real)}, {_float(number.imag)})"
    return _float(number)


def _float(number: Any) -> str:
    wide = float(number)
    if not np.isfinite(wide):
        return {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}[str(wide)]
    return str(number) if type(number) is np.float32 else repr(wide)
