"""Operators one by one on ONNX Runtime, as kernels for the evaluator: nothing is fused, each result can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import attrs
import numpy as np

from irkit.core.ir import Graph, Value, item, param
from irkit.core.types import DType, Tensor, Tuple, Type
from irkit.core.vocabulary import CONSTANT
from irkit.errors import EvaluateError, IrkitError
from irkit.evaluation.kernels.common import Array, Kernel
from irkit.evaluation.kernels.table import KERNELS
from irkit.onnx.sessions import CPU, Session, graph_session, quiet_options

Sessions = dict[tuple[Value, tuple[Type | None, ...]], Session]
"""By a node, and the types that its operands have."""


@attrs.frozen(eq=False)
class SingleNodes(Mapping[str, Kernel]):
    """For each operator a kernel that runs it on ONNX Runtime, as a model of this one node.

    `irkit.evaluate(..., kernels=SingleNodes())`. `own` are kernels that come first, for operators that ONNX Runtime
    lacks. The bodies of control flow are run node by node too. A node that is met again with operands of the same
    shapes, in a loop, runs on the session that it has; sessions live as long as this object.
    """

    providers: Sequence[str] = CPU
    opset: int | None = None
    own: Mapping[str, Kernel] = {}
    _sessions: Sessions = attrs.field(factory=Sessions, init=False)

    def __getitem__(self, op: str) -> Kernel:
        return self.own[op] if op in self.own else partial(self.run)

    def __contains__(self, op: object) -> bool:
        return isinstance(op, str)

    def __iter__(self) -> Iterator[str]:
        return iter({**KERNELS, **self.own})

    def __len__(self) -> int:
        return len({**KERNELS, **self.own})

    def run(self, node: Value, *operands: Any, rng: object = None) -> tuple[Any, ...]:
        """The results of a node on these operands. Random operators draw as ONNX Runtime does, whatever `rng` is.

        Raises EvaluateError with what ONNX Runtime says, where it does not run the node.
        """
        types = tuple(type_of(v, a) for v, a in zip(node.inputs, operands, strict=True))
        try:
            if (node, types) not in self._sessions:
                options = quiet_options()
                options.log_severity_level = 4  # what goes wrong is raised, and need not be printed too
                self._sessions[node, types] = graph_session(alone(node, types), self.providers, options, self.opset)
            fed = [a for v, a in zip(node.inputs, operands, strict=True) if v is not None and v.op != CONSTANT]
            return self._sessions[node, types].run(fed)
        except IrkitError:
            raise
        except Exception as error:  # what pybind raises has no class of its own
            raise EvaluateError(
                f"ONNX Runtime does not run {node.op}: {error}",
                hint="passes.prepare(graph) writes what it runs; or give a kernel of your own",
            ) from error


def type_of(value: Value | None, held: Any) -> Type | None:
    """The type of an operand with the sizes that it has."""
    if value is None:
        return None
    array: Array | None = cast("Array", held) if isinstance(held, np.ndarray) else None
    return value.type if array is None else Tensor(DType.of(array.dtype), array.shape)


def alone(node: Value, types: Sequence[Type | None]) -> Graph:
    """The graph of one operator over parameters of these types; constants stay what they are."""
    inputs = tuple(
        v if v is None or t is None or v.op == CONSTANT else param(t) for v, t in zip(node.inputs, types, strict=True)
    )
    made = node.with_inputs(inputs)
    results = [item(made, i) for i in range(len(made.type.items))] if isinstance(made.type, Tuple) else [made]
    return Graph(tuple(v for v in inputs if v is not None and v.op != CONSTANT), tuple(results))
