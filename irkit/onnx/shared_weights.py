"""Several models over one file of weights: what they have in common is written once."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from irkit.core.blobs import Blob
from irkit.core.ir import Graph
from irkit.onnx.save import Plan, external_proto, write_external, write_message
from irkit.onnx.writing.identities import IDENTITY_KEY, exact_identity, require_written_together
from irkit.onnx.writing.models import skeleton
from irkit.support.files import atomic_write
from irkit.support.stored_files import opened_file

WEIGHTS = "weights.data"


@attrs.define(eq=False)
class SharedPlan(Plan):
    """A plan in which contents that are equal lie at one place; `known` says where."""

    known: dict[bytes, int] = attrs.field(factory=dict[bytes, int])

    def sink(self, blob: Blob, name: str) -> TensorProto | None:
        """The message of one initializer, or None for one that is streamed."""
        count = len(self.external)
        at = self.known.get(blob.digest) if blob.nbytes >= (self.threshold or 0) else None
        if at is not None:
            return external_proto(blob, name, self.location, at)
        made = super().sink(blob, name)
        if len(self.external) > count:
            self.known[blob.digest] = self.external[-1][1]
        return made


def write_models(graphs: Mapping[str, tuple[Graph, int]], folder: Path, weights: str = WEIGHTS) -> dict[str, Path]:
    """Writes each graph, at its opset, as `<name>.onnx` into a folder, and all weights of 1 KiB and more, each content
    once, to the file `weights` there; returns the path of each model.

    Models that are there under these names are replaced, one after another. Raises SerializeError where no file can be
    written, StaleError where a weight has changed since its graph was made.
    """
    plan = SharedPlan(weights, 1024)
    models: dict[str, tuple[ModelProto, list[tuple[TensorProto, Blob]]]] = {}
    for name, (graph, opset) in graphs.items():
        plan.streamed = []
        models[name] = skeleton(graph, opset=opset, ir_version=None, sink=plan.sink), plan.streamed
    if plan.external:
        identity = exact_identity(plan.external)
        with atomic_write(folder / weights) as file:
            write_external(file, plan.external, identity)
        for model, _ in models.values():
            model.metadata_props.add(key=IDENTITY_KEY, value=identity)
    written = dict[str, Path]()
    for name, (model, streamed) in models.items():
        written[name] = folder / f"{name}.onnx"
        with atomic_write(written[name]) as file:
            write_message(file, model, streamed)
        graphs[name][0].check_contents()  # while it was written, too
    return written


def copy_model(source: Path, target: Path, weights: str) -> None:
    """Copies a model that `write_models` wrote, and its file of weights, to another place and under other names. Raises
    LoadError where the weights beside it are another model's, SerializeError where no file can be written."""
    model = ModelProto.FromString(source.read_bytes())
    places = [each for tensor in tensors_of(model) for each in tensor.external_data if each.key == "location"]
    for location in sorted({each.value for each in places}):
        beside = source.resolve().with_name(location)
        identity = next((each.value for each in model.metadata_props if each.key == IDENTITY_KEY), None)
        require_written_together(opened_file(beside, "the weights"), identity)
        with beside.open("rb") as held, atomic_write(target.with_name(weights)) as file:
            shutil.copyfileobj(held, file, 1 << 20)
    for each in places:
        each.value = weights
    with atomic_write(target) as file:
        file.write(model.SerializeToString(deterministic=True))


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors of a model, those of bodies and functions included."""
    nodes: list[Iterable[NodeProto]] = [function.node for function in model.functions]
    graphs: list[GraphProto] = [model.graph]
    while nodes or graphs:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes.append(graph.node)
        for node in nodes.pop() if nodes else ():
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                graphs += [attribute.g] if attribute.HasField("g") else []
