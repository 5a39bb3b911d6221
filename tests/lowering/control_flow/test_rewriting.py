"""What is rewritten, what is refused with its line, and that nothing stays behind."""

from __future__ import annotations

import ast
import sys
import textwrap
import threading
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.control_flow import rewritten
from lowering.errors import CaptureError
from tests.lowering.control_flow.functions import Clamped, clamp_if_large, running_sum

X = torch.linspace(-1, 2, 12).reshape(3, 4)


def helper(x):
    if x.sum() > 0:
        return x * 2
    return x


def outer(x):
    if x.max() > 1:
        x = x - 1
    return helper(x)


def export(function, **options):
    return irkit.to_onnx(function, (X,), capture="direct", **options)


def test_only_named_functions_are_rewritten() -> None:
    program = export(outer, rewrite=[helper])
    (diff,) = program.report.rewritten
    assert "helper" in diff.splitlines()[0]
    torch.testing.assert_close(program(X + 5), outer(X + 5))
    with pytest.raises(irkit.ContractError):
        program(X - 5)  # the other function chose its branch
    torch.testing.assert_close(export(outer, rewrite=True)(X - 5), outer(X - 5))


def test_functions_have_their_own_code_again() -> None:
    before = outer.__code__, helper.__code__
    export(outer, rewrite=True)
    assert (outer.__code__, helper.__code__) == before
    with pytest.raises(IrkitError):
        export(uneven, rewrite=True)
    assert uneven.__code__.co_names.count("flow") == 0


def test_a_module_and_its_class_name_their_functions() -> None:
    model = Clamped().eval()
    for named in (model, Clamped, Clamped.forward, [model.forward]):
        program = irkit.to_onnx(model, (X,), capture="direct", rewrite=named)
        assert len(program.report.rewritten) == 1
    assert "forward" not in vars(model)


def test_report_shows_what_was_changed_and_no_more() -> None:
    program = export(clamp_if_large, rewrite=True)
    (diff,) = program.report.rewritten
    assert "-    if x.abs().max() > 10:" in diff
    assert "     return x" in diff
    assert "rewritten" in str(program.report)
    assert program.report.asdict()["rewritten"] == program.report.rewritten
    assert export(lambda x: x + 1, rewrite=True).report.rewritten == ()


def test_source_of_a_rewritten_function_is_python_that_does_the_same() -> None:
    function = rewritten(running_sum)
    names = dict(running_sum.__globals__)
    exec(compile(ast.parse(textwrap.dedent(function.__source__)), "<test>", "exec"), names)
    assert torch.equal(names["running_sum"](X), running_sum(X))


def test_threads_may_call_a_function_that_is_being_rewritten() -> None:
    wrong: list[str] = []
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            if not torch.equal(outer(X), (X - 1) * 2 if (X - 1).sum() > 0 else X - 1):
                wrong.append("other numbers")

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(3):
            export(outer, rewrite=True)
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_a_constant_test_chooses_as_python_does() -> None:
    table = torch.arange(3.0)

    def constant(x):
        if table.sum() > 0:
            return x
        return x + 1

    assert export(constant, rewrite=True).report.rewritten == ()


def test_what_sizes_decide_is_a_branch_without_a_condition() -> None:
    def sized(x):
        if x.shape[0] > 2:
            return x * 2
        return x

    plain = irkit.to_onnx(sized, (X,), dynamic_shapes=({0: "n"},))
    assert any("n" in text for text, _ in plain.report.guards)
    program = irkit.to_onnx(sized, (X,), dynamic_shapes=({0: "n"},), rewrite=True)
    assert program.report.rewritten == () and not any("n" in text for text, _ in program.report.guards)
    for n in (1, 2, 3, 5):
        x = torch.randn(n, *X.shape[1:])
        assert torch.equal(program(x), sized(x))


def test_a_variable_of_one_branch_has_a_value_where_it_is_read() -> None:
    def partial(x):
        if x.sum() > 0:
            y = x * 2
        if x.max() > 1:
            x = x + y  # pyright: ignore[reportPossiblyUnboundVariable]  # what the test is about
        return x

    program = export(partial, rewrite=True)
    torch.testing.assert_close(program(X), partial(X))
    torch.testing.assert_close(program(X - 3), partial(X - 3))
    beyond = X - 10
    beyond[0, 0] = 5
    with pytest.raises(UnboundLocalError):
        partial(beyond)
    with pytest.raises(irkit.ContractError, match="has a value"):
        program(beyond)


def test_an_assertion_keeps_its_message() -> None:
    def asserted(x):
        if x.sum() > 100:
            assert x.min() > 0, "all must be positive"
        return x

    program = export(asserted, rewrite=True)
    torch.testing.assert_close(program(X), X)
    torch.testing.assert_close(program(X + 100), X + 100)
    beyond = X + 100
    beyond[0, 0] = -1
    with pytest.raises(irkit.ContractError, match="all must be positive"):
        program(beyond)


# ---------------------------------------------------------------------------------------------- refused


def uneven(x):
    y = x.double() if x.sum() > 0 else x
    return y


def other_structure(x):
    y = (x, x) if x.sum() > 0 else (x,)
    return y[0]


def generator(x):
    if x.sum() > 0:
        yield x
    yield x + 1


def consumed(x):
    return sum(generator(x))


def leaves_a_block(x):
    with nullcontext():
        if x.sum() > 0:
            return x
        x = x + 1
    return x


COUNT = 0


def counts(x):
    global COUNT  # noqa: PLW0603 - that is what is refused
    if x.sum() > 0:
        COUNT = 1
    return x


def binds(x):
    if x.sum() > 0 and (y := x.max()) > 1:
        return y
    return x.min()


def reads_what_grows(x):
    found = [x[0]]
    for row in x:
        found.append(found[0] + row)
    return torch.stack(found)


def gains_an_axis(x):
    while x.sum() < 100:
        x = torch.stack([x, x])
    return x


@pytest.mark.parametrize(
    ("function", "said", "line"),
    [
        (uneven, "float64.*where the condition holds, and .*float32", "y = x.double()"),
        (other_structure, "a tuple of 2 where", "y = (x, x)"),
        (consumed, "generator or a coroutine", "def generator"),
        (leaves_a_block, "leaves a with block by return", "if x.sum() > 0"),
        (counts, "global or nonlocal 'COUNT'", "if x.sum() > 0"),
        (binds, "has := in an operand", "if x.sum() > 0 and"),
        (reads_what_grows, "'found' grows in a loop on data, and is read in it", "found.append(found[0] + row)"),
        (
            gains_an_axis,
            r"x is float32\[2, 2, n, 4\] before the loop, and float32\[2, 2, 2, n, 4\]",
            "while x.sum() < 100",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_cannot_be_rewritten_is_refused_with_its_line(function, said: str, line: str) -> None:
    with pytest.raises(IrkitError, match=said) as told:
        irkit.to_onnx(function, (X,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    assert line in told.value.source


def test_rewritten_wants_a_function_with_source() -> None:
    with pytest.raises(IrkitError, match="no function to rewrite"):
        rewritten(len)
    names: dict = {}
    exec("def f(x):\n    return x", names)
    with pytest.raises(IrkitError, match="no source"):
        rewritten(names["f"])


def names_itself(x):
    if x.sum() > 0:
        return x + len(names_itself.__name__)
    return x


class Named(torch.nn.Module):
    """Its method and a function of the module bear one name."""

    def names_itself(self, x):
        if x.sum() > 1:
            return names_itself(x) * 2
        return x

    def forward(self, x):
        return self.names_itself(x)


@pytest.mark.parametrize("model", [names_itself, Named()], ids=["function", "method"])
def test_a_function_may_name_itself_or_a_global_of_its_name(model) -> None:
    program = irkit.to_onnx(model, (X,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for sign in (1, -1):
        x = sign * torch.ones(5, *X.shape[1:])
        assert torch.equal(program(x), model(x))


class Widened(torch.nn.Module):
    """A loop over blocks of 16, each of which makes rows twice as long, and another way for a single token."""

    def forward(self, x):
        if x.shape[1] == 1:
            return torch.cat([x, x.relu()], 2)
        for _ in range((x.shape[1] + 15) // 16):
            x = torch.cat([x, x.tanh()], 2)
        return x


def test_a_loop_whose_variables_never_keep_their_sizes_is_computed_as_far_as_its_first_rounds() -> None:
    model = Widened().eval()
    shapes = ({0: "batch", 1: "seq"},)
    program = irkit.to_onnx(model, (torch.randn(2, 7, 4),), dynamic_shapes=shapes, rewrite=True)
    for length in (1, 7, 16, 17, 32):
        x = torch.randn(3, length, 4)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(IrkitError, match="// 16 - 2 < 1"):
        program(torch.randn(3, 33, 4))


class Chunked(torch.nn.Module):
    """The greatest of what is above 0 along an axis, so many at a time, or all at once, as SPLADE pools."""

    def __init__(self, chunk=None):
        super().__init__()
        self.chunk = chunk

    def forward(self, x):
        chunk = x.shape[1] if self.chunk is None else self.chunk
        best = torch.full_like(x[:, 0], float("-inf"))
        for i in range(0, x.shape[1], chunk):
            best = torch.maximum(best, x[:, i : i + chunk].relu().max(1)[0])
        return best


class Strided(torch.nn.Module):
    """Sums of as many elements as another tensor has, from the second on."""

    def forward(self, x, y):
        total = torch.zeros(())
        for i in range(1, x.shape[0], y.shape[0]):
            total = total * 0.5 + x[i : i + y.shape[0]].sum()
        return total


@pytest.mark.parametrize("chunk", [None, 3])
def test_a_range_may_step_by_a_size(chunk) -> None:
    shapes = ({0: "batch", 1: "tokens"},)
    program = irkit.to_onnx(Chunked(chunk), (torch.randn(2, 7),), dynamic_shapes=shapes, rewrite=True)
    assert program.check(n=4)


def test_a_range_of_several_rounds_may_step_by_a_size() -> None:
    model, given = Strided(), (torch.randn(9), torch.randn(2))
    program = irkit.to_onnx(model, given, dynamic_shapes=({0: "n"}, {0: "k"}), rewrite=True)
    for n, k in ((9, 2), (9, 3), (1, 1), (4, 7)):
        given = torch.randn(n), torch.randn(k)
        torch.testing.assert_close(program(*given), model(*given), rtol=1e-4, atol=1e-5)
    with pytest.raises(IrkitError, match="range"):
        irkit.to_onnx(lambda x: x[[*range(0, x.shape[0], 0)]], (X,), dynamic_shapes=({0: "n"},), rewrite=True)


def logarithms(x):
    if (x > 0).sum() != x.numel():
        raise ValueError(f"numbers at or below 0 in {x}")
    found = []
    for row in x:
        if row.sum() > 100:
            raise ValueError("a row of more than 100")
        elif row[0] > 5:
            row = row * 2
        found.append(row.log())
    return torch.stack(found)


def test_that_a_side_which_raises_is_not_taken_is_a_condition() -> None:
    x = torch.rand(3, 4) + 0.1
    program = irkit.to_onnx(logarithms, (x,), dynamic_shapes=({0: "n"},), rewrite=True)
    for n in (1, 2, 5):
        x = torch.rand(n, 4) * 9 + 0.1
        torch.testing.assert_close(program(x), logarithms(x))
        for wrong in (-x, x + 200):
            with pytest.raises(IrkitError, match="asserts"):
                program(wrong)


@pytest.mark.parametrize("rewrite", [3, "loops", ["loops"]])
def test_what_is_no_function_is_refused(rewrite: Any) -> None:
    with pytest.raises(CaptureError, match="no function, class or module"):
        irkit.to_onnx(torch.nn.Identity(), (torch.ones(2),), rewrite=rewrite)


def test_a_loop_that_fixes_a_size_is_told_of_rewriting() -> None:
    def model(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.stack([x * k for k in n.tolist()])

    given, shapes = (torch.ones(2), torch.tensor([1, 2])), (None, {0: "b"})
    with pytest.raises(CaptureError, match="rewrite=True"):
        irkit.to_onnx(model, given, dynamic_shapes=shapes)


@pytest.mark.parametrize("held", [None, object()], ids=["none", "no module"])
def test_a_module_that_is_not_to_be_found_is_passed_over(monkeypatch: pytest.MonkeyPatch, held: Any) -> None:
    """`sys.modules[name] = None` keeps a module from being imported; others put objects of their own there."""
    monkeypatch.setitem(sys.modules, "a_module_that_is_not_there", held)
    program = irkit.to_onnx(helper, (X,), rewrite=True)
    for x in (X, -X):
        torch.testing.assert_close(program(x), helper(x))
