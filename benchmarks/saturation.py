"""Equality saturation beside the greedy pipeline: `python benchmarks/saturation.py`, a table.

Models in which the order of rewrites matters, each optimized by `passes.optimize`, and by `passes.saturate` on what
that leaves, optimized once more. Operators of the optimized graphs, microseconds by the cost model, and microseconds as
measured: CPU time on ONNX Runtime in one thread, in turns, the tenth percentile of many runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import passes
from benchmarks.kernel_costs import LOW, PLAIN, Runner
from irkit import Graph, Value, compare, evaluate, op, param, tensor
from passes.targets import microseconds


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    """Random weights of moderate size."""
    return (np.random.default_rng(sum(shape) + seed).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def given(*shape: int) -> Value:
    """A parameter."""
    return param(tensor("f32", *shape))


def matmul_chain() -> Graph:
    """Three matrices and a vector, multiplied from the left, and the same added up over two chains."""
    a, b, c, v = given(96, 96), given(96, 96), given(96, 96), given(96, 1)
    chain = op.MatMul(op.MatMul(op.MatMul(a, b), c), v)
    return Graph((a, b, c, v), (op.Add(chain, op.MatMul(op.MatMul(a, b), v)),))


def distributed_matmul() -> Graph:
    """One matrix times three, added up; the weights come from outside, as with adapters."""
    x, u, v, w = given(64, 128), given(128, 128), given(128, 128), given(128, 128)
    return Graph((x, u, v, w), (op.Relu(op.Add(op.Add(op.MatMul(x, u), op.MatMul(x, v)), op.MatMul(x, w))),))


def transposes() -> Graph:
    """Transposes that meet one another only when a common factor is taken out and a product has changed its sides."""
    x, y, z = given(64, 96), given(96, 64), given(64, 96)
    back = (1, 0)
    factor = op.Transpose(op.Tanh(y), perm=back)
    inner = op.MatMul(factor, op.Transpose(x, perm=back))
    other = op.MatMul(factor, op.Transpose(z, perm=back))
    return Graph((x, y, z), (op.Transpose(op.Add(inner, other), perm=back),))


def factors() -> Graph:
    """Products with a common factor, hidden by a division, and by a factor that is written in two ways."""
    a, b, c, d = (given(64, 64) for _ in range(4))
    terms = op.Add(op.Add(op.Mul(a, b), op.Mul(c, a)), op.Mul(op.Mul(d, a), 2.0))
    return Graph((a, b, c, d), (op.Sub(op.Div(terms, 4.0), op.Div(op.Mul(a, d), 4.0)),))


def constants() -> Graph:
    """Constants that stand apart in a chain of products and quotients."""
    x, y = given(64, 64), given(64, 64)
    first = op.Mul(op.Div(op.Mul(op.Mul(x, 2.0), y), 3.0), 1.5)
    return Graph((x, y), (op.Mul(op.Mul(first, y), 0.5), op.Div(op.Mul(y, 4.0), op.Mul(x, 2.0))))


def parallel_convolutions() -> Graph:
    """Branches of one image, each a convolution of few channels."""
    x = given(1, 16, 8, 8)
    branches = [op.Conv(x, weight(8, 16, 1, 1, seed=i), weight(8, seed=i)) for i in range(2)]
    return Graph((x,), (op.Concat(*map(op.Relu, branches), axis=1),))


def attention_projections() -> Graph:
    """Attention over another sequence: queries, keys and values projected, scaled scores, a product with the values."""
    x, y = given(16, 64), given(48, 64)
    q, k = op.MatMul(x, weight(64, 64)), op.MatMul(y, weight(64, 64, seed=1))
    v = op.Add(op.MatMul(y, weight(64, 64, seed=2)), weight(64))
    scores = op.MatMul(op.Mul(q, 0.125), op.Transpose(k, perm=(1, 0)))
    return Graph((x, y), (op.MatMul(op.Softmax(scores, axis=-1), v),))


def projections_of_one_token() -> Graph:
    """Queries, keys and values of one token, each with a bias, in three products."""
    x = given(1, 64)
    return Graph((x,), tuple(op.Add(op.MatMul(x, weight(64, 64, seed=i)), weight(64, seed=i)) for i in range(3)))


MODELS: tuple[Callable[[], Graph], ...] = (
    matmul_chain, distributed_matmul, transposes, factors, constants, parallel_convolutions, attention_projections,
    projections_of_one_token,
)  # fmt: skip


def modelled(graph: Graph) -> float:
    """Microseconds by the cost model."""
    return sum(map(microseconds, graph.order))


def runner(graph: Graph, arrays: list[np.ndarray]) -> Runner:
    """The graph as irkit writes it for ONNX Runtime, ready to run."""
    return Runner(passes.prepare(graph, PLAIN), arrays)


def latencies(graphs: list[Graph], arrays: list[np.ndarray], seconds: float) -> list[float]:
    """Measured microseconds of each, in turns."""
    runners = [runner(each, arrays) for each in graphs]
    times: list[list[float]] = [[] for _ in runners]
    end = time.perf_counter() + seconds * len(graphs)
    while time.perf_counter() < end or len(times[0]) < 20:
        for index, each in enumerate(runners):
            times[index] += [each.time() for _ in range(4)]
    return [1e6 * float(np.percentile(each, LOW)) for each in times]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each model and way")
    parser.add_argument("--only", action="append", default=[], help="names of models")
    arguments = parser.parse_args()
    print("| model | operators: as given, greedy, saturated | by the model, us | measured, us | ratio | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for make in MODELS:
        if arguments.only and make.__name__ not in arguments.only:
            continue
        graph = make()
        greedy = passes.optimize(graph)
        start = time.perf_counter()
        saturated = passes.optimize(passes.saturate(greedy))
        took = time.perf_counter() - start
        rng = np.random.default_rng(0)
        arrays = [rng.uniform(0.5, 1.5, v.shape).astype(np.float32) for v in graph.params]
        difference = compare(evaluate(graph, arrays), evaluate(saturated, arrays), rtol=1e-4, atol=1e-4)
        if difference is not None:
            raise SystemExit(f"{make.__name__}: {difference}")
        first, second = latencies([greedy, saturated], arrays, arguments.seconds)
        print(
            f"| {make.__name__} | {len(graph)}, {len(greedy)}, {len(saturated)} | {modelled(greedy):.1f}, "
            f"{modelled(saturated):.1f} | {first:.1f}, {second:.1f} | {second / first:.2f} | {took:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
