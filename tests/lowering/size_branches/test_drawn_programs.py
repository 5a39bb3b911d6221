"""Random programs of nested `if`s on sizes give what eager gives at every size, or refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import irkit

CONDITIONS = (
    "n > 4", "m <= 3", "n % 2 == 0", "n % 3 != 1", "m % 2 == 1", "n == m", "n < m", "n + m > 9", "shift > 0", "flag",
    "not flag", "shift == m", "n > 2 and m > 2", "n % 2 == 1 or m > 5", "x.shape[1] > 3", "y.shape[1] % 2 == 0",
    "(n if flag else m) > 3", "len(kept) > 1",
)  # fmt: skip
STEPS = (
    "x = x + 1", "x = x * 2", "y = y - x.sum()", "x = torch.nn.functional.pad(x, (0, n % 2))", "x = x[:, :2]",
    "x = torch.cat([x, x], 1)", "y = y[:, : y.shape[1] // 2 + 1]", "shift = n % 3", "shift = shift + 1", "shift = 2",
    "flag = not flag", "flag = m > 3", "kept = [*kept, x]", "kept[0] = x * 3", "x = kept[-1] + shift",
    "self.seen = shift", "self.last = x.sum()", "shift = self.seen + 1", "x = x.clone(); x[:, :1] = shift",
    "if n > 6:\n    raise ValueError('too large')", "return x.sum(1), y, x.shape[1] + shift",
)  # fmt: skip
TEMPLATE = """
import torch


class Inner(torch.nn.Module):
    seen = 0
    last = 0

    def forward(self, x, y, shift, flag):
        n, m = x.shape[1], y.shape[1]
        kept = [x]
{body}
        return x.sum(1) + len(kept), y * (2 if flag else 1), shift


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x, y):
        a, y, shift = self.first(x, y, 1, False)
        b, y, shift = self.second(x * a[:, None], y, shift, x.shape[1] > 3)
        return a, b, y + shift
"""


def indented(lines: list[str], depth: int) -> list[str]:
    """Lines of a body, further in."""
    return ["    " * depth + part for line in lines for part in line.split("\n")]


def branched(drawn: tuple[str, list[str], list[str], str]) -> list[str]:
    """An `if` with two sides, and a step behind it."""
    condition, yes, no, step = drawn
    return [f"if {condition}:", *indented(yes, 1), "else:", *indented(no, 1), step]


blocks = st.recursive(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=2),
    lambda inner: st.tuples(st.sampled_from(CONDITIONS), inner, inner, st.sampled_from(STEPS)).map(branched),
    max_leaves=4,
)


def outcome(call: Callable[..., Any], *args: torch.Tensor) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return call(*args)
    except Exception as error:  # programs raise anything
        return error


@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(body=blocks, example=st.tuples(st.integers(2, 7), st.integers(2, 7)))
def test_programs_are_right_or_refuse_at_every_size(
    tmp_path_factory: Any, body: list[str], example: tuple[int, int]
) -> None:
    file = tmp_path_factory.mktemp("drawn") / "program.py"
    source = TEMPLATE.format(body="\n".join(indented(body, 2)))
    file.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)

    def fresh() -> torch.nn.Module:
        return names["Outer"]().eval()

    given = tuple(torch.rand(2, size) for size in example)
    shapes = {"x": {1: "n"}, "y": {1: "m"}}
    program = outcome(lambda: irkit.to_onnx(fresh(), given, dynamic_shapes=shapes, rewrite=True, capture="direct"))
    if isinstance(outcome(fresh(), *given), Exception) or isinstance(program, Exception):
        return
    for n in (1, 2, 3, 4, 5, 6, 7, 9):
        for m in (1, 2, 3, 4, 6, 8):
            call = torch.rand(2, n), torch.rand(2, m)
            theirs, ours = outcome(fresh(), *call), outcome(program, *call)
            if isinstance(ours, irkit.errors.IrkitError):
                assert (n, m) != example, (source, ours)
                continue
            assert not isinstance(theirs, Exception), (source, n, m, theirs, ours)
            for one, other in zip(ours, theirs, strict=True):
                same = one.shape == torch.as_tensor(other).shape and torch.allclose(one, torch.as_tensor(other))
                assert same, (source, n, m, one, other)
