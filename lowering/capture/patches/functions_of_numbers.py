"""`math.sqrt(n)` and `divmod(n, 3)` of numbers that vary, which Python refuses or answers with a plain number."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from lowering.capture.patches.asked_texts import is_of_data
from lowering.capture.patches.replaced import replaced_attributes, replaced_in_classes
from lowering.records.members import tells_by_identity
from lowering.records.real_numbers import by_some, near_in_doubles

NUMBERS = (torch.SymInt, torch.SymFloat)


@contextmanager
def divided_numbers() -> Iterator[None]:
    """A block in which `divmod` takes numbers that vary, and so do `sqrt`, `round`, `log` and `exp` of NumPy, which
    call a method; in which `~n` is a number, `round(n, -1)` rounds to tens, and a truth is a number as Python's is."""
    with replaced_in_classes(IN_CLASSES), replaced_attributes(*LACKED):
        yield


def method_of(number: Any, name: str) -> Any:
    """n.log(), which NumPy calls of objects that are no numbers to it. Raises TypeError where the way of capture
    computes none."""
    made = computed(name, number)
    if made is None:
        raise TypeError(f"a number that varies has no {name} here")
    return made


def nearest_whole(number: Any) -> Any:
    """number.rint(), which NumPy's round calls: of an integer it gives another kind than rint, so that has none."""
    return torch.sym_float(round(number))


def bits_of(n: Any) -> Any:
    """n.bit_length(), where the way of capture computes it; that of the example elsewhere."""
    counted = getattr(n.node, "bit_length", None)
    return int(n.node.guard_int("", 0)).bit_length() if counted is None else counted()


def floored(own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """a // b, or b // a, of numbers one of which is a float: torch rounds a / b, by which 1 // 0.1 is 10, and 9 to
    Python. What is left of a, which is exact, tells."""
    reflected = own.__name__.startswith("__r")

    def quotient(number: Any, other: Any) -> Any:
        a, b = (other, number) if reflected else (number, other)
        whole = [isinstance(each, int | torch.SymInt) for each in (a, b)]
        if all(whole) or not all(isinstance(each, int | float | torch.SymInt | torch.SymFloat) for each in (a, b)):
            return own(number, other)
        constant = not varies(b) and b != 0
        if constant and (math.frexp(b)[0] == 0.5 or (whole[0] and is_short(float(b)))):
            return own(number, other)
        top, bottom = (to_float(each) for each in (a, b))
        return torch.sym_float(round((top - top % bottom) / bottom))

    return quotient


def to_float(number: Any) -> Any:
    """A number as a float."""
    return torch.sym_float(number)


def is_short(number: float) -> bool:
    """Whether a float has so few digits that the quotient of an integer is never rounded up to a whole number."""
    return abs(number) < SHORT and (number * SHORT).is_integer()


SHORT = 1024.0


def power_within(n: Any, exponent: Any, modulus: Any = None) -> Any:
    """pow(n, exponent, modulus) of an integer."""
    if modulus is None:
        return OWN_POWER(n, exponent)
    if type(exponent) is not int or not 0 <= exponent <= MOST_FACTORS:
        return NotImplemented
    made = 1
    for _ in range(exponent):
        made = made * n % modulus
    return made % modulus


OWN_POWER = torch.SymInt.__pow__
MOST_FACTORS = 8
"""Of so many factors a remainder is still a dimension to read."""


def rounded_whole(n: Any, digits: int | None = None) -> Any:
    """round(n, digits) of an integer: to a multiple of ten, a hundred, ..., of two equally near ones the even."""
    if digits is None or digits >= 0:
        return n
    unit = 10**-digits
    nearest = (2 * n + unit) // (2 * unit)
    tied = 1 - torch.sym_min((2 * n + unit) % (2 * unit), 1)
    return unit * (nearest - tied * (nearest % 2))


# ---- truths, which are numbers to Python


def is_truth(value: Any) -> bool:
    """Whether a value is a truth, of Python's or one that sizes and data tell."""
    return type(value) in (bool, torch.SymBool)


def as_number(value: Any) -> Any:
    """A truth as the 0 or 1 that it is for the example, which is kept as a condition, and a number of a class of its
    own (`enum.IntEnum`) as the plain one that it is: torch takes none for equal to it. Others as they are."""
    if type(value) in PLAIN:
        return value
    if is_truth(value):
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, np.generic | torch.SymInt | torch.SymFloat):
        return (int.__int__ if isinstance(value, int) else float.__float__)(value)  # type: ignore[arg-type]
    return value


PLAIN = frozenset((int, float, torch.SymInt, torch.SymFloat))


def beside_complex(own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`==` or `!=`, which Python answers of a complex number by its real part, where it has no other."""

    def handed_on(number: Any, other: Any) -> Any:
        return own(number, other.real if type(other) is complex and other.imag == 0 else other)

    return handed_on


def beside_truths(own: Callable[..., Any]) -> Callable[..., Any]:
    """A method of numbers that takes a truth for what it is to Python: sympy has no arithmetic of truths, and takes
    none for equal to a number."""

    def handed_on(number: Any, other: Any, *more: Any) -> Any:
        return own(number, as_number(other), *more)

    return handed_on


def told_as_asked(own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A relation, which is Python's own truth in code that asks whether something `is True`."""

    def handed_on(number: Any, other: Any) -> Any:
        made = own(number, other)
        return bool(made) if isinstance(made, torch.SymBool) and tells_by_identity(made) else made

    return handed_on


def of_number(name: str) -> Callable[..., Any]:
    """A method of a truth by that of the number that it is."""
    function = getattr(operator, name, None) or getattr(builtins, name, None) or getattr(math, name)

    def handed_on(truth: Any, *others: Any) -> Any:
        return function(as_number(truth), *[as_number(each) for each in others])

    return handed_on


def of_number_reflected(name: str) -> Callable[[Any, Any], Any]:
    """The same, of a truth that stands on the right."""
    function = getattr(operator, name, None) or getattr(builtins, name)

    def handed_on(truth: Any, other: Any) -> Any:
        return function(as_number(other), as_number(truth))

    return handed_on


def between_truths(own: Callable[[Any, Any], Any], numbers: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of truths, by `own` beside another truth, by `numbers` beside a number."""

    def handed_on(truth: Any, other: Any) -> Any:
        return (own if is_truth(other) else numbers)(truth, other)

    return handed_on


def unlike(truth: Any, other: Any) -> Any:
    """Whether one of two truths is true."""
    return torch.sym_not(OWN_OF_TRUTHS["eq"](truth, other))


UNARY = ("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "float")
ARITHMETIC = ("floordiv", "truediv", "mod", "pow", "lshift", "rshift", "divmod")
DIVISIONS = ("__floordiv__", "__truediv__", "__mod__")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
OWN_OF_TRUTHS = {
    **{name: vars(torch.SymBool)[f"__{name}__"] for name in ("eq", "and", "or")}, "xor": unlike, "ne": unlike
}  # fmt: skip
OF_TRUTHS = (
    *((torch.SymBool, f"__{name}__", of_number(name)) for name in (*UNARY, *ARITHMETIC, "lt", "le", "gt", "ge")),
    *((torch.SymBool, f"__r{name}__", of_number_reflected(name)) for name in ARITHMETIC),
    *(
        (torch.SymBool, f"__{reflected}{name}__", between_truths(own, of_number(name + "_" * (name in ("and", "or")))))
        for name, own in OWN_OF_TRUTHS.items()
        for reflected in (("",) if name in ("eq", "ne") else ("", "r"))
    ),
)
"""What truths have as numbers, by class and name."""
OTHERWISE: dict[tuple[type, str], Callable[..., Any]] = {(torch.SymInt, "__pow__"): power_within} | {
    (kind, name): floored(vars(kind)[name]) for kind in NUMBERS for name in ("__floordiv__", "__rfloordiv__")
}
BESIDE_TRUTHS = (
    *(
        (kind, name, beside_truths(by_some(own) if name in DIVISIONS else own))
        for kind in NUMBERS
        for each in ("add", "sub", "mul", *ARITHMETIC, "and", "or", "xor")
        for name in (f"__{each}__", f"__r{each}__")
        if name in vars(kind)
        for own in (OTHERWISE.get((kind, name)) or vars(kind)[name],)
    ),
    *(
        (kind, f"__{name}__", told_as_asked(beside_complex(own) if name in ("eq", "ne") else own))
        for kind in NUMBERS
        for name in RELATIONS
        for own in (beside_truths(vars(kind)[f"__{name}__"]),)
    ),
)
"""What numbers have that vary, by class and name, truths beside them among what they take."""


def symbolic(plain: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, but of numbers some of which vary `function`, which gives None where only `plain` will do."""

    @functools.wraps(plain)
    def of_numbers(*numbers: Any, **named: Any) -> Any:
        numbers = tuple(each.item() if isinstance(each, torch.Tensor) else each for each in numbers)
        try:
            found = function(*numbers, **named) if any_varies((*numbers, *named.values())) else None
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # but what a number must be: Python has an error of its own
                raise
            found = None
        return plain(*numbers, **named) if found is None else found

    return of_numbers


def summed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function of a list."""

    @functools.wraps(plain)
    def of_list(numbers: Any) -> Any:
        every = [*numbers]
        found = exact_sum(every) if any_varies(every) else None
        return plain(every) if found is None else found

    return of_list


def whole_root(n: Any) -> Any:
    """math.isqrt(n) of a size, of which doubles hold the root; None of another number."""
    return torch.sym_int(torch.sym_sqrt(n)) if isinstance(n, torch.SymInt) and not is_of_data(n) else None


def common_divisor(*numbers: Any) -> Any:
    """math.gcd of sizes, and of constants: with a constant of few divisors the sum of totient(d) of those that divide
    all, else what the graph computes. None of numbers out of data, and where sizes are no numbers of a graph."""
    if any(isinstance(each, NUMBERS) and is_of_data(each) for each in numbers):
        return None
    sizes = [abs(each) for each in numbers if varies(each)]
    constant = math.gcd(*(each for each in numbers if not isinstance(each, NUMBERS)))
    divisors = divisors_of(constant)
    if 0 < len(divisors) <= FEW:
        return 1 + sum(totient(d) * math.prod([1 - torch.sym_min(size % d, 1) for size in sizes]) for d in divisors[1:])
    if not all(map(has_graph, sizes)):
        return None
    every = [torch.full((), each, dtype=torch.int64) for each in (sizes if constant == 0 else [*sizes, constant])]
    return sizes[0] if len(every) == 1 else functools.reduce(torch.gcd, every).item()


def has_graph(n: Any) -> bool:
    """Whether the way of capture computes with numbers of sizes in the graph."""
    return hasattr(n.node, "computed_by")


def totient(number: int) -> int:
    """How many of the numbers below one have no divisor in common with it: over its divisors these sum up to it."""
    return sum(math.gcd(k, number) == 1 for k in range(number))


FEW = 16
"""Divisors whose sum is still a dimension to read."""


def divisors_of(number: int) -> list[int]:
    """The divisors of a number below 4096; none of a greater one, or of 0."""
    return [d for d in range(1, number + 1) if number % d == 0] if number < 4096 else []


def common_multiple(*numbers: Any) -> Any:
    """math.lcm of sizes, as `common_divisor`."""
    return functools.reduce(multiple_of_two, numbers, 1)


def multiple_of_two(a: Any, b: Any) -> Any:
    """math.lcm(a, b); None of what `common_divisor` has none of."""
    if not any(varies(each) for each in (a, b)):
        return None if a is None else math.lcm(a, b)
    divisor = None if a is None else common_divisor(a, b)
    if divisor is None:
        return None
    return abs(a * b) // (torch.sym_max(divisor, 1) if varies(divisor) else max(divisor, 1))


def varies(number: Any) -> bool:
    """Whether a number is one of torch's."""
    return isinstance(number, NUMBERS)


def combinations(n: Any, k: Any) -> Any:
    """math.comb(n, k) of a size and a small number."""
    made = permutations(n, k)
    return None if made is None else made // math.factorial(k)


def permutations(n: Any, k: Any = None) -> Any:
    """math.perm(n, k), as `combinations`."""
    if not isinstance(k, int) or isinstance(k, NUMBERS) or not 0 <= k <= 4 or is_of_data(n):
        return None
    torch._check(n >= 0)
    return math.prod([n - i for i in range(k)])


def power(a: Any, b: Any) -> Any:
    """math.pow(a, b) of sizes: a float. None of numbers out of data, for some of which Python raises, where the way of
    capture has a graph that computes them."""
    if any(isinstance(each, NUMBERS) and is_of_data(each) and has_graph(each) for each in (a, b)):
        return None
    if varies(b) or not float(b).is_integer():  # of a number below 0 Python has no real power then
        torch._check(a >= 0)
    base: Any = torch.sym_float(a)
    return base ** torch.sym_float(b)


def real_root(n: Any) -> Any:
    """math.sqrt(n), of what has one."""
    torch._check(n >= 0)
    return torch.sym_sqrt(n)


def logarithm(x: Any, base: Any = None) -> Any:
    """math.log(x), math.log(x, base)"""
    if isinstance(base, NUMBERS):
        return None
    made = computed("log", x)
    return made if made is None or base is None else made / math.log(base)


def signed_remainder(a: Any, b: Any) -> Any:
    """math.fmod(a, b) of integers: that of the absolute values, with the sign of the first."""
    if not all(isinstance(each, int | torch.SymInt) for each in (a, b)):
        return None
    return torch.sym_float(abs(a) % abs(b) * torch.sym_max(torch.sym_min(a, 1), -1))


def nearest_remainder(a: Any, b: Any) -> Any:
    """math.remainder(a, b) of an integer by a constant one: what is left of the nearest multiple, of two the even."""
    if not isinstance(a, torch.SymInt) or type(b) is not int or b == 0 or is_of_data(a):
        return None
    unit: Any = abs(b)
    nearest = (2 * a + unit) // (2 * unit)
    tied = 1 - torch.sym_min((2 * a + unit) % (2 * unit), 1)
    return torch.sym_float(a - unit * (nearest - tied * (nearest % 2)))


def length_of(*parts: Any) -> Any:
    """math.hypot(...) of integers, whose squares are exact; None of others."""
    whole = all(isinstance(each, int | torch.SymInt) for each in parts)
    if not whole or any(varies(each) and is_of_data(each) for each in parts):
        return None
    return torch.sym_sqrt(sum(each * each for each in parts))


def distance(p: Any, q: Any) -> Any:
    """math.dist(p, q), as `length_of`"""
    p, q = tuple(p), tuple(q)
    return length_of(*(a - b for a, b in zip(p, q, strict=True))) if len(p) == len(q) else None


def with_sign(x: Any, y: Any) -> Any:
    """math.copysign(x, y) of integers, or with the sign of a constant."""
    amount: Any = torch.sym_float(abs(x))
    if not varies(y):
        return amount * math.copysign(1.0, y)
    if not all(isinstance(each, int | torch.SymInt) for each in (x, y)):
        return None
    return torch.sym_float(abs(x) * (2 * torch.sym_max(torch.sym_min(y, 0), -1) + 1))


def is_near(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    """math.isclose(a, b), one question for all of it; of data, which may be infinite, as the graph computes it."""
    if rel_tol < 0 or abs_tol < 0:
        return None
    if any(varies(each) and is_of_data(each) for each in (a, b)):
        return near_in_doubles(a, b, rel_tol, abs_tol) if all(map(has_graph, filter(varies, (a, b)))) else None
    one: Any = torch.sym_float(a)
    other: Any = torch.sym_float(b)
    apart: Any = abs(one - other)
    answers: list[Any] = [apart <= rel_tol * abs(one), apart <= rel_tol * abs(other), apart <= abs_tol]
    varying = [each for each in answers if isinstance(each, torch.SymBool)]
    return True if any(each is True for each in answers) else functools.reduce(operator.or_, varying, False)


def is_in_reach(x: Any) -> Any:
    """math.isfinite(x) of sizes: whether its amount is one that doubles hold."""
    if is_of_data(x):
        return None
    return True if isinstance(x, torch.SymInt) else (x <= sys.float_info.max) & (x >= -sys.float_info.max)


def angle(y: Any, x: Any) -> Any:
    """math.atan2(y, x) of sizes, as the graph computes it; None where the way of capture computes none."""
    sizes = [each for each in (y, x) if varies(each)]
    if not all(map(has_graph, sizes)) or any(map(is_of_data, sizes)):
        return None
    made: Any = torch.atan2(*(torch.full((), each, dtype=torch.float64) for each in (y, x))).item()
    if varies(made):
        made.node.asked.inexact |= made.node.expr.free_symbols
    return made


def split_number(x: Any) -> Any:
    """math.modf(x) of sizes: what is behind the point, and before."""
    if is_of_data(x):
        return None
    whole: Any = torch.sym_float(x)
    before = torch.sym_float(torch.sym_int(x))
    return whole - before, before


def scaled_by_power(x: Any, i: Any) -> Any:
    """math.ldexp(x, i) of sizes."""
    two = power(2, i) if varies(i) else 2.0**i
    return None if two is None else torch.sym_float(x) * two


FACTORIALS = tuple(map(math.factorial, range(21)))
"""Those that 64 bits hold."""


def product_up_to(n: Any) -> Any:
    """math.factorial(n) of a size, looked up; None where the example's has more than 64 bits, or the way of capture
    computes none. That others have no more is kept as a condition."""
    if not isinstance(n, torch.SymInt) or is_of_data(n) or not has_graph(n):
        return None
    if not 0 <= n.node.hint < len(FACTORIALS):
        return None
    torch._check(n >= 0)
    torch._check(n < len(FACTORIALS))
    place: Any = n
    return torch.tensor(FACTORIALS)[torch.full((1,), place)].sum().item()


def exact_sum(numbers: Any) -> Any:
    """math.fsum of integers, which is exact, or of two numbers, which is rounded once."""
    every = [*numbers]
    whole = all(isinstance(each, int | torch.SymInt) for each in every)
    if not every or not (whole or len(every) == 2) or any(varies(each) and is_of_data(each) for each in every):
        return None
    parts: list[Any] = [sum(every)] if whole else every
    floats: list[Any] = [torch.sym_float(each) for each in parts]
    return floats[0] if whole else floats[0] + floats[1]


def gamma_of_whole(n: Any) -> Any:
    """math.gamma(n) of a size: the factorial of what is before it."""
    if not isinstance(n, torch.SymInt) or is_of_data(n) or not has_graph(n):
        return None
    made = product_up_to(n - 1)
    return None if made is None else torch.sym_float(made)


def in_radians(x: Any) -> Any:
    """math.radians(x)"""
    degrees: Any = torch.sym_float(x)
    return degrees * (math.pi / 180)


def in_degrees(x: Any) -> Any:
    """math.degrees(x)"""
    radians: Any = torch.sym_float(x)
    return radians * (180 / math.pi)


def computed(name: str, x: Any) -> Any:
    """What the function of torch gives of a number; None where the way of capture computes none."""
    function = getattr(x.node, "computed_by", None)
    return None if function is None else function(name)


def grown_both_ways(name: str, x: Any) -> Any:
    """math.sinh(x) or math.cosh(x), as far as Python computes them."""
    if is_of_data(x) or not has_graph(x):
        return None
    torch._check(x <= 710)
    torch._check(x >= -710)
    return computed(name, x)


def within_ends(name: str, x: Any) -> Any:
    """math.asin(x), acos, atanh or acosh, which Python computes between some ends alone."""
    if is_of_data(x) or not has_graph(x):
        return None
    for holds in ENDS[name](x):
        torch._check(holds)
    return computed(name, x)


ENDS: Mapping[str, Callable[[Any], tuple[Any, ...]]] = types.MappingProxyType({
    "asin": lambda x: (x >= -1, x <= 1), "acos": lambda x: (x >= -1, x <= 1),
    "atanh": lambda x: (x > -1, x < 1), "acosh": lambda x: (x >= 1,),
})  # fmt: skip
COMPUTED = (
    "log", "log2", "log10", "exp", "log1p", "sin", "cos", "tanh", "tan", "atan", "expm1", "exp2", "erf",
    "asinh", "erfc", "lgamma",
)  # fmt: skip
"""Functions of `math` and NumPy that the graph computes."""
METHODS: Mapping[str, Any] = {
    "__divmod__": lambda a, b: (a // b, a % b), "__rdivmod__": lambda a, b: (b // a, b % a), "sqrt": torch.sym_sqrt,
    **{name: functools.partialmethod(method_of, name) for name in COMPUTED},
}  # fmt: skip
WHOLE: Mapping[str, Any] = {"__invert__": lambda n: -n - 1, "__round__": rounded_whole, "bit_length": bits_of}
DIVIDED = (
    *((kind, name, method) for kind in NUMBERS for name, method in METHODS.items()),
    *((torch.SymInt, name, method) for name, method in WHOLE.items()), (torch.SymFloat, "rint", nearest_whole),
    (torch.SymFloat, "item", lambda number: number), *BESIDE_TRUTHS, *OF_TRUTHS,
)  # fmt: skip
"""The methods of numbers, and beside them, by class and name."""
LACKED = tuple([(kind, name, each) for kind, name, each in DIVIDED if name[:2] == "__" and name not in vars(kind)])
"""Special methods that numbers have not, for which Python has to make places."""
IN_CLASSES: Mapping[type, Mapping[str, Any]] = types.MappingProxyType({
    kind: {name: each for holder, name, each in DIVIDED if holder is kind and (kind, name, each) not in LACKED}
    for kind in (*NUMBERS, torch.SymBool)
})  # fmt: skip
"""All others."""
INVERSE = (math.asin, math.acos, math.atanh, math.acosh)
KEPT: Mapping[Any, Callable[..., Any]] = types.MappingProxyType(
    {
        math.sqrt: symbolic(math.sqrt, real_root),
        math.isqrt: symbolic(math.isqrt, whole_root),
        math.pow: symbolic(math.pow, power),
        math.fabs: symbolic(math.fabs, lambda x: torch.sym_float(abs(x))),
        math.gcd: symbolic(math.gcd, common_divisor),
        math.lcm: symbolic(math.lcm, common_multiple),
        math.comb: symbolic(math.comb, combinations),
        math.perm: symbolic(math.perm, permutations),
        math.radians: symbolic(math.radians, in_radians),
        math.degrees: symbolic(math.degrees, in_degrees),
        math.fmod: symbolic(math.fmod, signed_remainder),
        math.remainder: symbolic(math.remainder, nearest_remainder),
        math.hypot: symbolic(math.hypot, length_of),
        math.dist: symbolic(math.dist, distance),
        math.copysign: symbolic(math.copysign, with_sign),
        math.isclose: symbolic(math.isclose, is_near),
        **{each: symbolic(each, functools.partial(grown_both_ways, each.__name__)) for each in (math.sinh, math.cosh)},
        **{each: symbolic(each, functools.partial(within_ends, each.__name__)) for each in INVERSE},
        math.isfinite: symbolic(math.isfinite, is_in_reach),
        math.atan2: symbolic(math.atan2, angle),
        math.modf: symbolic(math.modf, split_number),
        math.ldexp: symbolic(math.ldexp, scaled_by_power),
        math.fsum: summed(math.fsum),
        math.gamma: symbolic(math.gamma, gamma_of_whole),
        math.factorial: symbolic(math.factorial, product_up_to),
        math.log: symbolic(math.log, logarithm),
        **{
            plain: symbolic(plain, functools.partial(computed, plain.__name__))
            for plain in (getattr(math, name) for name in COMPUTED if name != "log")
        },
    }
)
"""What stands for functions of `math`."""


MATH = types.SimpleNamespace(**{
    name: KEPT.get(each, each) if isinstance(each, types.BuiltinFunctionType) else each
    for name, each in vars(math).items()
})  # fmt: skip
"""What stands for the module."""


def any_varies(given: Any) -> bool:
    """Whether a number in nested lists varies."""
    return any(map(any_varies, given)) if isinstance(given, list | tuple) else varies(given)
