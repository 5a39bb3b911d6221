"""The folder that optimum-onnx loads: `ORTModelForCausalLM.from_pretrained(folder)`."""

from __future__ import annotations

from lowering.layouts.written import Layout, Order, parts_of, programs_of, write_graphs

WEIGHTS = "model.onnx_data"


def write_optimum(order: Order) -> Layout:
    """Writes the models and configurations under the names that optimum looks for."""
    programs, graphs = programs_of(parts_of(order.source.model), order.options)
    files = write_graphs(graphs, programs, order.folder, WEIGHTS)
    return Layout(order.folder, (*files, *order.source.copy_beside(order.folder)), programs)
