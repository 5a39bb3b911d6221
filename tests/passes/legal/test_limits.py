"""The sizes that ONNX Runtime does not take, or errs at: right there, or a condition of the contract."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit.build import call, op
from irkit.core.ir import Graph, param
from irkit.core.types import tensor
from irkit.onnx.sessions import session
from irkit.rewriting.face import rewrite
from passes import prepare
from passes.legal.runtime import long_sums
from passes.legal.runtime.limits import MOST, SUMS, state_limits
from passes.legal.runtime.long_sums import RUN
from passes.targets import target_of


def heads(b: int, s: int, t: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values."""
    return torch.randn(b, 2, s, 8), torch.randn(b, 2, t, 8), torch.randn(b, 2, t, 8)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's own."""
    return F.scaled_dot_product_attention(q, k, v)


NAMED = ({0: "b", 2: "s"}, {0: "b", 2: "t"}, {0: "b", 2: "t"})


@pytest.mark.parametrize("target", ("onnxruntime-cpu", "onnxruntime-cpu+com.microsoft"))
def test_attention_says_which_sizes_it_takes(target: str) -> None:
    program = irkit.to_onnx(attention, heads(2, 3, 5), dynamic_shapes=NAMED, target=target)
    assert [text for text, _ in program.report.guards] == ["b >= 1", "s >= 1", "t >= 1"]
    assert [guard["text"] for guard in program.contract()["guards"]] == ["b >= 1", "s >= 1", "t >= 1"]
    for sizes, name in (((0, 3, 5), "b"), ((2, 0, 5), "s"), ((2, 3, 0), "t"), ((0, 0, 0), "b")):
        with pytest.raises(irkit.ContractError, match=f"the condition {name} >= 1, which {name} = 0 breaks"):
            program(*heads(*sizes))
    given = heads(1, 1, 1)
    torch.testing.assert_close(program(*given), attention(*given))
    assert program.check()


def test_sizes_that_follow_from_others_are_not_asked_for() -> None:
    def grown(q: Any, k: Any, past: Any) -> Any:
        keys = torch.cat([past, k], 2)
        return F.scaled_dot_product_attention(q, keys, keys)

    def given(b: int, s: int, p: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(b, 2, s, 8), torch.randn(b, 2, s, 8), torch.randn(b, 2, p, 8)

    program = irkit.to_onnx(
        grown, given(2, 3, 4), dynamic_shapes=({0: "b", 2: "s"}, {0: "b", 2: "s"}, {0: "b", 2: "p"})
    )
    assert [text for text, _ in program.report.guards] == ["b >= 1", "s >= 1"]
    arrays = given(2, 3, 0)
    torch.testing.assert_close(program(*arrays), grown(*arrays))


@pytest.mark.parametrize("sizes", ((0, 3, 5), (2, 0, 5), (2, 3, 0)))
def test_attention_of_nothing_at_fixed_sizes(sizes: tuple[int, ...]) -> None:
    given = heads(*sizes)
    program = irkit.to_onnx(attention, given)
    torch.testing.assert_close(program(*given), attention(*given))


def test_other_runtimes_have_no_such_conditions() -> None:
    q, k = (param(tensor("f32", "b", 2, size, 8)) for size in ("s", "t"))
    graph = Graph((q, k), (op.Attention(q, k, k), op.ReduceSum(q, np.array([0]))))
    assert state_limits(graph, target_of("onnx")) is graph
    told = [fact.text for fact in state_limits(graph, target_of("onnxruntime-cpu")).signature.facts]
    assert told == ["b >= 1", "s >= 1", "t >= 1", f"b <= {MOST}"]
    assert [fact.text for fact in state_limits(graph, target_of("onnxruntime-cuda")).signature.facts] == told[:3]
    once = prepare(graph)
    assert [fact.text for fact in once.signature.facts] == told
    assert prepare(once).signature.facts == once.signature.facts
    assert irkit.parse(once.text()) == once and irkit.load(irkit.to_proto(once)).signature.facts == once.signature.facts


@pytest.mark.parametrize("target", ("onnxruntime-cpu", "onnxruntime-cpu+com.microsoft"))
@pytest.mark.parametrize(
    ("product", "texts"),
    (
        (lambda x, y: x.mT @ y, ["k >= 1"]),
        (lambda x, y: (x.mT * 2) @ y, ["k >= 1"]),
        (lambda x, y: (x.mT @ y) * 0.5, ["k >= 1"]),
        (lambda x, y: y.mT @ x, ["k >= 1"]),
        (lambda x, y: x @ y.mT, []),
        (lambda x, y: x[0].mT @ y[0], []),
        (lambda x, y: x.sum(1) @ y[0].sum(0), []),
    ),
)
def test_products_of_swapped_matrices_want_something_to_add(product: Any, texts: list[str], target: str) -> None:
    shapes = ({0: "b", 1: "k"}, {0: "b", 1: "k"})

    def given(b: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(b, k, 4), torch.randn(b, k, 4)

    program = irkit.to_onnx(product, given(2, 3), dynamic_shapes=shapes, target=target)
    assert [text for text, _ in program.report.guards if text.startswith("k >=")] == texts
    for b, k in ((2, 1), (1, 3), (3, 5)):
        arrays = given(b, k)
        torch.testing.assert_close(program(*arrays), product(*arrays))
    if texts:
        with pytest.raises(irkit.ContractError, match="k >= 1"):
            program(*given(2, 0))


@pytest.mark.parametrize(
    ("shape", "perm", "texts"),
    (
        (("m", 3, "k"), (1, 0, 2), ["m >= 1", "k >= 1"]),
        (("m", 2, 3, "k"), (1, 2, 0, 3), ["m >= 1", "k >= 1"]),
        (("k", 2, 3, "m"), (1, 2, 3, 0), ["k >= 1"]),
        ((2, 3, "k", "m"), (0, 1, 3, 2), ["k >= 1"]),
        ((2, "m", 3, "k"), (0, 2, 1, 3), []),
        ((2, "k", 3, "m"), (0, 2, 3, 1), []),
    ),
)
def test_how_a_tensor_is_turned_says_what_a_product_wants(shape: Any, perm: Any, texts: list[str]) -> None:
    x = param(tensor("f32", *shape))
    turned = op.Transpose(x, perm=perm)
    y = param(tensor("f32", *turned.shape[:-2], "k", 4))
    graph = Graph((x, y), (op.MatMul(turned, y),))
    told = [fact.text for fact in state_limits(graph, target_of("onnxruntime-cpu")).signature.facts]
    assert told == texts


@pytest.mark.parametrize("capture", ("torch.export", "direct"))
def test_a_convolution_wants_channels(capture: str) -> None:
    given = torch.randn(2, 3, 6), torch.randn(4, 3, 3)
    shapes = ({0: "b", 1: "c"}, {1: "c"})
    program = irkit.to_onnx(F.conv1d, given, dynamic_shapes=shapes, capture=capture)
    with pytest.raises(irkit.ContractError, match="c"):
        program(torch.randn(2, 0, 6), torch.randn(4, 0, 3))
    other = torch.randn(1, 1, 6), torch.randn(4, 1, 3)
    torch.testing.assert_close(program(*other), F.conv1d(*other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
def test_cross_entropy_of_nothing(reduction: str) -> None:
    def loss(x: Any, labels: Any) -> Any:
        return F.cross_entropy(x, labels, reduction=reduction)

    def given(n: int, l: int) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: E741
        return torch.randn(n, 5, l), torch.randint(0, 5, (n, l))

    program = irkit.to_onnx(loss, given(4, 3), dynamic_shapes=({0: "n", 2: "l"}, {0: "n", 1: "l"}))
    for sizes in ((0, 3), (2, 0), (0, 0), (1, 1)):
        arrays = given(*sizes)
        torch.testing.assert_close(program(*arrays), loss(*arrays), equal_nan=True)


@pytest.mark.parametrize("capture", ("torch.export", "direct"))
def test_a_batch_of_nothing_moves_no_running_statistics(capture: str) -> None:
    model = torch.nn.BatchNorm1d(3).train()
    program = irkit.to_onnx(model, (torch.randn(4, 3, 5),), dynamic_shapes=({0: "n", 2: "l"},), capture=capture)
    for sizes in ((0, 5), (2, 0), (1, 2), (3, 1)):
        x, eager = torch.randn(sizes[0], 3, sizes[1]), copy.deepcopy(model)
        found, state = program.run((x,))
        torch.testing.assert_close(found, eager(x))
        torch.testing.assert_close(state, dict(eager.named_buffers()))
    with pytest.raises(irkit.ContractError, match="!= 1"):
        program(torch.randn(1, 3, 1))


# ---------------------------------------------------------------------------------------------- long sums

LONG = MOST + RUN + 77


def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Sums over the rows."""
    return x.sum(0), x.mean(0, keepdim=True), (x * x).sum(0).sqrt(), x.var(0)


def test_sums_of_many_rows_are_right() -> None:
    x = torch.full((LONG, 1), 3.0)
    program = irkit.to_onnx(reductions, (x,))
    for ours, theirs in zip(program(x), reductions(x), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert program(x)[0].item() == np.float32(3 * LONG)


@pytest.mark.parametrize(
    ("function", "texts"),
    (
        (lambda x: x.mean(1), [f"s <= {MOST}"]),
        (lambda x: x.sum((0, 1)), [f"b*s <= {MOST}"]),
        (lambda x: x.cumsum(1), [f"s <= {MOST}"]),
        (lambda x: (x.sum(-1), x.sum(), x.double().sum(0), (x > 0).sum(0), (x > 0).any(1), x.softmax(1)), []),
    ),
)
def test_sums_of_rows_of_any_number_say_how_many(function: Callable[..., Any], texts: list[str]) -> None:
    program = irkit.to_onnx(function, (torch.randn(2, 3, 4),), dynamic_shapes=({0: "b", 1: "s"},))
    assert [text for text, _ in program.report.guards] == texts
    assert program.check()


def test_too_many_rows_are_refused() -> None:
    program = irkit.to_onnx(lambda x: x.sum(0), (torch.randn(2, 1),), dynamic_shapes=({0: "n"},))
    with pytest.raises(irkit.ContractError, match=f"the condition n <= {MOST}, which n = {LONG} breaks"):
        program(torch.zeros(1, 1).expand(LONG, 1))


def test_an_image_without_places_is_refused() -> None:
    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, align_corners=False)

    given = torch.randn(2, 3, 5, 6), torch.randn(2, 4, 4, 2)
    program = irkit.to_onnx(sampled, given, dynamic_shapes=({0: "b", 2: "h", 3: "w"}, {0: "b"}))
    assert [text for text, _ in program.report.guards] == ["h >= 1", "w >= 1"]
    with pytest.raises(irkit.ContractError, match="dimension w is 0"):
        program(given[0][..., :0], given[1])
    assert program(given[0][:0], given[1][:0]).shape == (0, 3, 4, 4)
    x, grid = param(tensor("f32", 1, 2, "h", 4)), param(tensor("f32", 1, 3, 3, 2))
    ready = prepare(Graph((x, grid), (op.GridSample(x, grid),)), "onnxruntime-cpu")
    assert [fact.text for fact in ready.signature.facts] == ["h >= 1"]


@pytest.mark.parametrize("kind", (np.uint64, np.uint32, np.int64))
def test_norms_of_large_integers_do_not_wrap(kind: Any) -> None:
    most = np.iinfo(kind).max
    numbers = np.array([[3, 4], [most // 4, most // 2], [most // 2 + 1, 1]], kind)
    x = param(tensor({"u": "u", "i": "i"}[np.dtype(kind).kind] + str(np.dtype(kind).itemsize * 8), 3, 2))
    graph = Graph((x,), (op.ReduceL2(x, [1]),))
    (found,) = session(prepare(graph, "onnxruntime-cpu")).run((numbers,))
    (expected,) = irkit.evaluate(graph, (numbers,))
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-12, atol=1)
    np.testing.assert_allclose(found[:, 0], np.sqrt((numbers.astype(np.float64) ** 2).sum(1)), rtol=1e-6)


def test_log_sum_exp_of_many_rows_is_right() -> None:
    x = param(tensor("f32", LONG, 1))
    ready = prepare(Graph((x,), (op.ReduceLogSumExp(x, [0]),)), "onnxruntime-cpu")
    (found,) = session(ready).run((np.full((LONG, 1), 2.0, np.float32),))
    np.testing.assert_allclose(found, 2 + np.log(LONG), rtol=1e-6)
    assert "ReduceLogSumExp" not in {value.op for value in ready.order}


@pytest.mark.parametrize("name", sorted(SUMS))
def test_sums_in_steps_are_sums(name: str, monkeypatch: Any) -> None:
    """The same steps where few numbers count as many: of numbers far apart, of infinities, and of NaN."""
    monkeypatch.setattr(long_sums, "MOST", 8)
    monkeypatch.setattr(long_sums, "RUN", 4)
    x = param(tensor("f32", 23, 7, 2))
    for axes, keep in (([0], 1), ([0, 1], 0), ([1, 0], 1)):
        graph = Graph((x,), (call(name, [x, np.array(axes)], {"keepdims": keep}),))
        stepped = rewrite(graph, long_sums.LONG_SUMS)
        assert name == "ReduceSum" or name not in {value.op for value in stepped.order}
        rng = np.random.default_rng(0)
        numbers = (
            rng.normal(size=(23, 7, 2)).astype(np.float32) * np.array([1, 1e3, 80, 1, 1, 1, 1], np.float32)[:, None]
        )
        odd = numbers.copy()
        odd[3, 3], odd[4, 4], odd[5, 5], odd[:, 6] = np.inf, -np.inf, np.nan, -np.inf
        for fed in (numbers, np.abs(numbers), odd, np.full_like(numbers, -np.inf), np.full_like(numbers, np.inf)):
            with np.errstate(all="ignore"):
                (expected,) = irkit.evaluate(graph, (fed,))
            (found,) = session(prepare(stepped, "onnxruntime-cpu")).run((fed,))
            scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_cross_entropy_without_classes(reduction: str) -> None:
    def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, reduction=reduction)

    named = {0: "n", 1: "c"}
    chosen = torch.zeros(3, dtype=torch.long)
    program = irkit.to_onnx(loss, (torch.randn(3, 4), chosen), dynamic_shapes=(named, {0: "n"}))
    with pytest.raises(irkit.ContractError, match=r"\(n == 0\) or \(c >= 1\)"):
        program(torch.zeros(3, 0), chosen)
    nothing = torch.zeros(0, 0), chosen[:0]
    torch.testing.assert_close(program(*nothing), loss(*nothing), equal_nan=True)
    shares = irkit.to_onnx(loss, (torch.randn(3, 4), torch.rand(3, 4)), dynamic_shapes=(named, named))
    for sizes in ((3, 0), (0, 4), (2, 5)):
        given = torch.zeros(sizes), torch.ones(sizes)
        torch.testing.assert_close(shares(*given), loss(*given), equal_nan=True)


RUNS_OF_NOTHING: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[int, str]]] = {
    "self_attention": (
        lambda: Itself(torch.nn.MultiheadAttention(8, 2, batch_first=True)),
        (2, 3, 8),
        {0: "b", 1: "s"},
    ),
    "gru": (lambda: torch.nn.GRU(4, 3), (5, 2, 4), {0: "s", 1: "b"}),
    "lstm": (lambda: torch.nn.LSTM(4, 3, batch_first=True), (2, 5, 4), {0: "b", 1: "s"}),
    "lstm_cell": (lambda: torch.nn.LSTMCell(4, 3), (2, 4), {0: "b"}),
    "transposed_convolution": (lambda: torch.nn.ConvTranspose3d(2, 2, 2), (1, 2, 3, 3, 3), {2: "d", 3: "h", 4: "w"}),
    "scaled_scores": (lambda: Scores(), (3, 2, 4), {0: "rows", 1: "batch"}),
}
"""Models by which ONNX Runtime ended the process where a size is 0, with their input and the names of its axes."""


class Itself(torch.nn.Module):
    """Attention of something to itself."""

    def __init__(self, attention: torch.nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: torch.Tensor) -> Any:
        """The attention, with its weights."""
        return self.attention(x, x, x)


class Scores(torch.nn.Module):
    """Products of what is turned and scaled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores."""
        return (x.transpose(0, 1) * 0.5) @ x.permute(1, 2, 0)


@pytest.mark.parametrize("name", RUNS_OF_NOTHING)
def test_a_size_at_which_onnxruntime_ends_the_process_is_refused_or_right(name: str) -> None:
    made, shape, names = RUNS_OF_NOTHING[name]
    torch.manual_seed(0)
    model = made().eval()
    program = irkit.to_onnx(model, (torch.randn(shape),), dynamic_shapes=(names,))
    refused = 0
    for axis in names:
        for size in (0, 1):
            x = torch.randn([size if i == axis else each for i, each in enumerate(shape)])
            try:
                found = program(x)
            except irkit.ContractError as error:
                assert size == 0 and f"{names[axis]} " in error.what
                refused += 1
                continue
            torch.testing.assert_close(found, model(x))
    assert refused
