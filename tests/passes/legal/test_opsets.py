"""ONNX's node cases at other opsets, up and down: a sample, and what once was wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import irkit
from irkit.build import const, op
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, param
from irkit.core.types import tensor
from irkit.doors.cli import app
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from passes.preparing.prepare import prepare
from passes.targets import OPSET, target_of
from passes.targets.targets import OLDEST
from tests.support.draws import drawn, generator
from tests.tables.opsets import Ready, everything, outcome, ready

SAMPLE = 160
PINNED = (
    ("test_averagepool_2d_ceil_last_window_starts_on_pad", 21), ("test_col2im_pads", 13),
    ("test_dft_axis", 13), ("test_gridsample_reflection_padding", 15), ("test_gridsample_bicubic", 13),
    ("test_lppool_2d_dilations", 17), ("test_maxpool_2d_ceil_output_size_reduce_by_one", 13),
    ("test_reshape_allowzero_reordered", 13), ("test_resize_downsample_scales_linear_antialias", 17),
    ("test_resize_upsample_sizes_nearest_axes_2_3", 13), ("test_roialign_aligned_false", 13),
    ("test_scatter_elements_with_reduction_min", 13), ("test_scatternd_add", 15), ("test_stft_with_window", 16),
    ("test_training_dropout", 13), ("test_batchnorm_epsilon_training_mode", 13), ("test_bitwise_xor_i16_3d", 17),
    ("test_bitwise_and_ui64_bcast_3v1d", 13), ("test_dequantizelinear_blocked", 18), ("test_tril_neg", 13),
    ("test_shape_start_1_end_2", 13), ("test_affine_grid_3d", 13), ("test_attention_4d_gqa", 13),
    ("test_layer_normalization_2d_axis1", 13), ("test_optional_has_element_tensor_input", 15),
)  # fmt: skip
"""Cases at opsets at which an operator is expanded, or was expanded wrongly once."""


def chosen() -> list[tuple[str, int]]:
    names = [case.name for case in everything()]
    pairs = [(name, opset) for name in names for opset in range(OLDEST, OPSET)]
    return drawn("cases at opsets", sorted(pairs), SAMPLE, pinned=PINNED)


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return {case.name: case for case in everything()}


@pytest.mark.parametrize(("name", "opset"), chosen())
def test_a_case_passes_or_is_refused(table: dict[str, Any], name: str, opset: int) -> None:
    found = outcome(ready(table[name]), opset)
    assert found.status in ("passed", "refused", "unrun"), found
    if (name, opset) in PINNED:
        assert found.status == "passed", found
    if found.status == "refused":
        assert found.op in found.why or "opset" in found.why, found


@pytest.mark.parametrize("opset", range(OLDEST, OPSET + 1))
def test_what_is_written_is_read_as_it_was(opset: int) -> None:
    """`downgrade` and `upgrade` undo one another, at every opset."""
    x, image, grid, rois, at = (
        param(tensor("f32", "b", 3, 8)), param(tensor("f32", 2, 3, 6, 6)), param(tensor("f32", 2, 4, 4, 2)),
        param(tensor("f32", 2, 4)), param(tensor("i64", 2)),
    )  # fmt: skip
    results = [
        op.ReduceMean(x, [1, -1]), op.ReduceMax(x, [1], keepdims=0), op.ReduceL2(x), op.ReduceSum(x, [2]),
        op.Concat(*op.Split(x, [5, 3], axis=2, outputs=2), axis=2), op.Squeeze(op.Unsqueeze(x, [0]), [0]),
    ]  # fmt: skip
    if opset >= 16:
        results += [
            op.GridSample(image, grid),
            op.RoiAlign(image, rois, at, coordinate_transformation_mode="half_pixel"),
        ]
    results.append(op.RoiAlign(image, rois, at, coordinate_transformation_mode="output_half_pixel"))
    if opset >= 17:
        results.append(op.DFT(op.Unsqueeze(x, [3]), None, const(np.array(2))))
    graph = Graph((x, image, grid, rois, at), tuple(results))
    assert irkit.load(irkit.to_proto(graph, opset=opset)) == irkit.load(irkit.to_proto(graph))


def test_sizes_that_may_be_zero_are_reshaped_without_allowzero() -> None:
    x = param(tensor("f32", irkit.symbol("a"), irkit.symbol("b"), 4))
    a, b = x.shape[:2]
    graph = Graph((x,), (op.Reshape(x, irkit.shape_vector((b, 2, a, 2))),))
    legal = prepare(graph, target_of("onnx", 13))
    run = session(legal, opset=13).run
    for sizes in ((2, 3), (0, 3), (2, 0), (0, 0), (1, 1)):
        feed = np.random.default_rng(0).normal(size=(*sizes, 4)).astype(np.float32)
        assert compare(evaluate(graph, [feed]), run([feed])) is None, sizes


@pytest.mark.parametrize(("start", "end"), [(26, 13), (26, 17), (13, 26), (18, 21)])
def test_convert_is_one_command(tmp_path: Path, start: int, end: int) -> None:
    x = param(tensor("f32", "b", 6))
    graph = Graph((x,), (op.ReduceMean(op.Gelu(op.Mul(x, 2.0)), [1]), op.LayerNormalization(x, np.ones(6, np.float32))))
    irkit.save(prepare(graph, "onnx", start), tmp_path / "given.onnx", opset=start)
    said = CliRunner().invoke(
        app, ["convert", str(tmp_path / "given.onnx"), "-o", str(tmp_path / "made.onnx"), "--opset", str(end)]
    )
    assert said.exit_code == 0, said.output
    model = onnx.load(tmp_path / "made.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == end
    feed = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    assert compare(evaluate(graph, [feed]), session(model).run([feed])) is None


def old_models() -> list[Path]:
    """The models that ONNX brings along, most of opset 6, of which it knows the results."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found = sorted(root.glob("pytorch-*/*/model.onnx")) + sorted(root.glob("simple/test_*/model.onnx"))
    return [path for path in found if not any(word in path.parent.name for word in ("gradient", "sequence", "strnorm"))]


@pytest.mark.parametrize("path", old_models(), ids=lambda path: path.parent.name)
def test_old_models_are_brought_to_any_opset(path: Path) -> None:
    def arrays(kind: str) -> list[Any]:
        count = len(list((path.parent / "test_data_set_0").glob(f"{kind}_*.pb")))
        files = (path.parent / "test_data_set_0" / f"{kind}_{i}.pb" for i in range(count))
        return [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]

    graph = irkit.load(path)
    opset = generator(f"opset of {path.parent.name}").randint(OLDEST, OPSET)
    got = session(prepare(graph, opset=opset), opset=opset).run(arrays("input"))
    assert compare(tuple(arrays("output")), tuple(got), rtol=1e-3, atol=1e-4) is None, opset


def test_a_row_says_why_it_is_refused() -> None:
    case = next(c for c in everything() if c.op == "StringConcat")
    found = outcome(ready(case), 18)
    assert (found.status, found.op) == ("refused", "StringConcat") and "opset 18 has no StringConcat" in found.why
    assert isinstance(ready(case), Ready)
