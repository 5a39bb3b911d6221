"""Rules chosen by text, as in `optimize(graph, rules="default-attention+gelu")`.

A text is names with + and - between them, read from left to right; a - in front starts from the default. A name is that
of a rule (`layer_norm`), a pattern of such names (`*_norm`), a family (`attention`), `default` for all rules of the
level, or `exact` for those that keep every bit. The families are the folders and modules of passes/rules, and what is
in a rule's name: `norms` are those of `passes/rules/arithmetic/norms.py`, and `layer_norm` of another one. The rules
into ONNX Runtime's own operators are named by the same text, and are all of the family `contrib`;
`passes.preparing.fuse` applies those that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from irkit.errors import RewriteError
from irkit.rewriting.rules import Rule, Rules
from passes.rules.constants import EXACT, OPERANDS, folding_rule

IN_NAMES: Mapping[str, str] = {
    "norms": "norm", "attention": "attention", "rotary": "rotary", "gelu": "gelu", "softmax": "softmax",
    "gemm": "gemm", "transposes": "transpose", "casts": "cast",
}  # fmt: skip
"""Families by what stands in the name of a rule."""

NAMED: Mapping[str, str] = {"constants": "folding", "onnxruntime": "contrib"}
"""Families whose folder or module has another name."""

ASKED = ("finite", "nan")
"""Families of no level, taken where they are named."""

FOLDS = ("fold_constants", "fold_exact")
"""The rules that compute constants."""


def families_of(rule: Rule) -> tuple[str, ...]:
    """The families that a rule belongs to: its folder, its module, and those that its name tells."""
    *_, folder, module = ("", *str(getattr(rule.function, "__module__", "")).split("."))
    own = (NAMED.get(folder, folder), NAMED.get(module, module))
    in_name = (family for family, part in IN_NAMES.items() if part in rule.name)
    return tuple(dict.fromkeys(family for family in (*own, *in_name) if family not in ("rules", "")))


def families(rules: Iterable[Rule]) -> dict[str, Rules]:
    """The rules of each family, by name."""
    found: dict[str, list[Rule]] = {}
    for each in rules:
        for family in families_of(each):
            found.setdefault(family, []).append(each)
    return {name: tuple(found[name]) for name in sorted(found)}


def text_of(rules: Rules | Rule | str | tuple[Rule | str, ...]) -> str:
    """The text in what a caller gave for rules; empty where there is none."""
    return "+".join(r for r in ((rules,) if isinstance(rules, Rule | str) else rules) if isinstance(r, str))


def choose_rules(text: str, default: Rules, known: Rules) -> Rules:
    """The rules that a text names, out of `known`, in their order; `default` is what "default" stands for.

    Raises RewriteError for a text that is none, and for a name of nothing, with names that are near it.
    """
    text = text.strip()
    signed = text if text[:1] in ("+", "-") else f"+{text}"
    if not re.fullmatch(r"(\s*[+-]\s*[^+\-\s]+)+", signed):
        raise RewriteError(
            f"the rules {text!r} cannot be read", hint="write names with + and -, as in default-attention"
        )
    parts = re.findall(r"([+-])\s*([^+\-\s]+)", signed)
    table: dict[str, Rules] = {**families(known), "exact": tuple(filter(is_exact, known)), "default": default}
    picked = set(map(id, default if signed == text else ()))
    for sign, name in parts:
        named = set(map(id, members(name, table, known)))
        picked = picked | named if sign == "+" else picked - named
    return tuple(r for r in known if id(r) in picked)


def is_exact(rule: Rule) -> bool:
    """True for a rule that keeps every bit, and that need not be asked for."""
    return rule.exact and not set(families_of(rule)) & set(ASKED)


def members(name: str, table: Mapping[str, Rules], known: Rules) -> Rules:
    """The rules of a name: a family, a rule, or a pattern of names. Raises RewriteError where it is none."""
    found = table.get(name) or tuple(r for r in known if fnmatchcase(r.name, name))
    if not found:
        names = tuple(dict.fromkeys((*table, *(r.name for r in known))))
        near = get_close_matches(name, names, n=4, cutoff=0.55) or [n for n in names if name in n][:4]
        hint = f"near it: {', '.join(near)}" if near else "`irkit rules` lists all"
        raise RewriteError(f"there is no rule and no family of rules called {name!r}", hint=hint)
    return found


def with_limit(rules: Rules, limit: int) -> Rules:
    """The rules, of which those that compute constants make such of up to `limit` elements, or of as many as are there
    already; with 0 there are no such rules. Raises RewriteError for what is no such number."""
    require_limit(limit)
    return tuple(r if r.name not in FOLDS else _folding(r, limit) for r in rules if limit or r.name not in FOLDS)


def require_limit(limit: object) -> None:
    """Raises RewriteError for what is not a number of elements."""
    if type(limit) is not int or limit < 0:
        raise RewriteError(f"constants of {limit!r} elements cannot be asked for", hint="give a number, 0 for none")


def _folding(rule: Rule, limit: int) -> Rule:
    return folding_rule(rule.name, limit, max(OPERANDS, limit), EXACT if rule.name == "fold_exact" else None)
