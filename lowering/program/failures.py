"""What becomes of a call that ONNX Runtime cannot run: which condition the data breaks, or which line it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from irkit.core.ir import Graph
from irkit.errors import ContractError, EvaluateError, IrkitError
from irkit.onnx.sessions import session
from lowering.fold.scope import Check

_NODE = re.compile(r"Name:'([^']+)'")
_STATUS = re.compile(r"Status Message: (.*)", re.DOTALL)


def breach(check: Check) -> ContractError:
    """The error of a condition that does not hold."""
    return ContractError(
        f"the data of this call breaks what the model {'assumes' if check.hint else 'asserts'}: {check.text}",
        source=check.source,
        hint=check.hint or "look at the numbers that the line works on, in the inputs",
    )


def load_refusal(error: Exception, target: str) -> EvaluateError:
    """The error of a session that ONNX Runtime does not make of a program for a target."""
    return EvaluateError(
        f"ONNX Runtime does not load the model, which is for {target}: {' '.join(str(error).split())}",
        hint="run it there, by lowering.run_elsewhere(program, runtime), or export it for onnxruntime-cpu",
    )


def refusal(
    error: Exception, graph: Graph, checks: Sequence[Check], opset: int, feeds: Mapping[str, np.ndarray]
) -> IrkitError:
    """The error of a run that raised `error`: a ContractError where one of the conditions is broken, which are then
    computed by themselves; else an EvaluateError with the line of the model that the failing node comes from."""
    for check in checks:
        signature = attrs.evolve(graph.signature, results=())
        alone = attrs.evolve(graph, results=(check.condition,), signature=signature)
        try:
            (holds,) = session(alone, opset=opset).run(feeds)
        except Exception:  # ONNX Runtime's own classes have no common base
            continue
        if not holds:
            return breach(check)
    text = str(error)
    name, status = _NODE.search(text), _STATUS.search(text)
    what = " ".join((status.group(1) if status else text).split())
    return EvaluateError(
        f"ONNX Runtime cannot run the model on these inputs: {what}",
        source=line_of_node(graph, name.group(1)) if name else "",
        hint="see whether the torch model takes them; if it does, program.check() tells where they part",
    )


def line_of_node(graph: Graph, name: str) -> str:
    """The user's line that a node of the file comes from, by its name; empty where none is known."""
    bare = re.sub(r"_\d+$", "", name)
    lines = {value.origin.node: value.origin.source for value in graph.order if value.origin.source}
    return lines.get(name) or lines.get(bare, "")
