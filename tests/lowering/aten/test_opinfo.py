"""Converters against torch on inputs that torch's own test suite makes: OpInfo's samples of some of its operators.

Which operators is drawn for each family: `make sweep` takes all of them, and `make coverage` all samples of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from tests.lowering.aten.harness import difference, eager, lowered
from tests.support.draws import drawn

FAMILIES: Mapping[str, str] = {
    "elementwise": """
        __radd__ __rdiv__ __rmod__ __rmul__ __rpow__ __rsub__ abs add addcdiv addcmul ceil clamp clamp_max clamp_min
        copysign deg2rad div fill float_power floor floor_divide fmax fmin fmod frac frexp gcd heaviside hypot lcm ldexp
        lerp maximum minimum mul nan_to_num neg nextafter positive pow rad2deg reciprocal remainder round rsqrt rsub sgn
        sign signbit sqrt square sub true_divide trunc where""",
    "transcendental": """
        acos acosh angle asin asinh atan atan2 atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10
        log1p log2 logaddexp logaddexp2 logit sigmoid sin sinc sinh special.entr special.erfcx special.i0e special.i1
        special.i1e special.log_ndtr special.ndtr special.ndtri special.xlog1py tan tanh xlogy""",
    "activations": """
        nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.hardshrink
        nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.leaky_relu
        nn.functional.logsigmoid nn.functional.mish nn.functional.normalize nn.functional.prelu nn.functional.relu
        nn.functional.relu6 nn.functional.rrelu nn.functional.selu nn.functional.silu nn.functional.softplus
        nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold""",
    "compare": """
        eq ge gt isclose isfinite isin isinf isnan isneginf isposinf isreal le logical_and logical_not logical_or
        logical_xor lt ne""",
    "bitwise": """
        __rand__ __ror__ __rxor__ bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor""",
    "reduce": """
        all amax amin aminmax any argmax argmin count_nonzero dist logsumexp max mean median min nanmean nanmedian
        nanquantile nansum norm prod quantile std std_mean sum sum_to_size trace var var_mean""",
    "scan": "cummax cummin cumprod cumsum cumulative_trapezoid diff logcumsumexp trapezoid trapz",
    "creation": """
        arange eye full full_like linspace logspace new_full new_ones new_zeros ones ones_like scalar_tensor tril
        tril_indices triu triu_indices zero_ zeros zeros_like""",
    "cast": "alias_copy bool byte char clone contiguous double float half int long resolve_conj short to",
    "movement": """
        T H broadcast_tensors broadcast_to chunk diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter dsplit
        expand expand_as expand_copy flatten flip fliplr flipud hsplit mH mT movedim narrow narrow_copy
        nn.functional.channel_shuffle nn.functional.pixel_shuffle nn.functional.pixel_unshuffle permute permute_copy
        ravel reshape reshape_as roll rot90 select select_scatter slice slice_scatter split split_with_sizes
        split_with_sizes_copy squeeze squeeze_copy t t_copy tensor_split transpose transpose_copy unbind unbind_copy
        unflatten unfold unfold_copy unsafe_chunk unsafe_split unsqueeze unsqueeze_copy view view_as view_copy
        vsplit""",
    "joining": """
        _chunk_cat atleast_1d atleast_2d atleast_3d block_diag cartesian_prod cat column_stack constant_pad_nd dstack
        hstack kron meshgrid nn.functional.pad repeat repeat_interleave stack tile vstack""",
    "indexing": """
        __getitem__ _unsafe_masked_index _unsafe_masked_index_put_accumulate argwhere gather index_add index_copy
        index_fill index_put index_reduce index_select masked_fill masked_scatter masked_select nonzero nonzero_static
        put scatter scatter_add scatter_reduce take take_along_dim unravel_index""",
    "sorting": """
        argsort bincount bucketize histc kthvalue mode msort renorm searchsorted sort topk unique unique_consecutive""",
}  # fmt: skip

VALUES_ONLY = frozenset(("argsort", "kthvalue", "mode", "sort", "topk"))
"""Where torch may take any of equal elements: of integers and bools only the values are compared."""


def empty(sample: Any) -> bool:
    """True where some tensor of the sample has no elements."""
    return any(t.numel() == 0 for t in pytree.tree_leaves((sample.input, sample.args)) if isinstance(t, torch.Tensor))


def bounds_of_nothing(sample: Any) -> bool:
    """True where both the sorted row and what is searched in it have no elements."""
    return sample.input.numel() == 0


KNOWN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "nn.functional.pad.circular": (empty, "ONNX Runtime refuses Pad in mode wrap for a tensor without elements"),
    "searchsorted": (bounds_of_nothing, "ONNX Runtime's ReduceSum keeps an axis of a tensor without elements"),
    "nn.functional.rrelu": (lambda s: s.kwargs.get("training"), "draws random slopes"),
    "norm.nuc": (lambda s: True, "singular values have no ONNX form"),
    "__rpow__": (lambda s: not s.input.dtype.is_floating_point, "ONNX Runtime takes powers of integers in float64"),
    "unique_consecutive": (
        lambda s: s.kwargs.get("dim") is not None and s.kwargs["dim"] < 0,
        "torch records a wrong shape",
    ),
    "eye": (lambda s: True, "the factory under test turns gradients on"),
    "linspace": (lambda s: s.args[-1] == 0, "the factory under test turns gradients on"),
    "logspace": (lambda s: s.args[1] == 0, "the factory under test turns gradients on"),
    "narrow": (lambda s: isinstance(s.args[1], torch.Tensor), "torch cannot trace a start that is a tensor"),
    "diff": (empty, "the sample under test turns gradients on"),
}
"""Samples left out, and why."""

SAMPLES = 2
OPERATORS = 8
"""How many operators of each family are drawn."""
DTYPES = (torch.float32, torch.int64, torch.bool)


def title_of(info: Any) -> str:
    """The name of an entry of OpInfo."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def cases() -> list[Any]:
    """One pytest parameter for each OpInfo that is drawn of the families."""
    found = []
    for family, names in FAMILIES.items():
        infos = [info for info in op_db if info.name in names.split()]
        chosen = drawn(f"OpInfo, {family}", infos, OPERATORS, key=title_of)
        found += [pytest.param(info, id=f"{family}-{title_of(info)}") for info in chosen]
    return found


def samples_of(info: Any, dtype: torch.dtype, count: int) -> list[Any]:
    """`count` of the operator's samples, spread over those that OpInfo makes."""
    left_out = KNOWN.get(title_of(info), (lambda s: False, ""))[0]
    every = info.sample_inputs("cpu", dtype, requires_grad=False)
    made = list(itertools.islice(every, 60))
    if hasattr(every, "close"):
        every.close()  # a generator under torch.no_grad: to end while something is traced would be recorded
    plain = [s.transform(lambda x: x.detach() if isinstance(x, torch.Tensor) else x) for s in made]
    kept = [s for s in plain if not left_out(s)]
    return kept[:: max(1, len(kept) // count)][:count]


def function_of(info: Any, dtype: torch.dtype) -> Callable[..., Any]:
    """The operator, or what of it is defined where equal elements may change places."""
    if info.name not in VALUES_ONLY or dtype.is_floating_point:
        return info.op
    if info.name == "argsort":
        return lambda x, *args, **kwargs: torch.sort(x, *args, **kwargs)[0]
    return lambda *args, **kwargs: info.op(*args, **kwargs)[0]


def disagreements(info: Any, dtype: torch.dtype, count: int, symbolic: bool) -> list[str]:
    """What went wrong, a line for each sample."""
    function, found = function_of(info, dtype), []
    for sample in samples_of(info, dtype, count):
        args = (sample.input, *sample.args)
        if not eager(function, *args, **sample.kwargs):
            continue
        gap = difference(function, *args, symbolic=symbolic, **sample.kwargs)
        if gap is not None:
            found.append(f"{dtype} {described(args, sample.kwargs)}: {gap}")
    return found


def described(*arguments: Any) -> str:
    """Arguments with tensors as their types."""

    def short(x: Any) -> Any:
        return f"{x.dtype}{list(x.shape)}" if isinstance(x, torch.Tensor) else x

    return str(pytree.tree_map(short, arguments))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", cases())
def test_samples_agree_with_torch(info: Any) -> None:
    kinds = [d for d in DTYPES if d in info.dtypes]
    assert [line for dtype in kinds for line in disagreements(info, dtype, SAMPLES, symbolic=False)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", cases())
def test_a_sample_agrees_with_torch_when_traced_with_symbolic_sizes(info: Any) -> None:
    kinds = [d for d in DTYPES if d in info.dtypes][:1]
    assert [line for dtype in kinds for line in disagreements(info, dtype, 1, symbolic=True)] == []


def test_the_families_name_operators_that_exist() -> None:
    known = {info.name for info in op_db}
    assert {name for names in FAMILIES.values() for name in names.split()} - known == set()


def test_a_wrong_result_is_reported() -> None:
    x = torch.arange(4.0)
    assert difference(torch.exp, x) is None
    case = lowered(torch.exp, x)
    assert case.decomposed == {}
    calls = iter([lambda t: t + 1, lambda t: t + 2])

    def changing(t: torch.Tensor) -> torch.Tensor:
        return next(calls)(t)

    assert difference(changing, x) is not None
