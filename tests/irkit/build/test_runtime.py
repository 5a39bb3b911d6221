"""Operators of ONNX Runtime's own: each definition against its kernel, in files and text, and brought back to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import onnxruntime
import pytest

import irkit
import passes
from irkit import dims
from irkit.build.runtime import DEFINITIONS
from irkit.core.ir import Graph, param
from irkit.core.types import DType, tensor
from irkit.dialects.checks import instance_graph, require_round_trips, runs_alike
from irkit.errors import TypeRuleError
from passes.targets import target_of

CONTRIB = target_of("onnxruntime-cpu+com.microsoft")


@attrs.frozen(eq=False)
class Case:
    """One application: operands as arrays (None where left out), attributes, how many results, which to compare.

    `valid` cuts the results down to what the operator says something about, `known` are the operands that are
    constants, and `free` names the sizes that are symbols: (operand, axis, symbol).
    Integers may be `step` apart.
    """

    op: str
    operands: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = attrs.field(factory=dict)
    outputs: int = 1
    compared: tuple[int, ...] = (0,)
    tolerance: float = 2e-5
    valid: Callable[[int, np.ndarray], np.ndarray] = lambda index, array: array
    known: tuple[int, ...] = ()
    free: tuple[tuple[int, int, str], ...] = ()
    step: float = 0.0

    def __str__(self) -> str:
        shapes = ",".join("-" if a is None else "x".join(map(str, a.shape)) for a in self.operands)
        given = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op.rpartition('::')[2]}({shapes}){given}".replace(" ", "")


def build(case: Case) -> Graph:
    """The case as a graph of one operator."""
    params, inputs = [], []
    symbols = {(index, axis): dims.symbol(name) for index, axis, name in case.free}
    for index, array in enumerate(case.operands):
        if array is None or index in case.known:
            inputs.append(None if array is None else irkit.const(array))
        else:
            shape = [symbols.get((index, axis), size) for axis, size in enumerate(array.shape)]
            params.append(param(tensor(array.dtype.name, *shape)))
            inputs.append(params[-1])
    found = irkit.call(case.op, inputs, case.attributes, outputs=case.outputs)
    results = found if isinstance(found, tuple) else (found,)
    return Graph(tuple(params), tuple(results[i] for i in case.compared))


def fed(case: Case) -> list[np.ndarray]:
    """What the parameters of the graph are given."""
    return [a for i, a in enumerate(case.operands) if a is not None and i not in case.known]


def on_runtime(graph: Graph, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """The results on ONNX Runtime, without its own fusions."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    data = irkit.to_proto(graph, ir_version=11).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    found = session.run(None, dict(zip((i.name for i in session.get_inputs()), feeds, strict=True)))
    return [np.asarray(array) for array in found]


def random(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def ints(top: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    """Integers from 0 to below `top`."""
    return np.random.default_rng([top, *shape]).integers(0, top, shape).astype(dtype)


MS = "com.microsoft::"
X = random(2, 3, 8)
FREE_X = ((0, 0, "b"), (0, 1, "s"))


def activation_cases() -> list[Case]:
    """Gelu in all its forms."""
    bias = random(8, seed=1)
    found = [
        Case(MS + name, (x,), free=((0, 0, "b"),))
        for name in ("Gelu", "FastGelu", "QuickGelu")
        for x in (X, random(1, 4), random(0, 5), random(5))
    ]
    found += [Case(MS + "QuickGelu", (X,), {"alpha": alpha}) for alpha in (1.0, 0.5, -2.0)]
    found += [Case(MS + name, (X, bias), free=FREE_X) for name in ("BiasGelu", "FastGelu")]
    return found


def product_cases() -> list[Case]:
    """Products, transposed and scaled, and what is fused behind them."""
    found = []
    for left in (0, 1):
        for right in (0, 1):
            a, b = random(3, 4), random(4, 5, seed=1)
            operands = (a.T.copy() if left else a, b.T.copy() if right else b)
            given = {"transA": left, "transB": right}
            found.append(
                Case(MS + "FusedMatMul", operands, {**given, "alpha": 0.25}, free=((0, 1 - left, "n"),)[:left])
            )
            found.append(Case(MS + "TransposeMatMul", operands, given))
            batched = tuple(np.stack([o, -o]) for o in operands)
            found.append(Case(MS + "FusedMatMul", batched, given, free=((0, 0, "b"), (1, 0, "b"))))
            found.append(
                Case(
                    MS + "FusedGemm",
                    (*operands, random(5, seed=2)),
                    {**given, "alpha": 0.5, "beta": 2.0, "activation": "Relu"},
                )
            )
            # the batch stands in the middle: (rows, batch, columns)
            x, y = random(*((4, 2, 3) if left else (3, 2, 4))), random(*((5, 2, 4) if right else (4, 2, 5)), seed=1)
            found.append(Case(MS + "FusedMatMul", (x, y), {**given, "transBatchA": 1, "transBatchB": 1}))
    x = random(2, 3, 4)
    found += [
        Case(MS + "FusedGemm", (random(3, 4), random(4, 5)), {"activation": name, **more})
        for name, more in (
            ("LeakyRelu", {"activation_alpha": 0.3}),
            ("Sigmoid", {}),
            ("Tanh", {}),
            ("Elu", {"activation_alpha": 0.5}),
            ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
            ("Softplus", {}),
            ("Softsign", {}),
            ("ThresholdedRelu", {"activation_alpha": 0.2}),
        )
    ]
    found += [
        Case(MS + "FusedMatMul", (x, random(4)), {"alpha": 2.0}),
        Case(MS + "FusedMatMul", (random(4), x[0].T.copy())),
    ]
    return found


def conv_cases() -> list[Case]:
    """Convolutions with a summand and an activation."""
    x, w, b = random(2, 3, 7, 6), random(4, 3, 3, 3, seed=1), random(4, seed=2)
    z = random(2, 4, 5, 4, seed=3)
    free = ((0, 0, "b"),)
    kinds = (("Relu", ()), ("LeakyRelu", (0.2,)), ("Clip", (-0.5, 1.5)), ("HardSigmoid", (0.3, 0.4)), ("Tanh", ()),
             ("Sigmoid", ()))  # fmt: skip
    given = [{"activation": name, **({"activation_params": params} if params else {})} for name, params in kinds]
    found = [Case(MS + "FusedConv", (x, w, b), attributes, free=free) for attributes in given]
    found.append(Case(MS + "FusedConv", (x, w, b, z), {"activation": "Relu"}, free=((0, 0, "b"), (3, 0, "b"))))
    found.append(Case(MS + "FusedConv", (x, w), {"pads": (1, 1, 1, 1), "strides": (2, 1), "activation": "Relu"}))
    found.append(Case(MS + "FusedConv", (random(1, 4, 9), random(4, 2, 3)), {"group": 2, "dilations": (2,)}))
    return found


def norm_cases() -> list[Case]:
    """Normalizations with what is added before."""
    skip, gamma, beta, bias = random(2, 3, 8, seed=1), random(8, seed=2), random(8, seed=3), random(8, seed=4)
    both = ((0, 0, "b"), (0, 1, "s"), (1, 0, "b"), (1, 1, "s"))
    full, found = MS + "SkipLayerNormalization", []
    for op, rest in ((full, (gamma, beta)), (full, (gamma,)), (MS + "SkipSimplifiedLayerNormalization", (gamma,))):
        found.append(Case(op, (X, skip, *rest), free=both))
        found.append(Case(op, (X, skip, *rest), {"epsilon": 0.1}, 4, (0, 3), free=both))
        found.append(Case(op, (X[0], skip[0], *rest), {"epsilon": 0.1}, 4, (3, 0)))
        found.append(Case(op, (X, skip[:1], *rest), {"epsilon": 0.1}, 4, (0, 3), free=FREE_X[:1]))
        found.append(Case(op, (X, skip[0], *rest), {"epsilon": 0.1}, free=FREE_X[:1]))
    found.append(Case(full, (X, skip, gamma, None, bias), {"epsilon": 0.1}, 4, (0, 3), free=both))
    found.append(Case(full, (X, skip, gamma, beta, bias), {"epsilon": 0.1}, 4, (0, 3)))
    found.append(Case(MS + "SkipSimplifiedLayerNormalization", (X, skip, gamma, bias), {"epsilon": 0.1}, 4, (0, 3)))
    simple = "SimplifiedLayerNormalization"
    found += [
        Case(simple, (X, gamma), {"epsilon": 0.01, "stash_type": 1}, free=FREE_X),
        Case(simple, (X[:, :1], gamma), {}),
    ]
    found.append(Case(simple, (X, gamma), {"axis": -1, "epsilon": 0.01}, 2, (0, 1)))
    return found


def embedding_cases() -> list[Case]:
    """Embeddings summed and normalized."""
    tables = (random(9, 8), random(6, 8, seed=1), random(2, 8, seed=2))
    ids, segments, mask = ints(9, 2, 4), ints(2, 2, 4), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    norm = (random(8, seed=3), random(8, seed=4))
    op = MS + "EmbedLayerNormalization"
    words, places, parts = tables
    free = ((0, 0, "b"), (0, 1, "s"), (1, 0, "b"), (1, 1, "s"))
    return [
        Case(op, (ids, segments, words, places, parts, *norm), {"epsilon": 1e-5}, 2, (0, 1), free=free),
        Case(op, (ids, None, words, places, None, *norm), {"epsilon": 1e-5}, 2, (0, 1)),
        Case(op, (ids, segments, words, places, parts, *norm, mask), {"epsilon": 1e-5}, 3, (0, 1, 2)),
        Case(op, (ids, None, words, places, None, *norm, mask, ints(6, 2, 4)), {"epsilon": 1e-5}, 2, (0, 1)),
    ]


def rotary_cases() -> list[Case]:
    """Rotations: of heads that stand apart or side by side, whole or in part, neighbours or halves."""
    op, found = MS + "RotaryEmbedding", []
    cos, sin = random(16, 4), random(16, 4, seed=1)
    for interleaved in (0, 1):
        given = {"interleaved": interleaved}
        for positions in (ints(16, 2, 3, dtype="int64"), np.array([5])):
            found.append(Case(op, (random(2, 3, 16), positions, cos, sin), given))
            free = ((0, 0, "b"), (0, 2, "s"), *(((1, 0, "b"), (1, 1, "s")) if positions.ndim > 1 else ()))
            found.append(Case(op, (random(2, 4, 3, 8), positions, cos, sin), given, free=free))
        part = {**given, "rotary_embedding_dim": 8, "num_heads": 2}
        found.append(Case(op, (random(2, 3, 24), ints(16, 2, 3, dtype="int64"), cos, sin), part))
        half = tuple(a.astype(np.float16) for a in (random(2, 3, 16), cos, sin))
        found.append(Case(op, (half[0], np.array([0]), *half[1:]), given, tolerance=4e-3))
    return found


def attention_cases() -> list[Case]:
    """MultiHeadAttention with all that it may be given."""
    op, found = MS + "MultiHeadAttention", []
    q, k, v = (random(2, 3, 8, seed=i) for i in range(3))
    free = tuple((i, axis, name) for i in range(3) for axis, name in ((0, "b"), (1, "s")))
    past = (random(2, 2, 4, 4, seed=5), random(2, 2, 4, 4, seed=6))
    found.append(Case(op, (q, k, v), {"num_heads": 2}, free=free))
    found.append(Case(op, (q, k, v), {"num_heads": 4, "scale": 0.3}))
    found.append(Case(op, (q, k, v, random(24, seed=3)), {"num_heads": 2}, 3, (0, 1, 2), free=free))
    found.append(Case(op, (q, k, v), {"num_heads": 2, "unidirectional": 1}, free=free))
    found.append(Case(op, (q[:, :1], k, random(2, 3, 12, seed=9)), {"num_heads": 2}))
    for mask in (np.array([[1, 1, 0], [1, 0, 0]], np.int32), np.array([2, 3], np.int32), ints(2, 2, 3, 3)):
        for more in ({}, {"mask_filter_value": -3.0}, {"unidirectional": 1}):
            found.append(Case(op, (q, k, v, None, mask), {"num_heads": 2, **more}))
    found.append(Case(op, (q, k, v, None, None, random(1, 2, 3, 3, seed=8)), {"num_heads": 2}, free=free))
    for more in ({}, {"unidirectional": 1}):
        bias = random(2, 1, 3, 7, seed=8)
        found.append(Case(op, (q, k, v, None, None, bias, *past), {"num_heads": 2, **more}, 3, (0, 1, 2)))
        found.append(Case(op, (q, k, v, None, ints(2, 2, 7), None, *past), {"num_heads": 2, **more}, 3, (0, 1, 2)))
        grown = (*free, (6, 0, "b"), (6, 2, "p"), (7, 0, "b"), (7, 2, "p"))
        found.append(Case(op, (q, k, v, None, None, None, *past), {"num_heads": 2, **more}, 3, (0, 1, 2), free=grown))
    found.append(Case(op, (q, random(2, 2, 5, 4), random(2, 2, 5, 4, seed=1)), {"num_heads": 2}))
    return found


def packed_cases() -> list[Case]:
    """Attention, which holds the projections too."""
    op, found = MS + "Attention", []
    x, w, b = random(2, 3, 6), random(6, 24, seed=1), random(24, seed=2)
    free = ((0, 0, "b"), (0, 1, "s"))
    found.append(Case(op, (x, w, b), {"num_heads": 2}, free=free))
    found.append(Case(op, (x, w, b), {"num_heads": 4, "unidirectional": 1, "scale": 0.5}, free=free))
    found.append(Case(op, (x, random(6, 20), random(20)), {"num_heads": 2, "qkv_hidden_sizes": (8, 8, 4)}))
    masks = (np.array([2, 3], np.int32), np.array([3, 2, 1, 0], np.int32), ints(2, 2, 3), ints(2, 2, 3, 3))
    found += [Case(op, (x, w, b, mask), {"num_heads": 2}) for mask in masks]
    past = random(2, 2, 2, 4, 4, seed=3)
    found.append(Case(op, (x, w, b, None, past), {"num_heads": 2, "unidirectional": 1}, 2, (0, 1)))
    found.append(Case(op, (x, w, b, ints(2, 2, 7), past), {"num_heads": 2}, 2, (0, 1)))
    found.append(Case(op, (x, w, b, None, None, random(1, 2, 3, 3)), {"num_heads": 2}))
    return found


def grouped_cases() -> list[Case]:
    """GroupQueryAttention: prompts, steps, rotations, windows."""
    op, found = MS + "GroupQueryAttention", []
    caches = (random(16, 8, seed=7), random(16, 8, seed=8))

    def case(
        batch: int,
        length: int,
        before: int,
        lengths: Any = None,
        dtype: str = "float32",
        room: int | None = None,
        pack: bool = False,
        rotate: bool = False,
        known: bool = True,
        extra: Any = (),
        **more: Any,
    ) -> Case:
        q, k, v = (random(batch, length, n * 16, seed=i, dtype=dtype) for i, n in enumerate((4, 2, 2)))
        given = {"num_heads": 4, "kv_num_heads": 2, **more, **({"do_rotary": 1} if rotate else {})}
        ends = np.full(batch, before + length - 1) if lengths is None else np.array(lengths) - 1
        places = before if room is None else room
        past = tuple(random(batch, 2, places, 16, seed=i, dtype=dtype) for i in (4, 5)) if places else (None, None)
        heads = (np.concatenate([q, k, v], 2), None, None) if pack else (q, k, v)
        turned = tuple(c.astype(dtype) for c in caches) if rotate else (None, None)
        total = np.array(max(ends) + 1, np.int32)
        operands = (*heads, *past, ends.astype(np.int32), total, *turned, *extra)
        cut = None if lengths is None or before else lengths

        def valid(index: int, array: np.ndarray) -> np.ndarray:
            if cut is None:
                return array
            axis = 0 if index == 0 else 1
            return np.concatenate([np.take(row, range(n), axis).ravel() for row, n in zip(array, cut, strict=True)])

        tolerance = 2e-5 if dtype == "float32" else 4e-3
        return Case(op, operands, given, 3, (0, 1, 2), tolerance, valid, (6,) if known else ())

    for known in (True, False):
        found += [
            case(2, 3, 0, known=known),
            case(2, 1, 4, known=known),
            case(1, 3, 4, known=known),
            case(2, 1, 4, room=9, known=known),
            case(2, 3, 0, lengths=[3, 2], known=known),
            case(2, 1, 4, lengths=[5, 3], known=known),
        ]
    kinds: tuple[dict[str, Any], ...] = ({}, {"rotary_interleaved": 1}, {"pack": True})
    for rotate in ({"rotate": True, **more} for more in kinds):
        found += [case(2, 3, 0, **rotate), case(2, 1, 4, **rotate), case(1, 3, 4, **rotate)]
    found += [
        case(1, 1, 5, local_window_size=3),
        case(1, 6, 0, local_window_size=2),
    ]
    found += [case(1, 3, 2, softcap=5.0), case(1, 3, 2, scale=0.2), case(1, 3, 2, smooth_softmax=1)]
    found += [case(1, 3, 2, extra=(None, random(1, 1, 3, 5), None)), case(1, 3, 2, extra=(None, None, random(4)))]
    found += [case(2, 3, 0, dtype="float16"), case(2, 1, 4, dtype="float16", rotate=True)]
    return found


def quantized_cases() -> list[Case]:
    """Quantized operators. Integers may differ by one where a number lies between two."""
    x, y = (np.random.default_rng(i).integers(0, 255, (2, 3, 8)).astype("uint8") for i in range(2))
    scales, zeros = [np.float32(0.02), np.float32(0.05), np.float32(0.03)], [np.uint8(120), np.uint8(7), np.uint8(90)]
    s, z = [np.array(v) for v in scales], [np.array(v) for v in zeros]
    found = [
        Case(MS + f"QLinear{name}", (x, s[0], z[0], y, s[1], z[1], s[2], z[2]), step=1.0) for name in ("Add", "Mul")
    ]
    found += [Case(MS + f"QLinear{name}", (x, s[0], z[0], s[2], z[2]), step=1.0) for name in ("LeakyRelu", "Sigmoid")]
    rows = random(3, 8)
    found += [
        Case(MS + "QuantizeLinear", (rows, s[0], z[0]), step=1.0),
        Case(MS + "DequantizeLinear", (x, s[0], z[0])),
        Case(MS + "DequantizeLinear", (x[0], random(8), np.arange(8, dtype="uint8")), {"axis": 1}),
    ]
    a, b = x[0], ints(255, 8, 4, dtype="uint8")
    found += [
        Case(MS + "MatMulIntegerToFloat", (a, b, s[0], s[1], z[0], z[1], random(4)), tolerance=1e-4),
        Case(MS + "MatMulIntegerToFloat", (a, b, s[0], random(4)), tolerance=1e-4),
        Case(MS + "DynamicQuantizeMatMul", (rows, b, s[1], z[1], random(4)), tolerance=1e-3),
        Case(MS + "DynamicQuantizeMatMul", (rows, b, s[1]), tolerance=1e-3),
    ]
    for bits in (4, 8):
        for columns in (32, 40):
            blocks = -(-columns // 16)
            given = {"N": 4, "K": columns, "block_size": 16, "bits": bits}
            weights, size = ints(255, 4, blocks, 16 * bits // 8, dtype="uint8"), -(-blocks * bits // 8)
            data = (random(2, 3, columns), weights, random(4 * blocks))
            places = ints(255, 4 * size, dtype="uint8")
            found.append(Case(MS + "MatMulNBits", data, given, tolerance=1e-4 * bits**2, free=((0, 0, "b"),)))
            found.append(Case(MS + "MatMulNBits", (*data, places), given, tolerance=1e-4 * bits**2))
    found += [Case(MS + "Trilu", (random(2, 4, 5),), {"upper": 0}), Case(MS + "Trilu", (random(4, 5), np.array(1)))]
    found.append(Case(MS + "ExpandDims", (random(4, 5), np.array(-1, np.int32)), known=(1,)))
    return found


def expert_cases() -> list[Case]:
    """Mixtures of experts: activations, gates, biases, shares, rows apart and side by side, few rows and none."""
    found = []
    x, logits = random(5, 8), random(5, 4, seed=1)
    w, b = (random(4, 12, 8, seed=2), random(4, 8, 12, seed=3)), (random(4, 12, seed=4), random(4, 8, seed=5))
    wide = (random(4, 24, 8, seed=6), random(4, 24, seed=7))
    free = ((0, 0, "n"), (1, 0, "n"))
    for k in (1, 2, 4):
        for normal in (0, 1):
            given = {"k": k, "normalize_routing_weights": normal}
            found.append(Case(MS + "MoE", (x, logits, w[0], b[0], w[1], b[1]), given, free=free))
    plain = (w[0], None, w[1])
    for name in ("silu", "gelu", "identity"):
        found.append(Case(MS + "MoE", (x, logits, *plain), {"k": 2, "activation_type": name}, free=free))
    gated = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1}
    limited = {**gated, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.7}
    found += [
        Case(MS + "MoE", (x, logits, wide[0], wide[1], w[1], b[1]), given, free=free) for given in (gated, limited)
    ]
    found.append(Case(MS + "MoE", (x, logits, wide[0], None, w[1]), gated))
    apart = ((0, 0, "b"), (0, 1, "s"))
    found.append(Case(MS + "MoE", (x[None], logits, *plain), {"k": 2}, free=apart[1:]))
    found += [Case(MS + "MoE", (x[:n], logits[:n], *plain), {"k": 1}, free=free) for n in (0, 1)]
    found.append(Case(MS + "MoE", (x, logits[:, :1], w[0][:1], b[0][:1], w[1][:1], b[1][:1])))
    return found


def quantized_expert_cases() -> list[Case]:
    """Mixtures of experts whose weights are kept in 4 and 8 bits, row by row and block by block."""
    found = []
    x, logits, more = random(5, 32), random(5, 4, seed=1), np.abs(random(5, 4, seed=2))
    free = ((0, 0, "n"), (1, 0, "n"))
    for bits in (4, 8):
        for block in (0, 16):
            for kind, rows in (("silu", 64), ("swiglu", 128)):
                given = {"k": 2, "expert_weight_bits": bits, "activation_type": kind}
                given |= ({"block_size": block} if block else {}) | ({"swiglu_fusion": 1} if rows == 128 else {})
                layers: list[np.ndarray | None] = []
                zeros = []
                for out, into in ((rows, 32), (32, 64)):
                    blocks = into // block if block else 1
                    scales = np.abs(random(4, out, *([blocks] if block else []))) * (0.32 / 2**bits)
                    layers += [ints(255, 4, out, into * bits // 8, dtype="uint8"), scales.astype(np.float32), None]
                    shape = (4, out, -(-blocks * bits // 8)) if block else (4, out * bits // 8)
                    zeros.append(ints(255, *shape, dtype="uint8"))
                operands = (x, logits, *layers)
                found.append(Case(MS + "QMoE", operands[:-1], given, tolerance=1e-4, free=free))
                found.append(Case(MS + "QMoE", (*operands, None, None, None, *zeros), given, tolerance=1e-4))
    plain = {"k": 2, "expert_weight_bits": bits, "activation_type": kind, "block_size": block, "swiglu_fusion": 1}
    for normal in (0, 1):
        shared = (*operands, *(None,) * 6, more)
        found.append(Case(MS + "QMoE", shared, {**plain, "normalize_routing_weights": normal}, tolerance=1e-4))
    return found


def convolution_cases() -> list[Case]:
    """Causal convolutions: with and without what came before, channels first and last."""
    op, found = MS + "CausalConvWithState", []
    for length in (1, 2, 7):
        for taps in (1, 2, 4):
            x, w, b, past = random(2, 6, length), random(6, 1, taps, seed=1), random(6, seed=2), random(2, 6, taps - 1)
            free = ((0, 0, "b"), (0, 2, "s"))
            found.append(Case(op, (x, w, b, past), {}, 2, (0, 1), free=(*free, (3, 0, "b"))))
            found.append(Case(op, (x, w, None), {"activation": "silu"}, 2, (0, 1), free=free))
    given = {"channels_last": 1, "activation": "swish"}
    x, w, past = random(2, 5, 6), random(6, 1, 4, seed=1), random(2, 3, 6, seed=2)
    found.append(Case(op, (x, w, None, past), given, 2, (0, 1), free=((0, 0, "b"), (0, 1, "s"), (3, 0, "b"))))
    found.append(Case(op, (x.reshape(2, 5, 2, 3), w, None, past.reshape(2, 3, 2, 3)), given, 2, (0, 1)))
    found.append(Case(op, (random(2, 6, 5), w, random(6), random(2, 6, 6)), {"dilation": 2}, 2, (0, 1)))
    return found


def state_cases() -> list[Case]:
    """Linear attention: all rules, decays for heads and for keys, more queries than states and the other way round."""
    op, found = MS + "LinearAttention", []

    def case(rule: str, length: int, queries: int, heads: int, past: bool = True, each: int = 1, **more: Any) -> Case:
        q, k, v = (random(2, length, n, seed=i) for i, n in enumerate((queries * 8, heads * 8, heads * 6)))
        decay = -np.abs(random(2, length, heads * each, seed=4)) if "gated" in rule else None
        beta = 1 / (1 + np.exp(-random(2, length, more.pop("betas", heads), seed=5))) if "delta" in rule else None
        state = random(2, heads, 8, 6, seed=6) if past else None
        given = {"q_num_heads": queries, "kv_num_heads": heads, "update_rule": rule, **more}
        operands = (q, k, v, state, decay, beta)
        there = [i for i, array in enumerate(operands) if array is not None]
        free = [(i, 0, "b") for i in there] + [(i, 1, "s") for i in there if i != 3 and length > 1]
        return Case(op, operands, given, 2, (0, 1), free=tuple(free))

    for rule in ("linear", "gated", "delta", "gated_delta"):
        found += [case(rule, length, 2, 2, past) for length in (1, 4) for past in (True, False)]
    found += [case("gated_delta", 4, 4, 2), case("gated", 4, 2, 4, scale=1.0), case("gated_delta", 1, 1, 4, scale=0.3)]
    found += [case("gated", 3, 1, 4, each=8), case("gated_delta", 3, 2, 2, each=8), case("delta", 3, 2, 4, betas=1)]
    return found


CASES = [*activation_cases(), *product_cases(), *conv_cases(), *norm_cases(), *embedding_cases(), *rotary_cases(),
         *attention_cases(), *packed_cases(), *grouped_cases(), *quantized_cases(),
         *expert_cases(), *quantized_expert_cases(), *convolution_cases(), *state_cases()]  # fmt: skip


def held(case: Case, wanted: list[np.ndarray], found: Any, what: str) -> None:
    """Fails where two sets of results differ."""
    for place, one, other in zip(case.compared, wanted, found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape, (what, place, one.shape, other.shape)
        a, b = (case.valid(place, x).astype(np.float64) for x in (one, other))
        np.testing.assert_allclose(
            b, a, rtol=case.tolerance, atol=max(case.tolerance, case.step), err_msg=f"{what}, result {place}"
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_definition_agrees_with_the_kernel(case: Case) -> None:
    graph, feeds = build(case), fed(case)
    irkit.verify(graph)
    wanted = on_runtime(graph, feeds)
    held(case, wanted, irkit.evaluate(graph, feeds), "evaluator")
    plain = passes.prepare(graph)
    assert not any("::" in v.op or v.op in DEFINITIONS for v in plain.order)
    irkit.verify(plain)
    held(case, wanted, on_runtime(plain, feeds), "in ONNX")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_file_and_a_text_hold_the_operator(case: Case) -> None:
    graph = build(case)
    assert irkit.parse(graph.text()) == graph
    assert irkit.load(irkit.to_proto(passes.prepare(graph, CONTRIB))) == graph


def test_sizes_may_all_be_symbols() -> None:
    """A step of decoding whose sizes are all free: how many keys there are in the end follows from the operands."""
    batch, past = (dims.symbol(name) for name in ("batch", "past"))
    q = param(tensor("float32", batch, 1, 64))
    k, v = (param(tensor("float32", batch, 1, 32)) for _ in range(2))
    old = [param(tensor("float32", batch, 2, past, 16)) for _ in range(2)]
    total = dims.add(past, 1)
    count = irkit.op.Cast(irkit.dim_scalar(total), to=DType.INT32)
    ends = irkit.op.Expand(irkit.op.Cast(irkit.shape_vector((past,)), to=DType.INT32), irkit.shape_vector((batch,)))
    given = {"num_heads": 4, "kv_num_heads": 2}
    results = irkit.call(MS + "GroupQueryAttention", [q, k, v, *old, ends, count], given, outputs=3)
    graph = Graph((q, k, v, *old), results)
    assert results[1].shape == (batch, 2, total, 16)
    irkit.verify(graph)
    plain = passes.prepare(graph)
    for rows, keys in ((1, 1), (3, 5)):
        feeds = [random(rows, 1, n) for n in (64, 32, 32)] + [random(rows, 2, keys, 16, seed=i) for i in range(2)]
        wanted = on_runtime(passes.prepare(graph, CONTRIB), feeds)
        for found in (irkit.evaluate(graph, feeds), on_runtime(plain, feeds)):
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "reason"),
    [
        ("GroupQueryAttention", (X, X, X, None, None, ints(2, 2), ints(9)),
         {"num_heads": 2, "kv_num_heads": 2, "causal": 0}, "only causal attention"),
        ("MultiHeadAttention", (X, None, None), {"num_heads": 2}, "packed keys and values"),
        ("MultiHeadAttention", (X, X[:, :2], X[:, :2]), {"num_heads": 2, "unidirectional": 1}, "as many queries"),
        ("Attention", (X, random(8, 24)), {"num_heads": 2, "do_rotary": 1}, "attribute do_rotary"),
        ("FusedGemm", (X[0], random(8, 2)), {"activation": "Cosh"}, "the activation Cosh"),
        ("SkipLayerNormalization", (X, random(2, 3, 7), random(8)), {}, "skip does not fit"),
        ("NoSuchOperator", (X,), {}, "the installed ONNX Runtime has no operator"),
        ("QLinearSigmoid", (X,), {}, "takes 4 to 5 operands"),
        ("CDist", (X[0], X[0]), {}, "irkit has no type rule"),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_refused(op: str, operands: Any, attributes: dict[str, Any], reason: str) -> None:
    params = [None if a is None else param(tensor(a.dtype.name, *a.shape)) for a in operands]
    with pytest.raises(TypeRuleError, match=reason):
        irkit.call(MS + op, params, attributes)


def test_unknown_sizes_of_two_values_are_never_one() -> None:
    """Types are remembered by what the operands are; what a type does not know must not be remembered as one size."""
    q, k = param(tensor("float32", "b", 1, 64)), param(tensor("float32", "b", 1, 32))
    ends, total = param(tensor("int32", "b")), param(tensor("int32"))
    given = {"num_heads": 4, "kv_num_heads": 2}
    operands = [q, k, k, None, None, ends, total]
    first, second = (irkit.call(MS + "GroupQueryAttention", operands, given, outputs=3)[1] for _ in range(2))
    assert dims.is_fresh(first.shape[2]) and dims.same(first.shape[2], second.shape[2]) is None


def test_op_com_microsoft_makes_them() -> None:
    made = irkit.op.com_microsoft.FusedMatMul(param(tensor("float32", 2, 3)), param(tensor("float32", 4, 3)), transB=1)
    assert made.op == MS + "FusedMatMul" and made.shape == (2, 4)
    assert isinstance(irkit.op.com_microsoft.SkipLayerNormalization, type(irkit.op.com_microsoft.Gelu))


@pytest.mark.parametrize("name", sorted(irkit.runtime_dialect()))
def test_an_operator_is_drawn_checked_and_run(name: str) -> None:
    """By the sample of the dialect: the definition against ONNX Runtime's kernel, in text and in files."""
    operator = irkit.runtime_dialect()[name]
    rng = np.random.default_rng(0)
    ran = 0
    for _ in range(4):
        graph = instance_graph(operator, rng)
        require_round_trips(operator, graph)
        ran += runs_alike(operator, graph, rng)
    assert ran


WITH_PAST = {
    "MultiHeadAttention": ((X, X, X, None, None, None, random(2, 2, 4, 4), random(2, 2, 4, 4)), {"num_heads": 2}, 3),
    "Attention": (
        (X, random(8, 24), random(24), None, random(2, 2, 2, 4, 4)), {"num_heads": 2, "unidirectional": 1}, 2),
    "GroupQueryAttention": (
        (random(2, 1, 64), random(2, 1, 32), random(2, 1, 32), random(2, 2, 4, 16), random(2, 2, 4, 16),
         np.full(2, 4, np.int32), np.array(5, np.int32)), {"num_heads": 4, "kv_num_heads": 2}, 3),
}  # fmt: skip


@pytest.mark.parametrize("op", WITH_PAST)
def test_keys_behind_a_past_are_written_where_nobody_reads_them(op: str) -> None:
    """Without the memory of these results the kernels compute with what others left in theirs, or refuse."""
    operands, given, outputs = WITH_PAST[op]
    case = Case(MS + op, operands, given, outputs, (0,))
    graph, feeds = build(case), fed(case)
    held(case, on_runtime(graph, feeds), irkit.evaluate(graph, feeds), "evaluator")
    (node,) = [node for node in irkit.to_proto(graph).graph.node if node.op_type == op]
    assert len(node.output) == outputs and all(node.output)
    with pytest.raises(TypeRuleError, match=f"with {outputs} results at least"):
        build(Case(MS + op, operands, given, 1, (0,)))
