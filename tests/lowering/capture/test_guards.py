"""What a model relied on is kept, shown and enforced: on the graph, in the file, in the report, by the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import Mod

import irkit
from irkit.doors.to_onnx import to_onnx
from lowering import lower
from lowering.capture.capture import Captured, capture
from lowering.capture.guards.guards import Guard, allows_more, number
from lowering.capture.same_program import at_point
from lowering.capture.widen import needless
from lowering.errors import CaptureError
from lowering.program.program import Program
from tests.support.captured import X, guards


def notes(captured: Captured) -> str:
    """All notes in one text."""
    return "\n".join(captured.notes)


def refused(program: Program, *args: Any) -> irkit.ContractError:
    """The error with which a call is refused."""
    with pytest.raises(irkit.ContractError) as caught:
        program(*args)
    return caught.value


# ----------------------------------------------------------------------------------- every kind of fact, in every place


def branching(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0) if x.shape[0] > 8 else x.mean(0)


def strided(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y[::2]


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] % 4 == 0)
    return x.reshape(-1, 4)


def listed(xs: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(xs).sum(0) / len(xs)


def named(x: torch.Tensor, mode: str) -> torch.Tensor:
    return x * 2 if mode == "double" else x


KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any, str, tuple[Any, ...], str, str]] = {
    "a branch": (branching, (X,), ({0: "b"},), "b <= 8", (torch.randn(9, 6),), "for b in [0, 8]", "x.shape[0] > 8"),
    "a relation": (
        strided, (X, torch.randn(8, 6)), ({0: "b"}, {0: "c"}), "(c == 1) or (b == (c + 1) // 2)",
        (X, torch.randn(12, 6)),
        "condition (c == 1) or (b == (c + 1) // 2), which b = 4, c = 12 breaks", "return x + y[::2]",
    ),
    "torch._check": (
        checked, (torch.randn(8, 6),), ({0: "b"},), "b % 4 == 0", (torch.randn(6, 6),), "condition b % 4 == 0",
        "torch._check(x.shape[0] % 4 == 0)",
    ),
    "the length of a list": (listed, ([X, X],), None, "len(xs) == 2", ([X, X, X],), "another structure", ""),
    "a string": (named, (X, "double"), None, "mode == 'double'", (X, "single"), "mode = 'double' baked in", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fact_is_kept_shown_and_enforced(kind: str) -> None:
    model, args, shapes, text, other, message, line = KINDS[kind]
    program = to_onnx(model, args, dynamic_shapes=shapes)
    facts = {fact.text: fact.source for fact in program.graph.signature.facts}
    assert text in facts and line in facts[text]
    written = {pair.key: pair.value for pair in program.proto.metadata_props}
    assert text in [
        fact["text"] for key in ("irkit.guards", "irkit.baked") for fact in json.loads(written.get(key, "[]"))
    ]
    assert text in str(program.report)
    error = refused(program, *other)
    assert message in str(error)
    assert line in error.source
    assert program.check(n=2)


def test_lists_inside_lists_and_dicts_have_lengths() -> None:
    def model(tree: Any) -> torch.Tensor:
        return tree["a"][0][0] + tree["b"][0]

    graph = lower(model, ({"a": [(X,), (X, X)], "b": [X]},))
    lengths = {fact.text for fact in graph.signature.facts if fact.kind == "length"}
    assert lengths == {"len(tree.a) == 2", "len(tree.a.0) == 1", "len(tree.a.1) == 2", "len(tree.b) == 1"}


# ---------------------------------------------------------------------------------------------- sizes 0 and 1


def test_sizes_read_as_guards_and_ranges_leave_them() -> None:
    """A table that is sliced to the length of the input is as long, of the lengths that the graph takes."""
    table, tail = torch.randn(16, 4), torch.randn(16, 4)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + table[: x.shape[1]] + tail[max(0, 16 - x.shape[1]) :]

    shapes = ({0: "b", 1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(2, 5, 4),), dynamic_shapes=shapes, capture="torch.export")
    shapes = [repr(value.type) for value in program.graph.order]
    assert not any("min" in shape or "max" in shape for shape in shapes)
    assert any("min(16, n) == n" in fact.text or "max" in fact.text for fact in program.graph.signature.facts)
    for length in (1, 5, 16):
        x = torch.randn(3, length, 4)
        torch.testing.assert_close(program(x), model(x))
    refused(program, torch.randn(2, 17, 4))


def test_batch_norm_that_trains_refuses_a_batch_of_one() -> None:
    program = to_onnx(nn.Sequential(nn.BatchNorm1d(6)), (X,), dynamic_shapes=({0: "b"},))
    error = refused(program, X[:1])
    assert "condition b != 1" in error.what
    assert program.check(n=3)
    assert all(dict(run.sizes)["b"] > 1 for run in program.check(n=3).runs)


def test_a_result_that_has_another_shape_at_size_one_is_refused_there() -> None:
    """Least squares have residuals where matrices are higher than wide: without any, their sum is 0."""

    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.lstsq(a, b, driver="gels").residuals.sum()

    shapes = {"a": {0: "m", 1: "n"}, "b": {0: "m"}}
    program = to_onnx(model, (torch.randn(5, 3), torch.randn(5, 2)), dynamic_shapes=shapes)
    a, b = torch.randn(4, 2), torch.randn(4, 2)
    torch.testing.assert_close(program(a, b), model(a, b))
    with pytest.raises(irkit.errors.ContractError):
        program(torch.randn(1, 1), torch.randn(1, 2))


def test_a_product_of_sizes_that_is_one_is_refused() -> None:
    program = to_onnx(nn.BatchNorm1d(6), (torch.randn(4, 6, 5),), dynamic_shapes=({0: "b", 2: "l"},))
    assert program(torch.randn(1, 6, 5)).shape == (1, 6, 5)
    assert program(torch.randn(5, 6, 1)).shape == (5, 6, 1)
    assert "b*l != 1" in refused(program, torch.randn(1, 6, 1)).what


ZERO: dict[str, tuple[Callable[..., Any], bool, str]] = {
    "equal, another result": (lambda x: x.sum(0) + 1 if x.shape[0] == 0 else x.sum(0), False, "something else"),
    "equal, the same result": (lambda x: x.sum(0) * 2 if x.shape[0] == 0 else x.sum(0), True, "results agree"),
    "greater": (lambda x: x.sum(0) if x.shape[0] > 0 else x.sum(0) - 1, False, "something else"),
    "truth": (lambda x: x.sum(0) if x.shape[0] else x.sum(0) - 1, False, "something else"),
    "elements": (lambda x: x.sum() / 2 + 1 if x.numel() == 0 else x.sum(), False, "something else"),
    "an error": (lambda x: x.max(0).values, False, ""),
    "a view": (lambda x: x.view(x.shape[0], -1), False, ""),
    "the greatest": (lambda x: x.sum(0) / torch.sym_max(x.shape[0], 1), True, ""),
    "nothing": (lambda x: x.sum(0), True, ""),
}


@pytest.mark.parametrize("what", ZERO)
def test_size_zero_is_right_or_refused(what: str) -> None:
    model, allowed, note = ZERO[what]
    program = to_onnx(model, (X,), dynamic_shapes=({0: "b"},))
    assert note in "\n".join(program.report.notes)
    empty = torch.randn(0, 6)
    if allowed:
        torch.testing.assert_close(program(empty), model(empty))
    else:
        assert refused(program, empty).source
    torch.testing.assert_close(program(X[:1]), model(X[:1]))


def test_a_question_about_zero_of_one_dimension_leaves_the_others_alone() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(0) + y.sum(0) if y.shape[0] != 0 else x.sum(0) - 1

    program = to_onnx(model, (X, X), dynamic_shapes=({0: "b"}, {0: "c"}))
    error = refused(program, X, X[:0])
    assert "captured for c in [1, inf]" in error.what and "y.shape[0] != 0" in error.source
    torch.testing.assert_close(program(X[:0], X), model(X[:0], X))


def test_torch_hints_are_widened_as_names_are() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 1 else x + x

    for hint in (Dim.AUTO, Dim.DYNAMIC):
        captured = capture(model, (X,), dynamic_shapes=({0: hint},))
        assert guards(captured) == []
        assert "x_dim_0 = 1 is allowed" in notes(captured)


def test_without_widening_everything_is_refused_that_was_asked() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] in (0, 1) else x + x

    captured = capture(model, (X,), dynamic_shapes=({0: "b"},), widen=False)
    assert sorted(guards(captured)) == ["Ne(b, 0)", "Ne(b, 1)"]


def test_a_range_of_the_users_own_is_not_widened() -> None:
    program = to_onnx(lambda x: x + 1, (X,), dynamic_shapes=({0: Dim("b", min=2, max=9)},))
    assert str(program.graph.symbols["b"]) == "[2, 9]"
    assert "b is 1" in refused(program, X[:1]).what


def test_a_branch_above_one_is_a_range_with_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) if x.shape[0] > 1 else x.sum(0) - 1

    program = to_onnx(model, (X,), dynamic_shapes=({0: "b"},))
    for size in (0, 1):
        error = refused(program, X[:size])
        assert error.what == f"dimension b is {size}, and the model was captured for b in [2, inf]"
        assert "x.shape[0] > 1" in error.source


def test_sizes_that_are_refused_together_are_tried_together() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, y])
        return both.sum(0) * 1 if x.shape[0] + y.shape[0] == 1 else both.sum(0)

    captured = capture(model, (X, X), dynamic_shapes=({0: "b"}, {0: "c"}))
    assert guards(captured) == []
    assert "results agree" in notes(captured)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans()), min_size=2, max_size=4))
def test_a_guard_that_is_dropped_holds_everywhere(parts: list[tuple[int, int, bool]]) -> None:
    a, b = number("a"), number("b")
    sides: tuple[Any, ...] = (a, b, a + 2 * b)
    either: tuple[Any, ...] = tuple(
        sympy.Ne(sides[i], n) if unequal else sympy.Eq(sides[i], n) for i, n, unequal in parts
    )
    expr: Any = sympy.Or(*either)
    everywhere = all(expr.subs({a: i, b: j}) == sympy.true for i in range(1, 12) for j in range(12))
    if isinstance(expr, sympy.Or):
        assert needless(expr, {"a": (1, None), "b": (0, None)}) == everywhere


def llama(**options: Any) -> tuple[nn.Module, Any]:
    """(model, its configuration): a small Llama."""
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, **options,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval(), config


def test_a_llama_takes_one_token_with_an_empty_cache() -> None:
    model, config = llama()

    def inputs(batch: int, past: int, seq: int) -> dict[str, Any]:
        cache = transformers.DynamicCache(config=config)
        for layer in range(2):
            cache.update(torch.randn(batch, 1, past, 8), torch.randn(batch, 1, past, 8), layer)
        ids = torch.randint(0, 64, (batch, seq))
        return {"input_ids": ids, "past_key_values": cache}

    shapes = {"input_ids": {0: "batch", 1: "seq"}, "past_key_values": {0: "batch", 2: "past"}}
    program = to_onnx(model, kwargs=inputs(2, 5, 3), dynamic_shapes=shapes)
    assert len(program.lowered.captured.attempts) <= 4
    for sizes in ((1, 0, 1), (3, 0, 1), (1, 0, 4), (2, 1, 1), (1, 7, 2)):
        given = inputs(*sizes)
        other = {**given, "past_key_values": transformers.DynamicCache(config=config)}
        for layer in range(2):
            kept = given["past_key_values"].layers[layer]
            other["past_key_values"].update(kept.keys.clone(), kept.values.clone(), layer)
        with torch.no_grad():
            expected = model(**other).logits
        torch.testing.assert_close(program(**given).logits, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------- state


def test_a_static_cache_is_state_that_runs_go_on_from() -> None:
    model, config = llama()

    def cache() -> Any:
        made = transformers.StaticCache(config=config, max_cache_len=8)
        made.early_initialization(
            batch_size=1, num_heads=1, head_dim=8, dtype=torch.float32, device=torch.device("cpu")
        )
        return made

    program = to_onnx(model, kwargs={"input_ids": torch.tensor([[5]]), "past_key_values": cache()})
    bound = {port.name: port.binds for port in program.graph.signature.results if port.role == "state"}
    assert len(bound) == 6
    assert bound["past_key_values.0.key_out"] == "past_key_values.0.key"
    assert set(bound.values()) == set(program.report.state)
    assert {(pair["input"], pair["output"]) for pair in program.contract()["state"]} == {
        (b, n) for n, b in bound.items()
    }

    own, state = cache(), {}
    for token in (5, 7, 11, 13):
        ids = torch.tensor([[token]])
        with torch.no_grad():
            expected = model(input_ids=ids, past_key_values=own).logits
        result, state = program.run(kwargs={"input_ids": ids, "past_key_values": cache()}, state=state)
        torch.testing.assert_close(result.logits, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state["past_key_values.1.key"], own.layers[1].keys, rtol=1e-4, atol=1e-5)
    assert int(state["past_key_values.0.cumulative_length"]) == 4
    with pytest.raises(irkit.ContractError, match="no state called 'input_ids'"):
        program.run(kwargs={"input_ids": ids, "past_key_values": cache()}, state={"input_ids": ids})


class Sets(nn.Module):
    """Makes a tensor be another one."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("kept", torch.zeros(4, 6))
        self.kept: Any

    def forward(self, x: Any) -> torch.Tensor:
        y = x * 2
        if self.how == "local":
            y.set_(x)
        elif self.how == "buffer":
            self.kept.set_(x)
        else:
            y.data = x
        return y + self.kept


@pytest.mark.parametrize(
    ("how", "line"), [("local", "y.set_(x)"), ("buffer", "self.kept.set_(x)"), ("data", "y.data = x")]
)
def test_a_tensor_that_is_made_another_one_is_refused_with_its_line(how: str, line: str) -> None:
    with pytest.raises(CaptureError, match="share the memory of another") as caught:
        lower(Sets(how), (X,), capture="torch.export" if how == "data" else "auto")
    assert caught.value.source.endswith(line)


# ---------------------------------------------------------------------------------------------- numbers as inputs


def numbered(x: torch.Tensor, scale: float, n: int, extra: Any = None) -> torch.Tensor:
    return x[:n] * scale + (n if extra is None else n * extra["bias"])


def test_numbers_are_inputs_on_request() -> None:
    program = to_onnx(
        numbered, (X, 0.5, 2, {"bias": 1.5}), dynamic_shapes=({0: "b"}, None, None, None),
        scalar_inputs=["n", "scale", "extra.bias"],
    )  # fmt: skip
    types = {name: repr(type_) for name, type_ in program.inputs.items()}
    assert types == {"x": "f32[b]".replace("b", "b, 6"), "scale": "f32[]", "n": "i64[]", "extra.bias": "f32[]"}
    assert [i.name for i in program.proto.graph.input] == ["x", "scale", "n", "extra.bias"]
    for scale, n, bias in ((0.25, 1, -3.0), (2.0, 4, 0.5)):
        torch.testing.assert_close(program(X, scale, n, {"bias": bias}), numbered(X, scale, n, {"bias": bias}))
    report = program.check(n=4)
    assert report
    assert len({dict(run.sizes)["n"] for run in report.runs}) > 1
    assert "takes an int" in refused(program, X, 0.5, 2.5, {"bias": 1.0}).what
    assert "n is -1" in refused(program, X, 0.5, -1, {"bias": 1.0}).what


def test_a_float_of_a_double_model_is_a_double() -> None:
    program = to_onnx(lambda x, s: x * s, (X.double(), 0.1), scalar_inputs=["s"])
    assert repr(program.inputs["s"]) == "f64[]"
    assert torch.equal(program(X.double(), 1 / 3), X.double() * (1 / 3))
    assert program.check(n=2)


def test_a_guard_on_a_number_is_enforced() -> None:
    program = to_onnx(lambda x, n: x * n if n < 4 else x, (X, 3), scalar_inputs=["n"])
    torch.testing.assert_close(program(X, 2), X * 2)
    error = refused(program, X, 4)
    assert "[" in error.what and "n is 4" in error.what
    assert "if n < 4" in error.source


@pytest.mark.parametrize(
    ("names", "message"),
    [(["y"], "'y', and no input is called so"), (["x"], "'x', which is a tensor"), ("n", "is the string 'n'")],
)
def test_numbers_that_are_none_are_refused(names: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(lambda x, n: x * n, (torch.ones(1), 3), scalar_inputs=names)


# ---------------------------------------------------------------------------------------------- what became static


def stubborn(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    if x.shape[0] == 4:
        x = x * 2
    return x + y[: int(y.shape[0])].sum() + torch.ones(4, 6) * list(range(n))[-1]


FORMS: list[Any] = [
    ({0: "b"}, {0: "c"}, "n"),
    ({0: Dim.AUTO}, {0: Dim.DYNAMIC}, Dim.AUTO),
    ({0: Dim("b", max=9)}, {0: Dim("c")}, "n"),
]


@pytest.mark.parametrize("form", FORMS)
def test_all_that_became_static_is_listed_with_its_line(form: Any) -> None:
    args = (X, torch.randn(3, 6), 5)
    with pytest.raises(
        CaptureError, match="3 dimensions or numbers that were to vary are fixed by the model"
    ) as caught:
        lower(stubborn, args, dynamic_shapes=form, specialization="error", capture="torch.export")
    lines = caught.value.source.splitlines()
    for line, (what, code) in zip(
        lines,
        [("dimension 0 of 'x'", "if x.shape[0] == 4"), ("dimension 0 of 'y'", "int(y.shape[0])"), ("'n'", "range(n)")],
        strict=True,
    ):
        assert what in line and code in line
    program = to_onnx(stubborn, args, dynamic_shapes=form, specialization="report", capture="torch.export")
    assert [line for _, line in program.report.fixed] == [line.partition(": ")[2] for line in lines]
    assert sum(fact.kind == "static" for fact in program.graph.signature.facts) == 3
    assert program.check(n=2)


def test_each_of_the_dimensions_of_one_name_is_listed_with_the_line() -> None:
    def model(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x + y + z * list(range(z.shape[0]))[-1]

    same = ({0: "n"}, {0: "n"}, {0: "n"})
    program = to_onnx(model, (X, X, X), dynamic_shapes=same, specialization="report")
    assert [what.partition(",")[0] for what, _ in program.report.fixed] == [f"dimension 0 of {n!r}" for n in "xyz"]
    assert all("list(range(z.shape[0]))" in line for _, line in program.report.fixed)


def test_what_varies_is_not_listed() -> None:
    captured = capture(lambda x: x + 1, (X,), dynamic_shapes=({0: "b", 1: Dim.AUTO},), specialization="error")
    assert captured.fixed == ()
    with pytest.raises(CaptureError, match="specialization is 'warn'"):
        capture(lambda x: x, (X,), specialization="warn")


def test_a_dimension_that_torch_fixes_is_said_to_be_torchs() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(nn.Linear(6, 2), (X,), dynamic_shapes=({1: "width"},))
    assert caught.value.source.startswith("in torch: modules/linear.py:")

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    with pytest.raises(CaptureError) as caught:
        capture(Own(), (X,), dynamic_shapes=({1: "width"},))
    assert caught.value.source.endswith("return self.linear(x)")


def taken(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count = n.item()
    torch._check(count > 0)
    torch._check(count < 5)
    return x[:count] * 2


def test_a_number_in_an_input_is_held_against_what_was_checked_of_it() -> None:
    """torch.export's symbol for it is a dimension of the contract; direct capture's is a condition on the data."""
    shapes = {"x": {0: "rows"}, "n": None}
    program = to_onnx(taken, (torch.randn(6, 2), torch.tensor(3)), dynamic_shapes=shapes, capture="torch.export")
    assert program.report.dims == (("n", "[1, 4]"), ("rows", "[0, inf]"))
    assert program(torch.randn(7, 2), torch.tensor(4)).shape == (4, 2)
    for n in (0, 5):
        with pytest.raises(irkit.ContractError, match=f"n is {n}, and the model was captured for n in .1, 4."):
            program(torch.randn(7, 2), torch.tensor(n))
    assert program.contract()["bind"]["n"] == {"input": "n", "axis": None, "value": "size"}
    assert [text for text, _ in program.report.guards] == ["n >= 1", "n <= 4"]
    assert all("torch._check(" in source for _, source in program.report.guards)
    report = program.check(n=4)
    assert report and len({dict(run.sizes)["n"] for run in report.runs}) > 1


def test_a_number_in_an_input_is_held_against_sizes() -> None:
    def first(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return x[:count].sum(0)

    args, shapes = (torch.randn(6, 2), torch.tensor(3)), {"x": {0: "rows"}, "n": None}
    program = to_onnx(first, args, dynamic_shapes=shapes, capture="torch.export")
    with pytest.raises(irkit.ContractError, match=r"n <= rows, which n = 4, rows = 3 breaks"):
        program(torch.randn(3, 2), torch.tensor(4))
    assert program.check(n=4)
    with pytest.raises(irkit.ContractError, match=r"asserts: u0 <= rows"):
        to_onnx(first, args, dynamic_shapes=shapes)(torch.randn(3, 2), torch.tensor(4))


def chosen(x: torch.Tensor) -> torch.Tensor:
    count = (x > 0).sum().item()
    torch._check(count < 5)
    return torch.ones(count)  # type: ignore[call-overload]


def test_what_is_checked_of_data_is_enforced_where_a_result_shows_it() -> None:
    program = to_onnx(chosen, (torch.tensor([1.0, -1.0] * 4),), capture="torch.export")
    line = f"test_guards.py:{chosen.__code__.co_firstlineno + 2} torch._check(count < 5)"
    ((text, source),) = [each for each in program.report.guards if each[0] == "u0 <= 4"]
    assert source.endswith(line)
    assert {"text": text, "source": source} in program.contract()["unchecked"]
    assert program(torch.tensor([1.0] * 4 + [-1.0] * 4)).shape == (4,)
    with pytest.raises(irkit.ContractError, match=r"asserts: u0 <= 4") as caught:
        program(torch.ones(8))
    assert caught.value.source == source


def asserts_a_tensor(x: torch.Tensor) -> torch.Tensor:
    torch.ops.aten._assert_async.msg((x > 0).all(), "all are positive")
    return x * 2


def asserts_a_truth(x: torch.Tensor) -> torch.Tensor:
    torch._check((x > 0).all().item())
    return x * 2


def checks_a_tensor(x: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all(x > 0)
    return x * 2


@pytest.mark.parametrize("function", (asserts_a_tensor, asserts_a_truth, checks_a_tensor))
def test_what_is_asserted_of_the_content_of_a_tensor_is_told(function: Any) -> None:
    program = to_onnx(function, (torch.ones(3),))
    ((text, source),) = program.report.guards
    assert "all are positive" in text or "truth value" in text
    assert f"test_guards.py:{function.__code__.co_firstlineno + 1} " in source
    assert program.contract()["unchecked"] == [{"text": text, "source": source}]
    assert irkit.load(program.proto).signature.facts == program.graph.signature.facts


def test_a_relation_that_is_undefined_for_a_size_does_not_hold_for_it() -> None:
    n = number("n")
    least = sympy.Eq(Mod(n - 40, 8), 0)  # torch's Mod refuses negative numbers by an assertion
    assert not allows_more(n, [Guard(sympy.Lt(n, 9), ""), Guard(least, "")])
    assert allows_more(n, [Guard(least, "")])
    with pytest.raises(ArithmeticError):
        at_point(least, {"n": 8})


class Causal(nn.Module):
    """Attention to what came before, by a stored mask that is cut to the size of the question, as GPT-Neo has it."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(16, 16).tril().bool())

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
        keys = torch.cat([past, x], 1)
        last, count = keys.shape[1], x.shape[1]
        scores = x @ keys.transpose(1, 2)
        weights = torch.where(self.mask[last - count : last, :last], scores, -10.0).softmax(-1)
        return (weights @ keys).unflatten(-1, (2, 2)).permute(0, 2, 1, 3).contiguous()


def test_size_one_is_allowed_where_other_sizes_decide_a_guard() -> None:
    shapes = {"x": {1: "seq"}, "past": {1: "past"}}
    program = to_onnx(Causal(), (torch.randn(2, 3, 4), torch.randn(2, 5, 4)), dynamic_shapes=shapes)
    for seq, past in ((1, 5), (1, 1), (1, 0), (4, 9)):
        x, before = torch.randn(2, seq, 4), torch.randn(2, past, 4)
        assert torch.allclose(program(x, before), Causal()(x, before), atol=1e-6)


@pytest.mark.parametrize(
    ("said", "example", "allowed", "refused"),
    (
        ("2*h", 4, (0, 6), (1, 5)),
        ("2*h + 3", 7, (3, 9), (1, 4, 8)),
        ("h + 3", 7, (3, 4), (0, 2)),
        ("h//2", 4, (3, 4), ()),
    ),
)
def test_an_expression_whose_name_stands_nowhere_alone_is_kept(
    said: str, example: int, allowed: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    program = to_onnx(lambda x: x * 2, (torch.ones(example, 3),), dynamic_shapes=({0: said},))
    for size in allowed:
        assert program(torch.ones(size, 3)).shape == (size, 3)
    for size in refused:
        with pytest.raises(irkit.ContractError, match=rf"dimension 0 of x is {size}, which is no|cannot be that small"):
            program(torch.ones(size, 3))


def test_a_sum_is_at_least_the_part_that_is_known() -> None:
    shapes = ({0: "seq"}, {0: "past + seq"})
    program = to_onnx(lambda x, y: x.sum() + y.sum(), (torch.ones(4), torch.ones(6)), dynamic_shapes=shapes)
    assert program(torch.ones(4), torch.ones(4)) == 8
    with pytest.raises(irkit.ContractError, match="seq = 4"):
        program(torch.ones(4), torch.ones(3))


def test_a_negative_number_is_no_size() -> None:
    asks: tuple[dict[str, Any], ...] = ({"scalar_inputs": ["n"]}, {"dynamic_shapes": {"n": "n"}})
    for asked in asks:
        with pytest.raises(CaptureError, match="the number 'n' is -3, and torch takes a number that varies for a size"):
            to_onnx(lambda x, n: x * n, (torch.ones(5), -3), **asked)


@pytest.mark.parametrize(
    ("said", "message"),
    (
        ("2*h", r"is 5 in the example, which is not of the form 2\*h"),
        ("h + 7", r"is 5 in the example, which is not of the form h \+ 7"),
    ),
)
def test_an_expression_that_cannot_be_kept_is_refused(said: str, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        to_onnx(lambda x: x * 2, (torch.ones(5, 3),), dynamic_shapes=({0: said},))
