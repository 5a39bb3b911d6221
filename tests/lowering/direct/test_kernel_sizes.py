"""Sizes that torch compares only while it computes, sizes that are equal by chance in the example, and sizes of 1.

What eager refuses the contract refuses, by both ways of capture, and what a program takes it answers as eager does.
`make both-ways` found each of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import irkit
from tests.tables.coverage.hop_programs import Of, associative_pairs, scanned_tree

WAYS = ("direct", "torch.export")
CROSSED: Any = ([0, 1], [1, 0])
Shapes = tuple[tuple[int, ...], ...]


def drawn(shapes: Shapes) -> tuple[torch.Tensor, ...]:
    """Tensors of these shapes."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def program_of(function: Callable[..., Any], example: Shapes, capture: str) -> Any:
    """The program of a function whose sizes above 1 all vary."""
    axes = tuple({axis: Dim.AUTO for axis, size in enumerate(shape) if size > 1} for shape in example)
    return irkit.to_onnx(Wrapped(function), drawn(example), dynamic_shapes={"tensors": axes}, capture=capture)


class Wrapped(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def answers(program: Any, function: Callable[..., Any], shapes: Shapes) -> str:
    """Whether a program answers as eager does, refuses what eager does, or what eager takes."""
    given = drawn(shapes)
    try:
        expected = function(*given)
    except (IndexError, RuntimeError):
        with pytest.raises(irkit.ContractError):
            program.feeds(given, {})
        return "refused by eager"
    try:
        program.feeds(given, {})
    except irkit.ContractError:
        return "refused"
    torch.testing.assert_close(program(*given), expected, equal_nan=True)
    return "taken"


def softmax_backward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._softmax_backward_data(x, y, 0, torch.float32)


def normalized(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x, 1, weight, bias)


def learnt(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, mean.clone(), variance.abs().clone(), training=True)


def chosen(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_select(mask > 0)


def cross_entropy(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, (labels > 0).long())


def put_there(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return x.index_put(((rows * 0).long(), (columns * 0).long()), new, accumulate=True)


def assigned(x: torch.Tensor, rows: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, (rows * 0).long()] = new
    return x


def strided_part(x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    return x.as_strided_scatter(part.mT.contiguous(), (2, 1), (2, 1), 1)


COMPARED: dict[str, tuple[Callable[..., Any], Shapes, list[Shapes]]] = {
    "softmax backward": (softmax_backward, ((5,), (5,)), [((8,), (1,)), ((1,), (1,)), ((3,), (3,))]),
    "group norm": (normalized, ((2, 6, 3), (6,), (6,)), [((2, 6, 3), (1,), (6,)), ((1, 6, 3), (6,), (6,))]),
    "batch norm": (learnt, ((5, 5, 5), (5,), (5,)), [((8, 1, 7), (6,), (4,)), ((3, 2, 4), (2,), (2,))]),
    "select_scatter": (lambda x, y: x.select_scatter(y, 0, 1), ((5, 5, 5), (5, 5)), [((5, 5, 5), (1, 5))]),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0), ((4, 5), (4, 5)), [((4, 1), (4, 5)), ((4, 5), (4, 1))]),
    "index_put": (put_there, ((4, 5), (3, 1), (1, 2), (3, 2)), [
        ((4, 5), (4, 1), (1, 2), (3, 2)), ((4, 5), (3, 1), (1, 4), (3, 2)), ((4, 5), (1, 1), (1, 2), (3, 2)),
        ((4, 5), (3, 1), (1, 2), (1, 2)), ((4, 5), (3, 1), (1, 0), (3, 2)),
    ]),
    "assigned": (assigned, ((4, 5), (3,), (4, 3)), [
        ((4, 5), (2,), (4, 3)), ((4, 5), (3,), (2, 3)), ((4, 5), (3,), (1, 3)), ((4, 5), (3,), (4, 1)),
    ]),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2)), ((3, 3),), [((1, 1),), ((3, 1),), ((2, 2),), ((0, 3),)]),
    "as_strided_copy": (lambda x: torch.as_strided_copy(x, (2, 2), (1, 2)), ((3, 3),), [((1, 1),), ((1, 4),)]),
    "as_strided_scatter": (strided_part, ((3, 3), (1, 2)), [((1, 1), (1, 2)), ((1, 3), (1, 2)), ((2, 2), (1, 2))]),
    "median": (lambda x: torch.median(x, 0).values, ((5,),), [((0,),), ((1,),)]),
    "nanmedian": (lambda x: x[2:].nanmedian(0).values, ((5, 3),), [((2, 3),), ((3, 3),), ((4, 0),), ((2, 0),)]),
    "median of all": (lambda x: x.nanmedian(), ((5, 3),), [((0, 3),), ((1, 1),)]),
    "select": (lambda x: x[:, 2], ((4, 4),), [((4, 2),), ((4, 1),), ((1, 3),)]),
    "select from behind": (lambda x: x[:, -3], ((4, 4),), [((4, 2),), ((4, 3),)]),
    "cond": (lambda x: torch.linalg.cond(x), ((4, 4),), [((0, 4),), ((4, 0),), ((1, 3),)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[None], 2), ((4, 4),), [((0, 4),), ((2, 0),), ((2, 6),)]),
    "cross entropy": (cross_entropy, ((2, 5, 3, 3), (2, 3, 3)), [((2, 5, 16, 3), (2, 7, 3))]),
}  # fmt: skip


@pytest.mark.parametrize("capture", WAYS)
@pytest.mark.parametrize("name", COMPARED)
def test_sizes_that_only_a_kernel_compares_are_conditions(name: str, capture: str) -> None:
    function, example, others = COMPARED[name]
    program = program_of(function, example, capture)
    assert answers(program, function, example) == "taken"
    for shapes in others:
        answers(program, function, shapes)


def reflected(x: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    return torch.linalg.householder_product(x, tau)


def bilinear(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.bilinear(x, y, torch.ones(2, 3, 4), torch.ones(2))


def transposed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose1d(x, weight, stride=2, padding=1, output_padding=1, dilation=2)


TOLD: dict[str, tuple[Callable[..., Any], Shapes, list[Shapes], list[Shapes]]] = {
    "householder_product": (reflected, ((5, 5), (5,)),
        [((7, 6), (4,)), ((5, 5), (0,)), ((4, 1), (1,)), ((2, 0), (0,))], [((3, 4), (2,)), ((4, 3), (4,))]),
    "bilinear": (bilinear, ((8, 3), (8, 4)),
        [((1, 3), (1, 4)), ((0, 3), (0, 4)), ((9, 3), (9, 4))], [((2, 3), (3, 4)), ((2, 2), (2, 4))]),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w), ((1, 6, 3), (6,)),
        [((1, 8, 3), (8,)), ((1, 4, 5), (4,))], [((1, 7, 3), (7,)), ((1, 6, 3), (4,))]),
    "tensorinv": (lambda x: torch.linalg.tensorinv(x.exp(), ind=2), ((2, 3, 6),),
        [((1, 1, 1),), ((2, 0, 0),)], [((2, 3, 5),), ((1, 2, 1),)]),
    "tensorsolve": (lambda x, y: torch.linalg.tensorsolve(x, y), ((2, 3, 6), (2, 3)),
        [((1, 1, 1), (1, 1)), ((2, 4, 8), (2, 4)), ((2, 0, 0), (2, 0)), ((1, 2, 0), (0, 2))],
        [((2, 3, 5), (2, 3)), ((2, 3, 6), (2, 2)), ((0, 3, 6), (2, 3))]),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0, 0, 4), ((4, 4), (4, 4)),
        [((4, 2), (4, 2)), ((7, 5), (4, 5)), ((2, 3), (2, 3)), ((0, 3), (0, 3))], [((7, 5), (5, 5)), ((4, 3), (4, 4))]),
    "conv_transpose": (transposed, ((1, 3, 4), (3, 2, 3)),
        [((1, 3, 1), (3, 2, 3)), ((1, 2, 1), (2, 4, 2)), ((1, 1, 3), (1, 2, 1))], [((1, 3, 1), (3, 2, 0))]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[None], 1), ((4, 4),), [((0, 4),), ((4, 0),), ((1, 1),)], []),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_an_operator_requires_is_told_for_all_sizes(name: str) -> None:
    function, example, taken, refused = TOLD[name]
    program = program_of(function, example, "direct")
    for shapes in (example, *taken):
        assert answers(program, function, shapes) == "taken", shapes
    for shapes in refused:
        assert answers(program, function, shapes) == "refused by eager", shapes


SCALED: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "addmm": (torch.addmm, "np", "nm", "mp"), "baddbmm": (torch.baddbmm, "bnp", "bnm", "bmp"),
    "addbmm": (torch.addbmm, "np", "bnm", "bmp"),
}  # fmt: skip


@pytest.mark.parametrize("capture", WAYS)
@pytest.mark.parametrize("name", SCALED)
def test_integers_are_scaled_by_no_integer_where_there_is_something_to_multiply(name: str, capture: str) -> None:
    product, *named = SCALED[name]
    function = lambda *given: product(*given, beta=0.6)  # noqa: E731

    def ones(sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.ones([sizes[each] for each in names], dtype=torch.int64) for names in named)

    axes = tuple(dict(enumerate(names)) for names in named)
    example = ones(dict(zip("bnmp", (3, 4, 5, 6), strict=True)))
    program = irkit.to_onnx(Wrapped(function), example, dynamic_shapes={"tensors": axes}, capture=capture)
    for sizes in itertools.product((0, 2), repeat=4):
        given = ones(dict(zip("bnmp", sizes, strict=True)))
        try:
            expected = function(*given)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(*given)
        else:
            assert torch.equal(program(*given), expected), sizes


@pytest.mark.parametrize("shapes", [((1, 4), (4, 4)), ((4, 4), (1, 4)), ((4, 1), (4, 4)), ((6, 3), (2, 3))])
def test_a_mask_of_other_names_chooses_what_eager_does(shapes: Shapes) -> None:
    program = program_of(chosen, ((4, 4), (4, 4)), "direct")
    assert answers(program, chosen, shapes) != "refused"
    assert answers(program, chosen, ((6, 3), (6, 3))) == "taken"


@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")  # torch runs them at sizes that broadcast, too
@pytest.mark.parametrize(
    ("function", "example", "shapes"),
    (
        (lambda x, a, b: torch.addmm(x, a, b), ((2, 3), (2, 2), (2, 3)), ((4, 3), (4, 7), (7, 3))),
        (lambda x, a, b: torch.baddbmm(x, a, b), ((5, 5, 4), (5, 5, 5), (5, 5, 4)), ((2, 3, 4), (2, 3, 6), (2, 6, 4))),
        (lambda x, y: torch.tensordot(x, y, dims=CROSSED), ((2, 2, 2), (2, 2, 2)), ((3, 4, 5), (4, 3, 6))),
        (lambda x, y: F.kl_div(x, y, reduction="batchmean"), ((4, 4), (4, 4)), ((3, 5), (3, 5))),
        (lambda x, y: F.soft_margin_loss(x, y), ((4, 4), (4, 4)), ((3, 5), (3, 5))),
        (lambda x, y: F.l1_loss(x, y), ((2, 3, 4), (2, 3, 4)), ((1, 3, 4), (1, 3, 4))),
        (lambda x, y: F.mse_loss(x, y), ((2, 3), (2, 3)), ((1, 1), (1, 1))),
    ),
)  # fmt: skip
def test_sizes_that_are_equal_by_chance_stay_apart(function: Any, example: Shapes, shapes: Shapes) -> None:
    program = program_of(function, example, "direct")
    assert answers(program, function, example) == answers(program, function, shapes) == "taken"


@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_a_loss_of_one_row_beside_others_is_refused_or_right() -> None:
    function = lambda x, y: F.l1_loss(x, y)  # noqa: E731
    program = program_of(function, ((2, 3, 4), (2, 3, 4)), "direct")
    for shapes in (((2, 3, 4), (1, 3, 4)), ((1, 3, 4), (2, 3, 4)), ((2, 1, 4), (2, 3, 1)), ((2, 3, 4), (1, 1, 1))):
        answers(program, function, shapes)


# ---------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize("capture", WAYS)
def test_what_a_scan_walks_along_has_one_length(capture: str) -> None:
    model = Of(scanned_tree).eval()
    axes = {"tensors": ({0: Dim.AUTO}, {0: Dim.AUTO})}
    program = irkit.to_onnx(model, (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=axes, capture=capture)
    with pytest.raises(irkit.ContractError):
        program(torch.randn(1, 4), torch.randn(5, 4))
    given = torch.randn(6, 4), torch.randn(6, 4)
    torch.testing.assert_close(program(*given), model(*given))


def test_pairs_of_an_associative_scan_have_one_length() -> None:
    model = Of(associative_pairs).eval()
    axes = {"tensors": ({1: Dim.AUTO}, {1: Dim.AUTO})}
    program = irkit.to_onnx(model, (torch.randn(3, 5), torch.randn(3, 5)), dynamic_shapes=axes, capture="direct")
    with pytest.raises(irkit.ContractError):
        program(torch.randn(3, 6), torch.randn(3, 7))
    for length in (1, 8):
        given = torch.randn(3, length), torch.randn(3, length)
        torch.testing.assert_close(program(*given), model(*given))
    with pytest.raises(irkit.ContractError):
        program(torch.randn(3, 0), torch.randn(3, 0))


def test_a_scan_carries_what_it_began_with() -> None:
    def summed(start: torch.Tensor, x: torch.Tensor) -> Any:
        return scan(lambda carried, each: (carried + each, carried * each), start, x)

    axes = {"tensors": ({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO})}
    given = torch.randn(2, 3), torch.randn(4, 2, 3)
    program = irkit.to_onnx(Wrapped(summed), given, dynamic_shapes=axes, capture="direct")
    with pytest.raises(irkit.ContractError):
        program(torch.randn(2, 1), torch.randn(4, 2, 3))
    other = torch.randn(5, 2), torch.randn(3, 5, 2)
    for found, expected in zip(program(*other), summed(*other), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("driver", ("gels", "gelsd"))
@pytest.mark.parametrize(
    "shapes",
    (((1, 4, 3), (2, 4, 5)), ((2, 4, 3), (1, 4, 5)), ((2, 1, 4, 3), (2, 3, 4, 2)), ((1, 3, 4), (2, 3, 5))),
)
@pytest.mark.parametrize("capture", WAYS)
def test_least_squares_broadcast_their_batches(capture: str, shapes: Shapes, driver: str) -> None:
    def model(*tensors: torch.Tensor) -> Any:
        found = torch.linalg.lstsq(*tensors, driver=driver)
        return found.solution, found.residuals, found.rank

    def wider(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*(size + (size > 1) for size in shape[:-2]), *shape[-2:])

    program = program_of(model, shapes, capture)
    for given in (drawn(shapes), drawn((wider(shapes[0]), wider(shapes[1])))):
        for found, expected in zip(program(*given), model(*given), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(irkit.ContractError):
        program(*drawn((shapes[0], (*shapes[1][:-2], shapes[1][-2] + 1, shapes[1][-1]))))


@pytest.mark.parametrize("vector", [False, True])
def test_what_is_added_to_a_product_has_its_sizes(vector: bool) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        column = x.reshape(-1, 1)
        if vector:
            return torch.addmv(x[:1], x.reshape(1, -1), x)
        return torch.addmm(column[:1], x.reshape(1, -1), column)

    program = irkit.to_onnx(model, (torch.randn(3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (1, 2, 6):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError):
        program(torch.randn(0))


def test_attention_to_nothing_by_queries_of_fewer_axes_is_refused() -> None:
    """Of which torch gives a result without the batch of the keys."""

    def model(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k)

    program = irkit.to_onnx(model, drawn(((3, 2), (1, 5, 2))), dynamic_shapes=({0: "n"}, {1: "m"}), capture="direct")
    for n, m in ((3, 5), (1, 1), (4, 2)):
        given = drawn(((n, 2), (1, m, 2)))
        torch.testing.assert_close(program(*given), model(*given))
    for n, m in ((0, 5), (3, 0)):
        assert model(*drawn(((n, 2), (1, m, 2)))).shape == (n, 2)
        with pytest.raises(irkit.ContractError):
            program(*drawn(((n, 2), (1, m, 2))))
