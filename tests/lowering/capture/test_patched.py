"""`lowering.patched`: replacements in place, counted, undone, and dimensions that torch.export would fix."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch

import irkit
import lowering
from lowering import Replacement, patched
from lowering.errors import CaptureError
from lowering.records.torch_internals import pytree


class Layer(torch.nn.Module):
    def forward(self, x):
        return self.scaled(x) + self.offset

    @staticmethod
    def scaled(x):
        return torch.from_numpy(np.asarray(x.numpy()) * 2)  # leaves torch

    @property
    def offset(self):
        return 1


class PatchedLayer:
    """Numbers stay in torch."""

    _PATCHES_ = ("scaled",)
    _PATCHED_CLASS_ = Layer

    @staticmethod
    def scaled(x):
        return x * 2


def test_a_patched_model_is_exported_and_left_as_it_was(tmp_path):
    x = torch.rand(3)
    before = vars(Layer)["scaled"]
    with pytest.raises(irkit.errors.IrkitError):
        irkit.to_onnx(Layer(), (x,))
    with patched(PatchedLayer, dump=tmp_path) as done:
        program = irkit.to_onnx(Layer(), (x,))
        (row,) = done.report
        assert row.calls
        assert row.why == "Numbers stay in torch."
    assert program.check()
    assert vars(Layer)["scaled"] is before
    (file,) = tmp_path.iterdir()
    assert "-    return torch.from_numpy(np.asarray(x.numpy()) * 2)" in file.read_text()
    assert "+    return x * 2" in file.read_text()


def test_every_kind_of_function_stays_what_it_is():
    path = f"{__name__}.Layer"
    with patched(
        Replacement(f"{path}.offset", property(lambda self: 5)), Replacement(f"{path}.scaled", lambda x: x)
    ) as done:
        assert Layer().offset == 5
        assert Layer.scaled(3) == 3
        assert Layer()(torch.zeros(2)).tolist() == [5, 5]
    assert Layer().offset == 1
    assert [row.calls for row in done.report] == [2, 2]


def test_what_is_not_there_is_told_and_harms_nothing():
    with patched(
        Replacement("no_such_library.Class.method", print),
        Replacement("statistics.no_such_function", print),
        Replacement("statistics.mean", lambda data: 7, "for a test"),
    ) as done:
        assert statistics.mean([1]) == 7
    assert statistics.mean([1]) == 1
    assert [bool(row.missing) for row in done.report] == [True, True, False]
    assert "statistics.no_such_function: not made: statistics has no no_such_function" in str(done)
    assert "statistics.mean: called 1 time (for a test)" in str(done)


def test_blocks_are_nested_and_undone_after_errors():
    before = math.floor
    with patched(Replacement("math.floor", lambda x: 1)):
        with pytest.raises(ZeroDivisionError), patched(Replacement("math.floor", lambda x: 2)):
            assert math.floor(5.5) == 2
            raise ZeroDivisionError
        assert math.floor(5.5) == 1
    assert math.floor is before


def test_inherited_methods_are_left_where_they_are():
    class Child(Layer):
        pass

    globals()["Child"] = Child
    Child.__qualname__ = "Child"
    try:
        with patched(Replacement(f"{__name__}.Child.scaled", lambda x: 0)):
            assert Child.scaled(1) == 0
            assert Layer.scaled is vars(Layer)["scaled"].__func__
        assert "scaled" not in vars(Child)
    finally:
        del globals()["Child"]


@pytest.mark.parametrize("given", [print, "math.floor", object])
def test_what_is_no_patch_is_refused(given):
    with pytest.raises(CaptureError, match="is no patch"), patched(given):
        pass


def test_caches_and_outputs_are_known_for_the_time_of_the_block():
    transformers = pytest.importorskip("transformers")
    cache = transformers.DynamicCache()
    cache.update(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    known = set(pytree.SUPPORTED_NODES)
    with patched():
        leaves = pytree.tree_leaves({"cache": cache})
        assert [leaf.shape for leaf in leaves] == [(1, 2, 3, 4)] * 2
    assert set(pytree.SUPPORTED_NODES) == known
    with patched(classes=False):
        assert set(pytree.SUPPORTED_NODES) == known


@lowering.pytree_class("keys", "values")
class Memory:
    def __init__(self, keys, values, scale):
        self.keys, self.values, self.scale = keys, values, scale


def test_a_class_of_the_users_is_seen_through():
    def model(x, memory):
        return Memory(memory.keys + x, memory.values * memory.scale, 7)

    x, memory = torch.rand(3), Memory(torch.rand(3), torch.rand(3), 2.0)
    for capture in ("direct", "torch.export"):
        program = irkit.to_onnx(model, (x, memory), capture=capture)
        found, expected = program(x, memory), model(x, memory)
        assert isinstance(found, Memory)
        assert found.scale == 7
        torch.testing.assert_close((found.keys, found.values), (expected.keys, expected.values))
        assert set(program.inputs) >= {"x"}
        assert len(program.inputs) == 3
        with pytest.raises(irkit.errors.IrkitError):
            program(x, Memory(memory.keys, memory.values, 3.0))
    assert Memory not in pytree.SUPPORTED_NODES
    with patched(classes=[Memory]):
        assert len(pytree.tree_leaves(memory)) == 2
    assert Memory not in pytree.SUPPORTED_NODES
    with pytest.raises(TypeError, match="name the attributes"):
        lowering.pytree_class()


class Fixed(torch.nn.Module):
    def forward(self, x, y):
        return x.reshape(4, 3) + 1 if self.training else torch.cat([x, x]) + y


def test_the_line_that_fixes_a_dimension_is_told():
    model, x, y = Fixed(), torch.rand(4, 3), torch.rand(8, 3)
    shapes = {"x": {0: torch.export.Dim.AUTO}, "y": {0: torch.export.Dim.AUTO}}
    with patched(stop_if_static=1), pytest.raises(Exception, match="is fixed as 4") as told:
        torch.export.export(model, (x, y), dynamic_shapes=shapes)
    assert "x.reshape(4, 3)" in str(told.value)
    with patched(stop_if_static=1):
        torch.export.export(model.eval(), (x, y), dynamic_shapes=shapes)
    with patched(stop_if_static=2), pytest.raises(Exception, match="is made one with"):
        torch.export.export(model.eval(), (x, y), dynamic_shapes=shapes)
    with pytest.raises(CaptureError, match="stop_if_static is 9"), patched(stop_if_static=9):
        pass


def test_patches_of_irkit_serve_torch_export():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with lowering.patched(torch_export=True):
        program = torch.export.export(layer, (torch.rand(2, 5, 8),))
    assert not any("_transformer_encoder_layer_fwd" in str(node.target) for node in program.graph.nodes)
