"""Runs of a session over values that stand ready in ONNX Runtime's own form, with nothing made or copied between.

ONNX Runtime's Python classes make an object around each value, which for a model of many inputs costs more than a small
step of it. What lies below them, seen in ONNX Runtime 1.31, is used here and nowhere else.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import OrtDevice, OrtValueVector

from irkit.core.blobs import blob
from irkit.core.types import DType
from irkit.onnx.sessions import Session, array_of
from irkit.onnx.writing.tensors import chunks

CPU_DEVICE = OrtDevice(OrtDevice.cpu(), OrtDevice.default_memory(), 0)


def owned_value(array: np.ndarray) -> Any:
    """A value of ONNX Runtime's with a copy of an array."""
    dtype = DType.of(array.dtype)
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, int(dtype))._ortvalue
    raw = b"".join(bytes(chunk) for chunk in chunks(blob(array)))
    if raw:
        ctypes.memmove(made.data_ptr(), raw, len(raw))
    return made


def array_held(value: Any) -> Any:
    """What such a value holds, as an array."""
    return array_of(value)


@attrs.frozen(eq=False)
class BoundRun:
    """A session with the inputs that a run gives, in order, and the outputs that it asks for."""

    session: Session
    inputs: Sequence[str]
    outputs: Sequence[str]
    options: Any = attrs.field(factory=onnxruntime.RunOptions)
    devices: Sequence[Any] = attrs.field(
        init=False, default=attrs.Factory(lambda self: devices_of(self), takes_self=True)
    )
    """Where each output shall lie."""
    run: Any = attrs.field(init=False, default=attrs.Factory(lambda self: runner_of(self), takes_self=True))
    """What runs the session over vectors of values."""

    def __call__(self, given: Any) -> Any:
        """The outputs in order, for an `OrtValueVector` of the inputs. Raises StaleError where a weight that is read in
        place has changed, and what ONNX Runtime raises."""
        for watch in self.session.watches:
            watch.check()
        found = OrtValueVector()
        if not self.outputs:  # ONNX Runtime refuses to be asked for nothing
            return found
        self.run(self.options, self.inputs, given, self.outputs, found, self.devices)
        return found

    def into(self, given: Any, places: Mapping[str, Any]) -> Any:
        """The same, with some outputs written to where the held values in `places` lie, by name."""
        for watch in self.session.watches:
            watch.check()
        binding = self.session.inner.io_binding()._iobinding
        for name, value in zip(self.inputs, given, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            if name in places:
                binding.bind_ortvalue_output(name, places[name])
            else:
                binding.bind_output(name, CPU_DEVICE)
        self.session.inner._sess.run_with_iobinding(binding, self.options)
        return binding.get_outputs()


def devices_of(run: BoundRun) -> Sequence[Any]:
    """The CPU for each output."""
    return [CPU_DEVICE] * len(run.outputs)


def runner_of(run: BoundRun) -> Any:
    """What runs a session over vectors of values."""
    return run.session.inner._sess.run_with_ortvaluevector


def held_values() -> Any:
    """A vector for the inputs of a run: `push_back` takes a value, or a DLPack capsule and whether it holds bools."""
    return OrtValueVector()
