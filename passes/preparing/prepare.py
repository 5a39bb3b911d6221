"""The last step before a graph is saved: everything in it is something that the target runs."""

from __future__ import annotations

from irkit.core.ir import Graph, require_graph
from irkit.onnx.writing.materialize import ALLOWZERO, materialize_dims
from irkit.rewriting.driver import Plan
from irkit.rewriting.passes import Observer, nobody
from passes.legal.legalize import legalize
from passes.legal.opsets.operators import plain_reshapes
from passes.legal.runtime.limits import state_limits
from passes.preparing.fuse import fuse, hold
from passes.preparing.group_products import group_products
from passes.preparing.linear_rows import rows
from passes.preparing.steer import steer
from passes.targets import Target, target_of
from passes.targets.targets import require_domains


def prepare(
    graph: Graph,
    target: str | Target = "onnxruntime-cpu",
    opset: int | None = None,
    *,
    rules: str = "",
    exact: bool = False,
) -> Graph:
    """A graph that the target runs, with every size written out as nodes: what `irkit.save` should be given.

    `target` is a Target or a name, such as "onnxruntime-cpu+com.microsoft"; `opset` the ONNX opset, 13 to 26, the
    newest that the target runs where it is not given. Pass the same opset to `irkit.save`. `rules` is a text that
    chooses among the rules of `passes.preparing.fuse`, as `optimize` takes it. With `exact`, nothing is said in other
    words that may round otherwise, as level 1 of `optimize` promises: only what the target lacks is expressed by other
    operators.

    Raises RewriteError for what the target cannot run.
    """
    require_graph(graph)
    chosen = target_of(target, opset)
    return state_limits(materialize_dims(fit_to_target(graph, chosen, rules, exact), chosen.opset), chosen)


def fit_to_target(
    graph: Graph, target: Target, rules: str = "", exact: bool = False, observe: Observer = nobody
) -> Graph:
    """The graph in the operators that the target runs, and of those the ones that it runs fastest: fused where that
    pays (`passes.preparing.fuse`), legalized (`passes.legalize`), kept from being fused where it does not
    (`passes.preparing.steer`), rows that meet the same matrix put together (`passes.preparing.group_products`), its
    linear layers on rows where that pays (`passes.preparing.linear_rows`), and the weights of the others as they lie in
    memory where the target takes them so. With `exact` it is legalized, and steered, which keep every bit. `observe` is
    told of each step.

    Raises RewriteError for what the target cannot run, and for a domain that nobody has operators in.
    """
    require_domains(graph, target)
    if exact:
        return steer(legalize(graph, target, observe=observe), target, observe=observe)
    fused = fuse(graph, target, rules=rules, observe=observe)
    steered = steer(legalize(fused, target, observe=observe), target, observe=observe)
    legal = group_products(steered, target, observe=observe)
    placed = rows(legal, target, observe=observe)
    if target.opset < ALLOWZERO and Plan((plain_reshapes(placed.symbols),)).applies(placed):
        placed = legal  # from rows back to sizes that may be 0, for which the opset has no word
    return hold(placed, target, rules=rules, observe=observe)
