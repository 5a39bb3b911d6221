"""The folder that optimum-onnx loads: `ORTModelForCausalLM.from_pretrained(folder)`."""

from __future__ import annotations

from lowering.layouts.written import Layout, Order, graphs_of, parts_of, programs_of, write_graphs

WEIGHTS = "model.onnx_data"


def write_optimum(order: Order) -> Layout:
    """Writes the models and configurations under the names that optimum looks for."""
    parts = parts_of(order.source.model)
    programs = programs_of(parts, order.options)
    opset = next(iter(programs.values())).opset
    files = write_graphs(graphs_of(parts, programs), opset, order.folder, WEIGHTS)
    return Layout(order.folder, (*files, *order.source.copy_beside(order.folder)), programs)
