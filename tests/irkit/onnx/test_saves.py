"""Saves that are killed, that find no room, no permission, or another save: a model and its weights are never torn."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import irkit
from irkit.core.ir import Graph
from irkit.errors import LoadError, SerializeError, StaleError
from irkit.onnx.onnx_ir import from_onnx_ir
from irkit.onnx.shared_weights import write_models
from irkit.onnx.weight_files import locations
from irkit.onnx.writing.identities import MARK
from irkit.support.files import atomic_write, mode_at, require_replaceable
from tests.fuzz.kills import ROWS, graph_of, number_in, save

ROOT = Path(__file__).parents[3]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_saves_that_are_killed_leave_whole_models() -> None:
    """`python -m tests.fuzz.kills 200` kills more."""
    run = [sys.executable, "-m", "tests.fuzz.kills", "12"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and done.stdout.count("nothing left over") == 3, done.stderr


def test_each_save_gives_its_weights_a_new_name(tmp_path: Path) -> None:
    for number, data in enumerate(("m.onnx.data", "m.onnx.1.data", "m.onnx.2.data")):
        save(number, tmp_path, "beside")
        assert names(tmp_path) == sorted(["m.onnx", data]) and number_in(tmp_path, "beside") == number
        assert set(locations((tmp_path / "m.onnx").read_bytes())) == {data}
    save(3, tmp_path, "inside")
    assert names(tmp_path) == ["m.onnx"] and number_in(tmp_path, "inside") == 3


def test_models_that_share_weights_keep_them(tmp_path: Path) -> None:
    save(1, tmp_path, "beside")
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
    for number, form in ((2, "beside"), (3, "beside"), (4, "inside"), (5, "beside")):
        save(number, tmp_path, form)
        assert number_in(tmp_path, "beside") == number
        copy = irkit.load(tmp_path / "copy.onnx")
        assert copy == irkit.load(irkit.to_proto(graph_of(1)))
    assert names(tmp_path) == ["copy.onnx", "m.onnx", "m.onnx.1.data", "m.onnx.data"]
    (tmp_path / "copy.onnx").unlink()
    save(6, tmp_path, "beside")
    assert len(names(tmp_path)) == 2


def test_a_large_model_that_shares_weights_keeps_them(tmp_path: Path) -> None:
    save(1, tmp_path, "beside")
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1 << 19, np.float32), "more"))
    (tmp_path / "copy.onnx").write_bytes(model.SerializeToString())
    save(2, tmp_path, "beside")
    assert "m.onnx.data" in names(tmp_path) and irkit.load(tmp_path / "copy.onnx").digest


def test_weights_of_another_save_are_refused(tmp_path: Path) -> None:
    """Another model's file of weights, of the same sizes, was once read without a word."""
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        save(number, tmp_path / str(number), "beside")
    mixed = tmp_path / "1" / "m.onnx.data"
    own = mixed.read_bytes()
    mixed.write_bytes((tmp_path / "2" / "m.onnx.data").read_bytes())
    with pytest.raises(LoadError, match=r"'m\.onnx\.data' holds the weights of another model, or of another save"):
        irkit.load(tmp_path / "1" / "m.onnx")
    with pytest.raises(LoadError, match="of another model"):
        from_onnx_ir(onnx_ir.load(tmp_path / "1" / "m.onnx"))
    mixed.write_bytes(own[:-1])
    with pytest.raises(LoadError, match="ends at byte"):
        irkit.load(tmp_path / "1" / "m.onnx")
    mixed.write_bytes(own[:50])
    with pytest.raises(LoadError):
        irkit.load(tmp_path / "1" / "m.onnx")
    mixed.write_bytes(own)
    assert number_in(tmp_path / "1", "beside") == 1


def test_equal_saves_are_equal_and_one_number_tells_models_over_one_file_apart(tmp_path: Path) -> None:
    other = np.full((ROWS, ROWS), 1, np.float32)
    other[7, 11] = 2
    x = irkit.param(irkit.tensor("f32", "n", ROWS))
    weights = {"first": np.ones((ROWS, ROWS), np.float32), "again": np.ones((ROWS, ROWS), np.float32), "other": other}
    for name, weight in weights.items():
        (tmp_path / name).mkdir()
        made = Graph((x,), (irkit.op.MatMul(x, irkit.const(weight, name="w")),))
        write_models({"m": (made, 20)}, tmp_path / name)
    data = {name: (tmp_path / name / "weights.data").read_bytes() for name in weights}
    assert data["first"] == data["again"] and data["first"] != data["other"]
    (tmp_path / "other" / "weights.data").write_bytes(data["first"])
    with pytest.raises(LoadError, match="of another model"):
        irkit.load(tmp_path / "other" / "m.onnx")


def test_what_another_program_wrote_of_a_model_is_read(tmp_path: Path) -> None:
    """onnx hands metadata on, and writes a file of weights of its own."""
    save(3, tmp_path, "beside")
    onnx.save(onnx.load(tmp_path / "m.onnx"), tmp_path / "n.onnx", save_as_external_data=True, location="n.data")
    graph = irkit.load(tmp_path / "n.onnx")
    assert graph == irkit.load(irkit.to_proto(graph_of(3))) and graph.signature.metadata == ()
    irkit.save(graph, tmp_path / "o.onnx", external=True)
    assert irkit.load(tmp_path / "o.onnx") == graph


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "m.onnx.data"
    mine.write_bytes(b"what a user keeps under such a name")
    for number in range(3):
        save(number, tmp_path, "beside")
        assert number_in(tmp_path, "beside") == number and mine.read_bytes().startswith(b"what")
    save(4, tmp_path, "inside")
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]
    (tmp_path / "other.onnx.data").write_bytes(MARK)
    save(5, tmp_path, "beside")
    assert (tmp_path / "other.onnx.data").exists()


def test_weights_that_another_tool_wrote_are_not_written_over(tmp_path: Path) -> None:
    model = irkit.to_proto(graph_of(1))
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.onnx.data")
    before = (tmp_path / "m.onnx.data").read_bytes()
    save(2, tmp_path, "beside")
    assert number_in(tmp_path, "beside") == 2
    assert not (tmp_path / "m.onnx.data").exists() or (tmp_path / "m.onnx.data").read_bytes() == before


def test_what_killed_saves_left_is_removed(tmp_path: Path) -> None:
    save(1, tmp_path, "beside")
    for left in (".m.onnx.part", ".m.onnx.1.part", "m.onnx.1.data", "m.onnx.7.data"):
        (tmp_path / left).write_bytes(MARK + b"half of it")
    (tmp_path / "m.onnx.3.data").write_bytes(b"")
    save(2, tmp_path, "beside")
    assert names(tmp_path) == ["m.onnx", "m.onnx.1.data"] and number_in(tmp_path, "beside") == 2


def test_what_another_save_is_writing_is_left_alone(tmp_path: Path) -> None:
    save(1, tmp_path, "beside")
    with (tmp_path / ".m.onnx.part").open("xb") as scratch, (tmp_path / "m.onnx.1.data").open("xb") as data:
        for file in (scratch, data):
            fcntl.flock(file, fcntl.LOCK_EX)
        save(2, tmp_path, "beside")
        assert names(tmp_path) == [".m.onnx.part", "m.onnx", "m.onnx.1.data", "m.onnx.2.data"]
    save(3, tmp_path, "beside")
    assert names(tmp_path) == ["m.onnx", "m.onnx.3.data"]


def test_saves_of_one_model_at_once_leave_one_of_them(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.fuzz.kills import save\n"
        "for i in range(12): save(int(sys.argv[2]) + i, Path(sys.argv[1]), 'beside')"
    )
    saves = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(start)], cwd=ROOT) for start in (100, 200)
    ]
    assert [each.wait(300) for each in saves] == [0, 0]
    assert number_in(tmp_path, "beside") in (111, 211)
    save(1, tmp_path, "beside")
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("form", ["beside", "inside", "text"])
def test_a_full_disk_leaves_the_old_pair(tmp_path: Path, form: str) -> None:
    import resource

    save(1, tmp_path, form)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (0, 20, 4096, 300_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(SerializeError, match="cannot be written: File too large"):
                save(2, tmp_path, form)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert number_in(tmp_path, form) == 1


def as_nobody(code: str, *given: Any) -> str:
    """What a script prints that runs without the rights of the administrator."""
    if os.geteuid():
        pytest.skip("the rights of another user can be taken only by the administrator")
    drop = "import irkit, sys, os; from pathlib import Path; from tests.fuzz.kills import save, number_in\n"
    drop += "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    run = [sys.executable, "-c", drop + code, *map(str, given)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


TRY = """
for folder in map(Path, sys.argv[1:]):
    for form in ('beside', 'inside', 'text'):
        try:
            save(2, folder, form)
        except irkit.SerializeError as error:
            print(error.what)
        print(number_in(folder, form))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


REACH = """
from functools import partial
graph = irkit.Graph((), (irkit.const(1.0),))
saves = [*(partial(irkit.save, graph, external=each) for each in (False, True)), partial(irkit.save_text, graph)]
for place in sys.argv[1:]:
    for save in saves:
        try:
            save(place)
        except irkit.SerializeError as error:
            print(error.what)
for read in (irkit.load, irkit.load_text):
    try:
        read(sys.argv[1])
    except (irkit.LoadError, irkit.ParseError) as error:
        print(error.what)
"""


def test_an_unprivileged_user_is_told_what_cannot_be_written(open_folder: Path) -> None:
    """In a folder that is not theirs, in one where they may add files and replace none, and in one of their own."""
    closed, sticky, own = (open_folder / name for name in ("closed", "sticky", "own"))
    for folder, mode in ((closed, 0o755), (sticky, 0o1777), (own, 0o777)):
        folder.mkdir()
        for form in ("inside", "text", "beside"):
            save(1, folder, form)
        folder.chmod(mode)
    before = {each: each.read_bytes() for each in (*closed.iterdir(), *sticky.iterdir())}
    lines = as_nobody(TRY, closed, sticky, own).splitlines()
    for some, why in ((lines[:6], "Permission denied"), (lines[6:12], "Operation not permitted")):
        assert some[1::2] == ["1", "1", "1"] and all(why in line for line in some[::2]), lines
    assert lines[12:] == ["2", "2", "2"]
    assert {each: each.read_bytes() for each in (*closed.iterdir(), *sticky.iterdir())} == before
    closed.chmod(0o700)
    (own / "link.onnx").symlink_to(closed / "m.onnx")
    lines = as_nobody(REACH, closed / "m.onnx", own / "link.onnx", closed / "inner" / "m.onnx").splitlines()
    for at in (0, 3, 6):
        assert any("cannot be written: Permission denied" in line for line in lines[at : at + 3]), lines
    assert any("cannot be read: Permission denied" in line for line in lines[9:]), lines


def test_a_file_that_is_replaced_hands_its_permissions_on(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save(1, tmp_path, "inside")
    path.chmod(0o600)
    save(2, tmp_path, "inside")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_interrupted_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_model_without_large_weights_has_no_file_beside_it(tmp_path: Path) -> None:
    graph = Graph((), (irkit.const(np.ones(3, np.float32)),))
    for _ in range(2):
        irkit.save(graph, tmp_path / "m.onnx", external=True)
        assert names(tmp_path) == ["m.onnx"]
    save(1, tmp_path, "beside")
    irkit.save(graph, tmp_path / "m.onnx", external=True)
    assert names(tmp_path) == ["m.onnx"]


def test_text_and_contents_of_killed_saves_are_told_apart(tmp_path: Path) -> None:
    """The old text with the contents of both, and the new text with the contents of both, are read right."""
    save(1, tmp_path, "text")
    old, side = (tmp_path / "m.irkit").read_bytes(), (tmp_path / "m.irkit.safetensors").read_bytes()
    save(2, tmp_path, "text")
    (tmp_path / "m.irkit.new.safetensors").write_bytes((tmp_path / "m.irkit.safetensors").read_bytes())
    (tmp_path / "m.irkit.safetensors").write_bytes(side)
    assert number_in(tmp_path, "text") == 2
    (tmp_path / "m.irkit").write_bytes(old)
    assert number_in(tmp_path, "text") == 1
    (tmp_path / "m.irkit.new.safetensors").rename(tmp_path / "kept")
    (tmp_path / "m.irkit.safetensors").rename(tmp_path / "m.irkit.new.safetensors")
    (tmp_path / "kept").rename(tmp_path / "m.irkit.safetensors")  # killed before the contents got their name
    data = np.ones(1 << 19, np.float32)
    stale = Graph((), (irkit.const(data, copy=False),))
    data[:] = 2
    with pytest.raises(StaleError):
        irkit.save_text(stale, tmp_path / "m.irkit")
    assert number_in(tmp_path, "text") == 1 and len(names(tmp_path)) == 2
    save(3, tmp_path, "text")
    assert number_in(tmp_path, "text") == 3 and names(tmp_path) == ["m.irkit", "m.irkit.safetensors"]
    (tmp_path / "m.irkit.safetensors").write_bytes(side)
    with pytest.raises((LoadError, irkit.ParseError), match="is not in the text"):
        number_in(tmp_path, "text")


def places(folder: Path) -> dict[str, Path]:
    """A path to each kind of thing that may stand where a model is written."""
    made = {name: folder / name for name in ("file", "folder", "pipe", "link", "broken", "round")}
    made["file"].write_bytes(b"old")
    made["folder"].mkdir()
    os.mkfifo(made["pipe"])
    for name, target in (("link", "file"), ("broken", "missing"), ("round", "round")):
        made[name].symlink_to(folder / target)
    odd = {"zero": Path(f"{folder}/zero\0byte"), "below a zero": Path(f"{folder}/zero\0byte/file")}
    return (
        made
        | odd
        | {"missing": folder / "missing", "below a file": made["file"] / "model", "no folder": folder / "a/b"}
    )


def said_step_by_step(path: Path) -> str:
    """What is wrong with a path to write to, by Python's own questions; "" where nothing is."""
    if path.is_file():
        return ""
    if not path.parent.is_dir():
        return "no folder"
    return "is a folder" if path.is_dir() else "not an ordinary file" if path.exists() else ""


@pytest.mark.parametrize("what", [
    "file", "folder", "pipe", "link", "broken", "round", "zero", "below a zero", "missing", "below a file", "no folder",
])  # fmt: skip
def test_what_stands_at_a_path_is_what_python_says_of_it(tmp_path: Path, what: str) -> None:
    path = places(tmp_path)[what]
    mode, said = mode_at(path), said_step_by_step(path)
    assert (mode is not None) == path.exists()
    assert (mode is not None and stat.S_ISDIR(mode)) == path.is_dir()
    if not said:
        require_replaceable(path)
        return
    with pytest.raises(SerializeError, match=said):
        require_replaceable(path)
