"""Two models by numbers: the same inputs to both, at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np

from irkit.checking.comparison import compare
from irkit.contract.as_json import Json
from irkit.contract.sizes import names_of
from irkit.core.ir import Graph
from irkit.errors import ContractError, EvaluateError, GraphError, IrkitError
from irkit.evaluation.kernels.common import Content
from irkit.onnx.evaluate import evaluate
from irkit.toolbox.inputs import Arrays, Ranges, drawn_inputs, several_sizes
from irkit.toolbox.running import made_session, outputs_of, require_contract

Run = Callable[[Arrays], Sequence[Content]]
"""The results of a model, in order, for inputs by name."""


@attrs.frozen
class Side:
    """One of the two models: what it takes and gives, and how it is run."""

    name: str
    graph: Graph
    run: Run


@attrs.frozen
class Comparison:
    """One assignment of sizes: how far each output is off at most, and what differs; or why both refuse it."""

    sizes: tuple[tuple[str, int], ...]
    errors: tuple[tuple[str, float], ...] = ()
    problem: str = ""
    refusal: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{name}={size}" for name, size in self.sizes) or "static sizes"
        worst = max((error for _, error in self.errors), default=0.0)
        agreed = f"both refuse it: {self.refusal}" if self.refusal else f"agrees, largest error {worst:.2g}"
        return f"{at}: {self.problem or agreed}"


@attrs.frozen
class Comparisons:
    """What was compared; true where the models agree everywhere, and were compared somewhere."""

    runs: tuple[Comparison, ...]

    def __bool__(self) -> bool:
        return any(not run.refusal for run in self.runs) and not any(run.problem for run in self.runs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.runs))

    def as_json(self) -> Json:
        """The same as plain data."""
        runs = [
            {"sizes": dict(r.sizes), "errors": dict(r.errors), "problem": r.problem, "refusal": r.refusal}
            for r in self.runs
        ]
        return {"agrees": bool(self), "runs": runs}


def side_of(name: str, graph: Graph, runtime: str, file: Path | None) -> Side:
    """A model that ONNX Runtime runs, the file itself where there is one, or the evaluator. Raises EvaluateError where
    the runtime does not take it."""
    names = names_of(graph)
    if runtime == "irkit":
        return Side(name, graph, lambda feeds: evaluate(graph, [feeds[each] for each in names]))
    session = made_session(graph, file)

    def run(feeds: Arrays) -> Sequence[Content]:
        in_order = [feeds[each] for each in names]
        return session.run(feeds if set(session.inputs) <= feeds.keys() else in_order)

    return Side(name, graph, run)


def compare_models(
    one: Side,
    other: Side,
    *,
    count: int = 4,
    given: dict[str, int] | None = None,
    ranges: Ranges | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparisons:
    """Both models on the same random inputs, at up to `count` assignments of sizes, the least first.

    Inputs and outputs are matched by name where both have the same names, else in order. What the contract of both
    refuses is no difference; what one alone refuses is. Raises GraphError for models of other numbers of inputs or
    outputs.
    """
    inputs = matched(list(names_of(one.graph)), list(names_of(other.graph)), "inputs", one, other)
    outputs = matched(outputs_of(one.graph), outputs_of(other.graph), "outputs", one, other)
    rng = np.random.default_rng(seed)
    runs: list[Comparison] = []
    every = several_sizes([one.graph], given or {}, count, seed)
    for i, sizes in enumerate(every):
        feeds = drawn_inputs(one.graph, sizes, rng, ranges)
        runs.append(compared_at(one, other, feeds, inputs, outputs, sizes, rtol, atol))
        if progress is not None:
            progress("comparing", i + 1, len(every))
    return Comparisons(tuple(runs))


def matched(names: list[str], others: list[str], what: str, one: Side, other: Side) -> dict[str, str]:
    """The name that the other model has for each. Raises GraphError where there are not as many."""
    if len(names) != len(others):
        raise GraphError(
            f"{one.name} has {len(names)} {what}, {', '.join(names)}, and {other.name} {len(others)}, "
            f"{', '.join(others)}",
            hint="compare models of the same inputs and outputs; irkit extract cuts out what both have",
        )
    return {name: name for name in names} if set(names) == set(others) else dict(zip(names, others, strict=True))


def compared_at(
    one: Side,
    other: Side,
    feeds: Arrays,
    inputs: dict[str, str],
    outputs: dict[str, str],
    sizes: dict[str, int],
    rtol: float | None,
    atol: float | None,
) -> Comparison:
    """One comparison; what one model refuses, or fails at, is the problem."""
    at = tuple(sorted(sizes.items()))
    renamed = {inputs[name]: each for name, each in feeds.items()}
    found, told = results_of(one, feeds)
    wanted, said = results_of(other, renamed)
    if told and said:
        return Comparison(at, refusal=told)
    if told or said:
        return Comparison(at, problem=f"{one.name if told else other.name} alone refuses it: {told or said}")
    errors: list[tuple[str, float]] = []
    theirs = dict(zip(outputs_of(other.graph), wanted, strict=True))
    for name, mine in zip(outputs_of(one.graph), found, strict=True):
        expected = theirs[outputs[name]]
        difference = compare(expected, mine, rtol=rtol, atol=atol)
        if difference is not None:
            return Comparison(at, tuple(errors), f"output {name}: {difference}")
        errors.append((name, largest_error(expected, mine)))
    return Comparison(at, tuple(errors))


def results_of(side: Side, feeds: Arrays) -> tuple[Sequence[Content], str]:
    """(results, why there are none): what a model gives, held to its contract."""
    try:
        require_contract(side.graph, feeds)
        return side.run(feeds), ""
    except (ContractError, EvaluateError) as error:
        return (), error.what
    except IrkitError:
        raise
    except Exception as error:  # ONNX Runtime's own classes have no common base
        return (), str(error).splitlines()[0]


def largest_error(expected: Content, actual: Content) -> float:
    """The largest difference of two arrays of numbers; 0 for everything else."""
    if isinstance(expected, list | tuple):
        return max(map(largest_error, expected, actual), default=0.0)  # pyright: ignore[reportUnknownArgumentType]
    a, b = np.asarray(expected), np.asarray(actual)
    if not a.size or a.dtype.kind in "OUSb":
        return 0.0
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    gap = np.abs(a.astype(kind) - b.astype(kind))
    gap = gap[np.isfinite(gap)]
    return float(gap.max()) if gap.size else 0.0
