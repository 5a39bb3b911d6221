"""Patterns: expressions of the `op.*` vocabulary with holes in them, and the matcher.

    x, one = hole("x"), const("one", where=is_all_ones)
    p.Mul(x, one)                        # one pattern, whichever side the constant stands on
    p.Transpose(x, perm=attr("perm"))    # an attribute, bound with the schema's default filled in
    p.Concat(*rest("xs"), axis=0)        # any number of operands
    p.TopK(x, k)[1]                      # the second result of an operator with several

A pattern reads as the expression that it looks like: an operand or attribute that is not written is absent, or has
the schema's default. A hole that occurs twice stands for one value.
"""

from irkit.pattern.language import (
    Attr,
    Constant,
    Either,
    Hole,
    Op,
    Own,
    Pattern,
    Rest,
    Through,
    attr,
    const,
    either,
    hole,
    one_of,
    own,
    p,
    rest,
    through,
)
from irkit.pattern.matching import Miss, attribute_of, match
from irkit.pattern.predicates import (
    Predicate,
    is_all_ones,
    is_all_zeros,
    is_scalar,
    near,
    uniform,
)
from irkit.pattern.writing import pattern_of

__all__ = [
    "Attr",
    "Constant",
    "Either",
    "Hole",
    "Miss",
    "Op",
    "Own",
    "Pattern",
    "Predicate",
    "Rest",
    "Through",
    "attr",
    "attribute_of",
    "const",
    "either",
    "hole",
    "is_all_ones",
    "is_all_zeros",
    "is_scalar",
    "match",
    "near",
    "one_of",
    "own",
    "p",
    "pattern_of",
    "rest",
    "through",
    "uniform",
]
