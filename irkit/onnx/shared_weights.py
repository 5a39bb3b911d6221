"""Several models over one file of weights: what they have in common is written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
from onnx import ModelProto, TensorProto

from irkit.core.blobs import Blob
from irkit.core.ir import Graph
from irkit.onnx.save import Plan, external_proto, write_external, write_message
from irkit.onnx.writing.models import skeleton
from irkit.support.files import atomic_write

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
        with atomic_write(folder / weights) as file:
            write_external(file, plan.external)
    written = dict[str, Path]()
    for name, (model, streamed) in models.items():
        written[name] = folder / f"{name}.onnx"
        with atomic_write(written[name]) as file:
            write_message(file, model, streamed)
        graphs[name][0].check_contents()  # while it was written, too
    return written
