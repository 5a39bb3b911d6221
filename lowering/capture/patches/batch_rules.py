"""Rules by which `torch.func.vmap` batches operators whose own rules, in C++, make a number of a batch that varies.

Each computes the operator once for the whole batch: along an axis in front of the others; with the batch and the axis
behind it as one, where the operator has a batch of its own; or, for gradients of weights, by a sum for each sample. A
batch that is a number goes torch's own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
import torch
from torch.utils import _pytree as pytree

from lowering.records.torch_internals import BATCHED, FUNCTORCH, PREDISPATCH, C

ATEN = torch.ops.aten
Given = Mapping[str, Any]
"""The arguments of an operator by name, tensors as Parts."""
Rule = Callable[[Any, Any, Given], Any]
"""The results of an operator, each with the batch in front, of the size of the batch and its arguments; None where
torch's own rule shall compute them."""


@attrs.frozen(eq=False)
class Part:
    """A tensor among the arguments, with the batch in front where it has one."""

    tensor: torch.Tensor
    has_batch: bool
    size: Any

    @property
    def rank(self) -> int:
        """How many axes each sample has."""
        return self.tensor.dim() - self.has_batch

    def whole(self) -> torch.Tensor:
        """The same with the batch in front."""
        return self.tensor if self.has_batch else self.tensor.expand(self.size, *self.tensor.shape)


def require_samples(size: Any) -> None:
    """Keeps that there are samples: of none torch's own rule gives other sizes, or nothing."""
    torch._check(size >= 1, lambda: "vmap: a batch of no samples is none that torch's rule takes")


# ---------------------------------------------------------------------------------------------- an axis in front


def in_front(operator: Any, size: Any, given: Given, alone: Sequence[str] = ()) -> Any:
    """An operator along axes behind the batch; tensors that are named `alone` must have none."""
    if any(part.rank == 0 for part in parts_of(given)) or any(given[name].has_batch for name in alone):
        return None

    def moved(name: str, each: Any) -> Any:
        if name == "dim":
            return each + 1 if each >= 0 else each
        if name == "tensors":
            return [part.whole() for part in each]
        if isinstance(each, Part):
            return each.tensor if name in alone else each.whole()
        return [size, *each] if name == "input_sizes" else each

    return operator(**{name: moved(name, each) for name, each in given.items()})


def with_samples(operator: Any, size: Any, given: Given) -> Any:
    """The same, of an operator for which torch has no rule, and so takes no batch of nothing."""
    require_samples(size)
    return in_front(operator, size, given)


def with_number(operator: Any, size: Any, given: Given) -> None:
    """Keeps that single elements of a batch are some, where an operator is met with a number: eager makes a tensor of
    that, and its rule takes the first element of the batch for the element type. torch's own rule computes it."""
    if given["self"].rank == 0:
        require_samples(size)


def strided(operator: Any, size: Any, given: Given) -> Any:
    """New memory laid out by strides, that of one sample behind that of the other."""
    span = sum([(count - 1) * step for count, step in zip(given["size"], given["stride"], strict=True)], 1)
    told = {"size": [size, *given["size"]], "stride": [span, *given["stride"]]}
    return operator(**{**given, **told, "self": given["self"].tensor})


def looked_up(operator: Any, size: Any, given: Given) -> Any:
    """Rows of a table that is another one for each sample, as those of one table for all."""
    table, indices = given["weight"], given["indices"].whole()
    if not table.has_batch:
        return None
    require_samples(size)
    count = table.tensor.shape[1]
    first = torch.arange(size).view(-1, *[1] * (indices.dim() - 1)) * count
    return operator(table.tensor.flatten(0, 1), indices + first)


def embedded(operator: Any, size: Any, given: Given) -> Any:
    """The gradient of an embedding's weights, of each sample: places of its own in one table for all."""
    places, gradient, count = given["indices"].whole(), given["grad_output"].whole(), given["num_weights"]
    if given["scale_grad_by_freq"]:
        return None
    require_samples(size)
    first = torch.arange(size).view(-1, *[1] * (places.dim() - 1)) * count
    counts = (places != given["padding_idx"]).unsqueeze(-1)
    rows = (places + first).flatten()
    values = torch.where(counts, gradient, 0).flatten(0, places.dim() - 1)
    table = gradient.new_zeros((size * count, gradient.shape[-1])).index_add(0, rows, values)
    return table.view(size, count, gradient.shape[-1])


# ---------------------------------------------------------------------------------------------- two axes as one


def folded(operator: Any, size: Any, given: Given, rank: int, single: Sequence[str] = ()) -> Any:
    """An operator on samples of images: the batch and the axis in front of `rank` others are one. Tensors that are
    named `single` are weights, which must have no batch."""
    held = {name: each for name, each in given.items() if isinstance(each, Part)}
    if any(held[name].has_batch for name in single if name in held):
        return None
    images = [each for name, each in held.items() if name not in single]
    if all(each.rank == rank for each in images):
        return operator(**{name: tensor_of(each, name in single) for name, each in given.items()})
    if any(each.rank != rank + 1 for each in images):
        return None
    count = images[0].whole().shape[1]

    def one(name: str, each: Any) -> Any:
        if isinstance(each, Part):
            return each.tensor if name in single else each.whole().flatten(0, 1)
        return [size * count, *each[1:]] if name == "input_size" else each

    made = operator(**{name: one(name, each) for name, each in given.items()})
    return pytree.tree_map_only(torch.Tensor, lambda each: parted(each, size, count), made)


def parted(made: torch.Tensor, size: Any, count: Any, axis: int = 0) -> torch.Tensor:
    """The samples and the axis behind them, which are one; torch's rules forget how many images none would have."""
    require_samples(size)
    return made.unflatten(axis, (size, count))


def attention(operator: Any, size: Any, given: Given) -> Any:
    """Attention, or its gradient, with the same mask for all samples."""
    mask = given["attn_mask"]
    if mask is not None and (mask.has_batch or mask.rank != 2):
        return None
    count = given["query"].whole().shape[1]
    told = {n: e.whole().flatten(0, 1) if isinstance(e, Part) and n != "attn_mask" else e for n, e in given.items()}
    made = operator(**{**told, "attn_mask": None if mask is None else mask.tensor})
    return tuple(parted(each, size, count) for each in made)


def tensor_of(given: Any, alone: bool) -> Any:
    """A tensor with the batch in front, unless it is `alone`; anything else as it is."""
    return (given.tensor if alone else given.whole()) if isinstance(given, Part) else given


def convolved_back(operator: Any, size: Any, given: Given) -> Any:
    """The gradients of a convolution, that of its weights for each sample by what lies below the kernel at each
    place."""
    asked, weight, image = given["output_mask"], given["weight"], given["input"]
    gradient = given["grad_output"].whole()
    rank = weight.rank - 2
    if weight.has_batch or image.rank != rank + 2 or (asked[1] and (given["transposed"] or rank > 2)):
        return None
    of_image = of_weight = of_bias = None
    if asked[0]:
        told = {**given, "bias_sizes": None, "output_mask": [True, False, False]}
        of_image = folded(lambda **own: operator(**own)[0], size, told, rank + 1, ("weight",))
    if asked[1]:
        of_weight = weights_of_samples(image.whole(), gradient, weight.tensor, given)
    if asked[2]:
        of_bias = gradient.sum([1, *range(3, gradient.dim())])
    return of_image, of_weight, of_bias


def weights_of_samples(image: torch.Tensor, gradient: torch.Tensor, weight: torch.Tensor, given: Given) -> torch.Tensor:
    """The gradient of a convolution's weights for each sample, (samples, *weight)."""
    groups, kernel = given["groups"], list(weight.shape[2:])
    stride, padding, dilation = (list(given[name]) for name in ("stride", "padding", "dilation"))
    if len(kernel) == 1:
        image, kernel = image.unsqueeze(-2), [1, *kernel]
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    samples, count = image.shape[0], image.shape[1]
    columns = ATEN.im2col.default(image.flatten(0, 1), kernel, dilation, padding, stride)
    columns = columns.view(samples, count, groups, -1, columns.shape[-1])
    rows = gradient.flatten(3).unflatten(2, (groups, weight.shape[0] // groups))
    found = torch.matmul(rows, columns.transpose(-1, -2)).sum(1)
    return found.reshape(samples, *weight.shape)


# ---------------------------------------------------------------------------------------------- norms


def layer_norm(operator: Any, size: Any, given: Given) -> Any:
    """native_layer_norm, whose axes are the last ones."""
    if has_batched_weights(given):
        return None
    return operator(**{name: tensor_of(each, name in WEIGHTS) for name, each in given.items()})


def layer_norm_back(operator: Any, size: Any, given: Given) -> Any:
    """The gradients of native_layer_norm, those of weights for each sample."""
    if has_batched_weights(given):
        return None
    told = {**given, "output_mask": [given["output_mask"][0], False, False]}
    of_input = operator(**{name: tensor_of(each, name in WEIGHTS) for name, each in told.items()})[0]
    x, gradient, mean, rstd = (given[name].whole() for name in ("input", "grad_out", "mean", "rstd"))
    axes = list(range(1, x.dim() - len(given["normalized_shape"])))
    return (
        of_input,
        total((x - mean) * rstd * gradient, axes) if given["output_mask"][1] else None,
        total(gradient, axes) if given["output_mask"][2] else None,
    )


def group_norm(operator: Any, size: Any, given: Given) -> Any:
    """native_group_norm, of as many images as all samples have."""
    if has_batched_weights(given):
        return None
    count, images = given["N"], given["input"].whole().flatten(0, 1)
    made = operator(**{**plain(given), "input": images, "N": size * count})
    return tuple(parted(each, size, count) for each in made)


def group_norm_back(operator: Any, size: Any, given: Given) -> Any:
    """The gradients of native_group_norm, those of weights for each sample."""
    if has_batched_weights(given):
        return None
    count, groups, channels = given["N"], given["group"], given["C"]
    x, gradient, mean, rstd = (given[name].whole() for name in ("input", "grad_out", "mean", "rstd"))
    flat = {"input": x, "grad_out": gradient, "mean": mean, "rstd": rstd}
    told = {**plain(given), **{name: each.flatten(0, 1) for name, each in flat.items()}, "N": size * count}
    asked = given["output_mask"]
    of_input = parted(operator(**{**told, "output_mask": [True, False, False]})[0], size, count)
    back = gradient.reshape(size, count, channels, -1)
    spread = x.reshape(size, count, groups, -1)
    normal = ((spread - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)).reshape(size, count, channels, -1)
    return (
        of_input if asked[0] else None,
        (normal * back).sum((1, 3)) if asked[1] else None,
        back.sum((1, 3)) if asked[2] else None,
    )


def batch_norm(operator: Any, size: Any, given: Given) -> Any:
    """native_batch_norm and its like: with statistics that are given, of as many images as all samples have; else of as
    many channels. Statistics that the operator writes are left to torch."""
    weights = [given[name].tensor if given[name] is not None else None for name in WEIGHTS]
    trains = given.get("training", False)
    if has_batched_weights(given) or (trains and given.get("running_mean") is not None):
        return None
    x = given["input"].whole()
    told = {**plain(given), "weight": None, "bias": None}
    if not trains:
        out = parted(operator(**{**plain(given), "input": x.flatten(0, 1)})[0], size, x.shape[1])
        return out, x.new_empty((size, 0)), x.new_empty((size, 0))
    out, mean, rstd = operator(**{**told, "input": channels_as_one(x)})
    out = parted(out, size, x.shape[2], 1).movedim(1, 0)
    for weight, apply in zip(weights, (torch.mul, torch.add), strict=True):
        out = out if weight is None else apply(out, weight.view(-1, *[1] * (x.dim() - 3)))
    return out, mean.view(size, -1), rstd.view(size, -1)


def batch_norm_back(operator: Any, size: Any, given: Given) -> Any:
    """The gradients of native_batch_norm, those of weights for each sample."""
    trained, asked = given["train"], given["output_mask"]
    if has_batched_weights(given) or (trained and given["running_mean"] is not None):
        return None
    x, gradient = given["input"].whole(), given["grad_out"].whole()
    spread = (1, -1, *[1] * (x.dim() - 3))
    told, weight = {**plain(given), "output_mask": [True, False, False]}, given["weight"]
    if trained:
        mean, rstd = given["save_mean"].whole(), given["save_invstd"].whole()
        scaled = gradient if weight is None else gradient * weight.tensor.view(spread)
        own = {"input": channels_as_one(x), "grad_out": channels_as_one(scaled), "weight": None}
        own |= {"save_mean": mean.flatten(), "save_invstd": rstd.flatten()}
        of_input = parted(operator(**{**told, **own})[0], size, x.shape[2], 1).movedim(1, 0)
        mean, rstd = (each.view(size, *spread) for each in (mean, rstd))
    else:
        own = {"input": x.flatten(0, 1), "grad_out": gradient.flatten(0, 1)}
        of_input = parted(operator(**{**told, **own})[0], size, x.shape[1])
        mean, rstd = (given[name].tensor.view(spread) for name in ("running_mean", "running_var"))
        rstd = (rstd + given["eps"]).rsqrt()
    axes = [1, *range(3, x.dim())]
    return (
        of_input if asked[0] else None,
        total((x - mean) * rstd * gradient, axes) if asked[1] else None,
        total(gradient, axes) if asked[2] else None,
    )


def channels_as_one(x: torch.Tensor) -> torch.Tensor:
    """(samples, images, channels, ...) as (images, samples * channels, ...)."""
    return x.movedim(0, 1).flatten(1, 2)


WEIGHTS = ("weight", "bias")


def has_batched_weights(given: Given) -> bool:
    """Whether a weight is another one for each sample."""
    return any(isinstance(given.get(name), Part) and given[name].has_batch for name in WEIGHTS)


def plain(given: Given) -> dict[str, Any]:
    """Arguments with tensors as they are."""
    return {name: each.tensor if isinstance(each, Part) else each for name, each in given.items()}


def total(values: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The sum along axes, of which there may be none."""
    return values.sum(list(axes)) if axes else values


# ---------------------------------------------------------------------------------------------- the table


def rules() -> dict[Any, Rule]:
    """The rule of each operator."""
    front = (
        "cat.default", "gather.default", "scatter.value", "scatter.src", "scatter.reduce", "scatter.value_reduce",
        "scatter_add.default", "scatter_reduce.two", "slice_backward.default", "gelu_backward.default",
    )  # fmt: skip
    matrices = (
        "linalg_cholesky_ex.default", "linalg_inv_ex.default", "_linalg_det.default", "_linalg_slogdet.default",
        "_linalg_solve_ex.default", "_linalg_eigh.default", "_linalg_svd.default", "linalg_qr.default",
        "linalg_lu.default", "linalg_lu_factor_ex.default", "linalg_lu_solve.default",
        "linalg_solve_triangular.default",
    )  # fmt: skip
    pools = (
        "max_pool2d_with_indices.default", "max_pool2d_with_indices_backward.default", "avg_pool2d.default",
        "avg_pool2d_backward.default", "_adaptive_avg_pool2d.default", "_adaptive_avg_pool2d_backward.default",
        "max_pool3d_with_indices.default", "max_pool3d_with_indices_backward.default", "avg_pool3d.default",
        "avg_pool3d_backward.default", "_adaptive_avg_pool3d.default", "_adaptive_avg_pool3d_backward.default",
    )  # fmt: skip
    resized = ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
    found: dict[Any, Rule] = {named(name): in_front for name in (*front, *matrices)}
    found |= {named(name): partial(folded, rank=4 if "3d" in name else 3) for name in pools}
    for name in resized:
        rank = int(name[-2]) + 1
        found |= {named(f"upsample_{name}{end}.default"): partial(folded, rank=rank) for end in ("", "_backward")}
    found |= {named(f"{name}.Scalar"): with_number for name in ("add", "sub", "mul", "div")}
    return found | {
        ATEN.div.Scalar_mode: with_number,
        ATEN.index_add.default: partial(in_front, alone=("index",)),
        ATEN.unfold_backward.default: with_samples,
        ATEN.embedding_dense_backward.default: embedded,
        ATEN.new_empty_strided.default: strided,
        ATEN.embedding.default: looked_up,
        ATEN.native_batch_norm.default: batch_norm,
        ATEN._native_batch_norm_legit.no_stats: batch_norm,
        ATEN._native_batch_norm_legit_no_training.default: batch_norm,
        ATEN._scaled_dot_product_flash_attention_for_cpu.default: attention,
        ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default: attention,
        ATEN.native_batch_norm_backward.default: batch_norm_back,
        ATEN.convolution.default: convolved,
        ATEN.convolution_backward.default: convolved_back,
        ATEN.native_layer_norm.default: layer_norm,
        ATEN.native_layer_norm_backward.default: layer_norm_back,
        ATEN.native_group_norm.default: group_norm,
        ATEN.native_group_norm_backward.default: group_norm_back,
    }


def named(name: str) -> Any:
    """The operator of ATen of a name."""
    packet, overload = name.split(".")
    return getattr(getattr(ATEN, packet), overload)


def convolved(operator: Any, size: Any, given: Given) -> Any:
    """A convolution whose weights are those of all samples."""
    return folded(operator, size, given, given["weight"].rank - 1, WEIGHTS)


def kernel_of(operator: Any, rule: Rule) -> Callable[..., Any]:
    """What torch calls for an operator on tensors of a batch."""
    names = [(each.name, each.default_value) for each in operator._schema.arguments]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        level = FUNCTORCH.maybe_current_level()
        given = {**dict(zip((name for name, _ in names), args, strict=False)), **kwargs}
        given = {name: given.get(name, default) for name, default in names}
        size = batch_of(given, level)
        if size is not None and any(varies(each) for each in pytree.tree_leaves(given)):
            with C._ExcludeDispatchKeyGuard(C.DispatchKeySet(BATCHED)):
                found = rule(operator, size, opened(given, level, size))
            if found is not None:
                return pytree.tree_map_only(
                    torch.Tensor, lambda each: FUNCTORCH._add_batch_dim(each, 0, level), found
                )  # fmt: skip
        return operator._op_dk(BATCHED, *args, **kwargs)

    return kernel


def varies(given: Any) -> bool:
    """Whether something is a tensor of which some size varies."""
    if not isinstance(given, torch.Tensor):
        return False
    while FUNCTORCH.is_functorch_wrapped_tensor(given):
        given = FUNCTORCH.get_unwrapped(given)
    return any(isinstance(size, torch.SymInt) for size in given.shape)


def is_batched(given: Any, level: Any) -> bool:
    """Whether something is a tensor of the batch of a level."""
    if not isinstance(given, torch.Tensor) or not FUNCTORCH.is_batchedtensor(given):
        return False
    return FUNCTORCH.maybe_get_level(given) == level


def batch_of(given: Given, level: Any) -> Any:
    """The size of the batch of a level; None where no argument has it."""
    batched = next((each for each in pytree.tree_leaves(dict(given)) if is_batched(each, level)), None)
    return None if batched is None else FUNCTORCH.get_unwrapped(batched).shape[FUNCTORCH.maybe_get_bdim(batched)]


def opened(given: Given, level: Any, size: Any) -> Given:
    """Arguments with tensors as Parts."""

    def part(each: torch.Tensor) -> Part:
        if not is_batched(each, level):
            return Part(each, False, size)
        return Part(FUNCTORCH.get_unwrapped(each).movedim(FUNCTORCH.maybe_get_bdim(each), 0), True, size)

    return pytree.tree_map_only(torch.Tensor, part, dict(given))


def parts_of(given: Given) -> list[Part]:
    """The tensors among arguments."""
    return [each for each in pytree.tree_leaves(dict(given)) if isinstance(each, Part)]


KERNELS: Mapping[Any, Callable[..., Any]] = MappingProxyType({o: kernel_of(o, rule) for o, rule in rules().items()})
"""What stands for torch's own rule of each operator."""


@contextmanager
def batch_rules() -> Iterator[None]:
    """A block in which operators are batched by these rules, where a batch varies: from where a first batch begins, for
    most models have none, and the tables of as many operators take longer to fill than small models to be captured."""
    begun = PREDISPATCH._vmap_increment_nesting_impl
    filled: list[Any] = []

    def begin(size: Any, randomness: str) -> int:
        if not filled:
            filled.extend(KERNELS)
            for operator, kernel in KERNELS.items():
                operator.py_kernels[BATCHED] = kernel
                operator._dispatch_cache.pop(BATCHED, None)
        return begun(size, randomness)

    PREDISPATCH._vmap_increment_nesting_impl = begin
    try:
        yield
    finally:
        PREDISPATCH._vmap_increment_nesting_impl = begun
        for operator in filled:
            operator.py_kernels.pop(BATCHED, None)
            operator._dispatch_cache.pop(BATCHED, None)
