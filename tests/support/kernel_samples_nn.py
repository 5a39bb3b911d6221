"""Random applications of the larger operators: products, convolutions, pooling, normalization, attention, images."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.core.types import DType
from tests.support.kernel_samples import F32, Draw, Maker, Sample, indices
from tests.support.onnxruntime_node import dtypes


def floats(op: str) -> list[DType]:
    """The floating-point types for which there is a kernel."""
    return [k for k in dtypes(op) if k.is_float]


def sample_MatMul(d: Draw) -> Sample:
    """Vectors, matrices, batches that broadcast."""
    kind = d.dtype("MatMul")
    # Without inner places ONNX Runtime leaves results of batches unwritten, and refuses unsigned matrices.
    n, m, k = d.number(0, 4), d.number(0, 4), d.number(1, 4)
    lead = d.shape(0, 2, least=1)
    a = d.array(kind, (*lead, n, k) if d.flag() else (n, k))
    b = d.array(kind, (*(1 if d.flag() else s for s in lead), k, m) if d.flag() else (k, m))
    if d.flag():
        a = d.array(kind, (k,))
    return Sample((a, b))


def sample_Gemm(d: Draw) -> Sample:
    """Transposed and scaled, with a bias of every shape."""
    kind = d.dtype("Gemm")
    n, k, m = (d.number(1, 4) for _ in range(3))
    left, right = d.flag(), d.flag()
    bias = d.array(kind, d.pick([(), (m,), (1, m), (n, 1), (n, m)])) if d.flag() else None
    return Sample(
        (d.array(kind, (k, n) if left else (n, k)), d.array(kind, (m, k) if right else (k, m)), bias),
        {"transA": left, "transB": right, "alpha": d.pick([1.0, 0.5]), "beta": d.pick([1.0, 0.0, 2.0])},
    )


def sample_Einsum(d: Draw) -> Sample:
    """Contractions, transpositions, batches, an ellipsis."""
    kind = d.pick([F32, DType.DOUBLE])
    i, j, k = (d.number(1, 3) for _ in range(3))
    equation, *shapes = d.pick(
        [
            ("ij,jk->ik", (i, j), (j, k)),
            ("ij->ji", (i, j)),
            ("bij,bjk->bik", (2, i, j), (2, j, k)),
            ("ij->", (i, j)),
            ("...ij,...jk->...ik", (2, i, j), (2, j, k)),
            ("i,j->ij", (i,), (j,)),
            ("ii->i", (i, i)),
        ]
    )
    return Sample(tuple(d.array(kind, s) for s in shapes), {"equation": equation})


def sample_Det(d: Draw) -> Sample:
    """Square matrices."""
    n = d.number(1, 4)
    return Sample((d.array(F32, (*d.shape(0, 1, least=1), n, n)),), rtol=1e-4)


def sample_MatMulInteger(d: Draw) -> Sample:
    """Zero points of the whole matrix, by row, by column."""
    left, right = d.dtype("MatMulInteger"), d.dtype("MatMulInteger", 1)
    n, k, m = (d.number(1, 4) for _ in range(3))
    a_zero = d.array(left, ()) if d.flag() else None
    b_zero = d.array(right, d.pick([(), (m,)])) if d.flag() else None
    return Sample((d.array(left, (n, k), -100, 100), d.array(right, (k, m), -100, 100), a_zero, b_zero))


def geometry(d: Draw, rank: int, kernel: list[int], size: list[int]) -> dict[str, Any]:
    """Strides, dilations and pads under which at least one window fits."""
    found: dict[str, Any] = {"strides": [d.number(1, 2) for _ in range(rank)]}
    found["dilations"] = [d.number(1, 2) if size[i] >= 2 * (kernel[i] - 1) + 1 else 1 for i in range(rank)]
    if d.flag():
        found["pads"] = [d.number(0, kernel[i % rank] - 1) for i in range(2 * rank)]
    elif d.flag() and all(x == 1 for x in found["dilations"]):
        found["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return found


def sample_Conv(d: Draw) -> Sample:
    """One to three dimensions, groups, pads, dilations, bias."""
    rank, group = d.number(1, 3), d.number(1, 2)
    kernel = [d.number(1, 3) for _ in range(rank)]
    size = [d.number(k, 5) for k in kernel]
    channels, outputs = group * d.number(1, 2), group * d.number(1, 2)
    x, w = d.array(F32, (d.number(1, 2), channels, *size)), d.array(F32, (outputs, channels // group, *kernel))
    bias = d.array(F32, (outputs,)) if d.flag() else None
    return Sample((x, w, bias), {"group": group, **geometry(d, rank, kernel, size)})


def sample_ConvTranspose(d: Draw) -> Sample:
    """One or two dimensions, groups, output padding."""
    rank, group = d.number(1, 2), d.number(1, 2)
    kernel = [d.number(1, 3) for _ in range(rank)]
    channels, outputs = group * d.number(1, 2), d.number(1, 2)
    x = d.array(F32, (d.number(1, 2), channels, *(d.number(2, 4) for _ in range(rank))))
    w = d.array(F32, (channels, outputs, *kernel))
    strides = [d.number(1, 3) for _ in range(rank)]
    attributes: dict[str, Any] = {"group": group, "strides": strides, "dilations": [d.number(1, 2) for _ in kernel]}
    if d.flag():
        attributes["pads"] = [d.number(0, kernel[i % rank] - 1) // 2 for i in range(2 * rank)]
        attributes["output_padding"] = [d.number(0, s - 1) for s in strides]
    bias = d.array(F32, (group * outputs,)) if d.flag() else None
    return Sample((x, w, bias), attributes)


def sample_ConvInteger(d: Draw) -> Sample:
    """Zero points of both operands."""
    kind = DType.UINT8
    x, w = d.array(kind, (1, 2, 4, 4), 0, 255), d.array(kind, (d.number(1, 2), 2, 2, 2), 0, 255)
    zero = d.array(kind, (), 0, 255) if d.flag() else None
    return Sample((x, w, zero, d.array(kind, (), 0, 255) if zero is not None and d.flag() else None))


def sample_Col2Im(d: Draw) -> Sample:
    """Overlapping blocks."""
    block, image = [d.number(1, 2), d.number(1, 3)], [d.number(3, 5), d.number(3, 5)]
    strides, pads = [d.number(1, 2), d.number(1, 2)], [0, 0, 0, 0]
    count = int(np.prod([(i - b) // s + 1 for i, b, s in zip(image, block, strides, strict=True)]))
    x = d.array(F32, (d.number(1, 2), 2 * int(np.prod(block)), count))
    attributes = {"strides": strides, "pads": pads}
    return Sample((x, np.array(image, np.int64), np.array(block, np.int64)), attributes)


def pooling(op: str, outputs: int | None = None) -> Maker:
    """Windows with every geometry."""

    def make(d: Draw) -> Sample:
        rank = d.number(1, 3)
        kernel = [d.number(1, 3) for _ in range(rank)]
        size = [d.number(k, 6) for k in kernel]
        attributes = {"kernel_shape": kernel, **geometry(d, rank, kernel, size)}
        if "auto_pad" not in attributes:
            attributes["ceil_mode"] = d.flag()
        if op == "AveragePool":
            attributes["count_include_pad"] = d.flag()
        if op == "LpPool":
            attributes["p"] = d.number(1, 3)
            attributes["ceil_mode"] = 0
        if outputs == 2:
            attributes["storage_order"] = d.flag()
            attributes["dilations"] = [1] * rank
        if op == "AveragePool":
            attributes["dilations"] = [1] * rank
        x = d.array(d.dtype(op), (d.number(1, 2), d.number(1, 2), *size))
        return Sample((x,), attributes, outputs)

    return make


def over_space(op: str) -> Maker:
    """The global poolings."""

    def make(d: Draw) -> Sample:
        x = d.array(d.pick(floats(op)), (d.number(1, 2), d.number(1, 3), *d.shape(1, 3, least=1)))
        return Sample((x,))

    return make


# ---------------------------------------------------------------------------------------------- normalization


def sample_LayerNormalization(d: Draw) -> Sample:
    """Any axis, with and without a bias, all three results."""
    kind = d.pick(floats("LayerNormalization"))
    x = d.array(kind, d.shape(1, 4, least=1))
    axis = d.axis(x.ndim)
    shape = x.shape[axis:]
    bias = d.array(kind, shape) if d.flag() else None
    return Sample((x, d.array(kind, shape), bias), {"axis": axis}, d.pick([1, 3]) if kind is F32 else 1, rtol=2e-4)


def sample_RMSNormalization(d: Draw) -> Sample:
    """Any axis."""
    kind = d.pick(floats("RMSNormalization"))
    x = d.array(kind, d.shape(1, 4, least=1))
    axis = d.axis(x.ndim)
    return Sample((x, d.array(kind, x.shape[axis:])), {"axis": axis})


def by_channel(op: str, vectors: int) -> Maker:
    """Normalizations with vectors by channel."""

    def make(d: Draw) -> Sample:
        kind = d.pick(floats(op)) if op != "GroupNormalization" else F32
        groups = d.number(1, 2)
        x = d.array(kind, (d.number(1, 3), groups * d.number(1, 2), *d.shape(1, 2, least=3)))
        given = [d.array(kind, (x.shape[1],), 0.5, 2) for _ in range(vectors)]
        attributes = {"num_groups": groups} if op == "GroupNormalization" else {}
        # Where a group varies little, the variance is a difference of near numbers.
        return Sample((x, *given), {"epsilon": 1e-2, **attributes}, rtol=2e-4, atol=1e-4)

    return make


def sample_LpNormalization(d: Draw) -> Sample:
    """Both norms."""
    x = d.array(d.pick(floats("LpNormalization")), d.shape(1, 3, least=1))
    return Sample((x,), {"axis": d.axis(x.ndim), "p": d.number(1, 2)})


def sample_LRN(d: Draw) -> Sample:
    """Odd sizes."""
    x = d.array(F32, (1, d.number(1, 5), 2, 2))
    return Sample((x,), {"size": d.pick([1, 3, 5]), "alpha": 0.1, "bias": 1.5})


def sample_MeanVarianceNormalization(d: Draw) -> Sample:
    """The usual axes."""
    return Sample((d.array(F32, (2, 2, 3, 2)),))


# ---------------------------------------------------------------------------------------------- attention


def sample_Attention(d: Draw) -> Sample:
    """Self and cross attention, shared key heads, masks, causal, past."""
    kind = F32
    batch, kv, share, size, v_size = d.number(1, 2), d.number(1, 2), d.number(1, 2), 2 * d.number(1, 2), d.number(1, 3)
    queries, keys, past = d.number(1, 3), d.number(1, 3), d.number(0, 2)
    causal = d.flag()
    if causal and past:
        keys = queries  # where they differ, ONNX Runtime aligns the frontier to the last key, ONNX to the past
    heads, flat = kv * share, d.flag()

    def tensor(count: int, length: int, width: int) -> np.ndarray:
        return d.array(kind, (batch, length, count * width) if flat else (batch, count, length, width))

    total = keys + past
    mask = None
    if d.flag():
        shape = d.pick([(queries, total), (batch, 1, queries, total), (batch, heads, queries, total)])
        mask = d.array(d.pick([kind, DType.BOOL]), shape)
        if mask.dtype == np.bool_:
            mask[..., 0] = True  # what a query without any key gives is not the same everywhere
    before = [d.array(kind, (batch, kv, past, width)) for width in (size, v_size)] if past else [None, None]
    attributes: dict[str, Any] = {"is_causal": causal if mask is None else 0}
    if flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv}
    if d.flag():
        attributes["scale"] = 0.5
    if d.flag():
        attributes["softcap"] = 2.0
    operands = (tensor(heads, queries, size), tensor(kv, keys, size), tensor(kv, keys, v_size), mask, *before)
    return Sample(operands, attributes, 3 if past else 1)


def sample_RotaryEmbedding(d: Draw) -> Sample:
    """Whole and part of a head, interleaved or in halves, three and four dimensions."""
    batch, heads, length, half = d.number(1, 2), d.number(1, 2), d.number(1, 3), d.number(1, 2)
    extra, flat, given = 2 * d.flag(), d.flag(), d.flag()
    size = 2 * half + extra
    x = d.array(F32, (batch, length, heads * size) if flat else (batch, heads, length, size))
    cache = (6, half) if given else (batch, length, half)
    positions = indices(d, (batch, length), 6) % 6 if given else None
    attributes = {"interleaved": d.flag()}
    if extra:
        attributes |= {"rotary_embedding_dim": 2 * half, "num_heads": heads}
    if flat:
        attributes["num_heads"] = heads
    return Sample((x, d.array(F32, cache), d.array(F32, cache), positions), attributes)


def recurrent(op: str, gates: int) -> Maker:
    """All directions, lengths, initial states."""

    def make(d: Draw) -> Sample:
        steps, batch, size, hidden = d.number(1, 3), d.number(1, 3), d.number(1, 3), d.number(1, 3)
        direction = d.pick(["forward", "reverse", "bidirectional"])
        ways = 2 if direction == "bidirectional" else 1
        x = d.array(F32, (steps, batch, size))
        w, r = d.array(F32, (ways, gates * hidden, size)), d.array(F32, (ways, gates * hidden, hidden))
        bias = d.array(F32, (ways, 2 * gates * hidden)) if d.flag() else None
        lengths = d.rng.integers(1, steps + 1, batch).astype(np.int32) if d.flag() else None
        states = [d.array(F32, (ways, batch, hidden)) if d.flag() else None for _ in range(2 if op == "LSTM" else 1)]
        attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if op == "GRU":
            attributes["linear_before_reset"] = d.flag()
        peephole = [d.array(F32, (ways, 3 * hidden)) if d.flag() else None] if op == "LSTM" else []
        return Sample((x, w, r, bias, lengths, *states, *peephole), attributes, 3 if op == "LSTM" else 2)

    return make


# ---------------------------------------------------------------------------------------------- images


def sample_Resize(d: Draw) -> Sample:
    """All modes and coordinate modes, by scales and by sizes."""
    mode = d.pick(["nearest", "linear", "cubic"])
    x = d.array(F32, (1, d.number(1, 2), d.number(2, 5), d.number(2, 5)))
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": d.pick(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes |= {"exclude_outside": d.flag(), "cubic_coeff_a": d.pick([-0.75, -0.5])}
    if d.flag():
        scales = np.array([1, 1, d.pick([2, 3, 0.5, 1]), d.pick([2, 4, 0.5])], np.float32)
        whole = all(float(s * n).is_integer() for s, n in zip(scales, x.shape, strict=True))
        if whole or attributes["coordinate_transformation_mode"] != "align_corners":
            return Sample((x, None, scales), attributes, rtol=1e-4, atol=1e-5)
    sizes = np.array([*x.shape[:2], d.number(1, 7), d.number(1, 7)], np.int64)
    return Sample((x, None, None, sizes), attributes, rtol=1e-4, atol=1e-5)


def sample_ResizeAntialias(d: Draw) -> Sample:
    """Antialiased shrinking and growing, borders excluded as PyTorch does."""
    x = d.array(F32, (1, d.number(1, 2), d.number(2, 8), d.number(2, 8)))
    attributes = {
        "mode": d.pick(["linear", "cubic"]), "antialias": 1, "exclude_outside": 1,
        "coordinate_transformation_mode": "pytorch_half_pixel",
    }  # fmt: skip
    sizes = np.array([*x.shape[:2], d.number(1, 8), d.number(1, 8)], np.int64)
    return Sample((x, None, None, sizes), attributes, rtol=1e-4, atol=1e-5)


def sample_GridSample(d: Draw) -> Sample:
    """Two and three dimensions, places beyond the borders."""
    rank = d.number(2, 3)
    modes = ["linear", "nearest", "cubic"] if rank == 2 else ["linear", "nearest"]
    x = d.array(F32, (d.number(1, 2), 2, *(d.number(2, 4) for _ in range(rank))))
    grid = d.array(F32, (x.shape[0], *(d.number(1, 3) for _ in range(rank)), rank), -1.6, 1.6)
    attributes = {
        "mode": d.pick(modes), "padding_mode": d.pick(["zeros", "border", "reflection"]), "align_corners": d.flag(),
    }  # fmt: skip
    return Sample((x, grid), attributes, rtol=1e-3, atol=1e-4)


def sample_AffineGrid(d: Draw) -> Sample:
    """Two and three dimensions."""
    rank = d.number(2, 3)
    n = d.number(1, 2)
    size = np.array([n, 1, *(d.number(2, 4) for _ in range(rank))], np.int64)
    return Sample((d.array(F32, (n, rank, rank + 1)), size), {"align_corners": d.flag()})


def sample_RoiAlign(d: Draw) -> Sample:
    """Regions within and beyond the image."""
    x = d.array(F32, (2, 2, 5, 6))
    corner = d.rng.uniform(-1, 3, (d.number(1, 3), 2))
    rois = np.concatenate([corner, corner + d.rng.uniform(0.5, 4, corner.shape)], axis=1).astype(np.float32)
    attributes = {
        "output_height": d.number(1, 3), "output_width": d.number(1, 3), "sampling_ratio": d.number(0, 2),
        "spatial_scale": d.pick([1.0, 0.5]),
        "coordinate_transformation_mode": d.pick(["half_pixel", "output_half_pixel"]),
    }  # fmt: skip
    return Sample((x, rois, indices(d, (len(rois),), 2) % 2), attributes, rtol=1e-4, atol=1e-5)


def sample_NonMaxSuppression(d: Draw) -> Sample:
    """Both box formats."""
    count, kinds = d.number(1, 6), d.number(1, 2)
    boxes, scores = d.array(F32, (2, count, 4), 0, 3), d.array(F32, (2, kinds, count), 0, 1)
    center = d.flag()
    limit, iou = np.array(d.number(0, 4), np.int64), np.array(d.pick([0.3, 0.6]), np.float32)
    least = np.array(0.3, np.float32) if d.flag() else None
    return Sample((boxes, scores, limit, iou, least), {"center_point_box": center})


# ---------------------------------------------------------------------------------------------- losses and signals


def loss(op: str, outputs: int | None) -> Maker:
    """All reductions, weights, an ignored class."""

    def make(d: Draw) -> Sample:
        batch, classes, rest = d.number(1, 3), d.number(1, 4), d.shape(0, 2, least=1)
        x = d.array(F32, (batch, classes, *rest))
        target = indices(d, (batch, *rest), classes) % classes
        weight = d.array(F32, (classes,), 0.5, 2) if d.flag() else None
        attributes = {"reduction": d.pick(["none", "sum", "mean"])}
        if d.flag() and classes > 1:
            attributes["ignore_index"] = 0
            target.flat[0] = 1  # of nothing but ignored ones the mean is 0 / 0
        return Sample((x, target, weight), attributes, outputs)

    return make


def sample_DFT(d: Draw) -> Sample:
    """Real and complex, forward and inverse, one half, cut and padded."""
    kind, n = d.pick([F32, DType.DOUBLE]), d.number(2, 6)
    inverse, real = d.flag(), d.flag()
    x = d.array(kind, (2, n, 1 if real and not inverse else 2))
    length = np.array(d.number(1, 7), np.int64) if d.flag() else None
    onesided = 1 if real and not inverse else 0
    attributes = {"inverse": inverse, "onesided": onesided}
    return Sample((x, length, np.array(1, np.int64)), attributes, rtol=1e-3, atol=1e-4)


def sample_STFT(d: Draw) -> Sample:
    """With and without a window."""
    size = d.pick([4, 8])
    x = d.array(F32, (d.number(1, 2), 16, 1))
    window = d.array(F32, (size,)) if d.flag() else None
    step, length = np.array(d.number(1, 5), np.int64), np.array(size, np.int64)
    return Sample((x, step, window, length), {"onesided": d.flag()}, rtol=1e-3, atol=1e-4)


def sample_QuantizeLinear(d: Draw) -> Sample:
    """Per tensor and per axis, to both signs."""
    to = d.pick([DType.UINT8, DType.INT8, DType.INT16, DType.UINT16])
    x = d.array(F32, d.shape(2, 3, least=1), -300, 300)
    axis = d.axis(x.ndim)
    shape = d.pick([(), (x.shape[axis],)])
    return Sample((x, d.array(F32, shape, 0.3, 3), d.array(to, shape, 0, 100)), {"axis": axis})


def sample_DequantizeLinear(d: Draw) -> Sample:
    """Per tensor, per axis, by blocks."""
    kind = d.pick([DType.UINT8, DType.INT8, DType.INT32])
    x = d.array(kind, d.shape(2, 3, least=1), -100, 100)
    axis = d.axis(x.ndim)
    shape = list(d.pick([(), (x.shape[axis],)]))
    attributes = {"axis": axis}
    if d.flag():
        attributes["block_size"] = 2
        shape = list(x.shape)
        shape[axis] = -(-shape[axis] // 2)
    zero = d.array(kind, shape, 0, 100) if kind is not DType.INT32 else None
    return Sample((x, d.array(F32, shape, 0.3, 3), zero), attributes)


def sample_DynamicQuantizeLinear(d: Draw) -> Sample:
    """Ranges on both sides of 0."""
    return Sample((d.array(F32, d.shape(1, 3, least=1), d.pick([-3, 0, 1]), 4),), {}, 3)


def sample_Dropout(d: Draw) -> Sample:
    """Inference: the operand itself."""
    return Sample((d.array(F32, d.shape()), np.array(0.3, np.float32)), {}, d.pick([1, 2]))
