"""Texts of sizes and tensors by which a model decides, in code without source, and in what only seems a message."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from tests.support.right_or_refused import first_wrong

WAYS = ("direct", "torch.export")
ROWS = ({0: "n"},)

SIZES = (
    "str(x.shape[0]) == '12'", "f'{x.shape[0]}' == '12'", "'%s' % x.shape[0] == '12'", "'%d' % x.shape[0] == '12'",
    "'%d,%d' % (x.shape[0], 1) == '12,1'", "'%(n)s' % {'n': x.shape[0]} == '12'", "format(x.shape[0]) == '12'",
    "'{:>3}'.format(x.shape[0]) == ' 12'", "'12' in str(x.shape)", "'12' in str(tuple(x.shape))",
    "ascii(x.shape[0]) == '12'",
    "','.join(map(str, x.shape)) == '12,3'", "{'12': True}.get(str(x.shape[0]), False)", "texts(x.shape[0]) == '12'",
    "'12' in repr(Pair(x.shape[0], 1))", "'12' in repr(Row(x.shape[0]))", "'12' in repr(Plain(n=x.shape[0]))",
    "'12' in pprint.pformat([x.shape[0]])", "'12' in reprlib.repr([x.shape[0]])",
    "string.Template('$n').substitute(n=x.shape[0]) == '12'", "string.Formatter().format('{}', x.shape[0]) == '12'",
)  # fmt: skip
TENSORS = (
    "'-' in repr(x.sum())",
    "'-' in f'{x.sum()}'",
    "'-' in '%s' % x.sum()",
    "'-' in format(x.sum())",
    "'-' in str([x])",
)

HEAD = """
import collections, contextlib, dataclasses, io, pprint, reprlib, string, types, warnings
import torch
Pair = collections.namedtuple("Pair", "n m")
Plain = types.SimpleNamespace
texts = lambda n: f"{n}"
@dataclasses.dataclass
class Row:
    n: int
def refuse(x):
    if x.shape[1] == 3:
        raise ValueError(f"{x.shape[0]}")
"""

CAUGHT = {
    "its own error": """
    try:
        raise ValueError(f'{x.shape[0]}')
    except ValueError as e:
        found = str(e)
""",
    "of a function": """
    try:
        refuse(x)
    except ValueError as e:
        found = e.args[0]
""",
    "an assertion": """
    try:
        assert x.shape[1] != 3, f'{x.shape[0]}'
    except AssertionError as e:
        found = str(e)
""",
    "no name": """
    import sys
    try:
        refuse(x)
    except ValueError:
        found = str(sys.exc_info()[1])
""",
    "a file": """
    file = io.StringIO()
    print(x.shape[0], file=file)
    found = file.getvalue().strip()
""",
    "a stream": """
    with contextlib.redirect_stdout(io.StringIO()) as file:
        print(x.shape[0])
    found = file.getvalue().strip()
""",
}
"""What becomes of a text that is raised or printed, by name."""

MESSAGES = {
    "raised": """
    if x.shape[1] != 3:
        raise ValueError(f'{x.shape[0]}')
""",
    "by an assertion": """
    assert x.shape[1] == 3, f'{x.shape[0]} of {x}'
""",
    "printed": """
    print(f'{x.shape[0]}', 'of', '%d' % x.shape[0])
""",
    "warned of": """
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        warnings.warn(f'{x.shape[0]}')
""",
    "checked": """
    torch._check(x.shape[1] == 3, lambda: f'{x.shape[0]}')
""",
    "the name of a stretch": """
    with torch.autograd.profiler.record_function(f'{x.shape[0]}'):
        x = x * 1
""",
}
"""What only tells a text people, by name."""


def made(body: str, where: Path | None) -> Any:
    """The function f(x) of a body: executed as a text, or imported from a file."""
    names: dict[str, Any] = {"__name__": "texts_of_models"}
    source = f"{HEAD}\ndef f(x):\n{body}\n"
    if where is not None:
        where.write_text(source)
    sys.modules["texts_of_models"] = sys  # where dataclasses look for names of types
    try:
        exec(compile(source, "<string>" if where is None else str(where), "exec"), names)
    finally:
        del sys.modules["texts_of_models"]
    return names["f"]


def refused_or_right(function: Any, way: str) -> bool:
    """Whether an export of f(x) refuses what it would answer wrongly."""
    inputs = torch.rand(12, 3) + 1, torch.rand(5, 3) + 1, -1 - torch.rand(12, 3)
    return first_wrong(function, torch.rand(12, 3) + 1, way, inputs) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asked", [*SIZES, *TENSORS])
def test_a_text_that_decides_in_code_without_source_is_noticed(asked: str, way: str) -> None:
    assert refused_or_right(made(f"    return x * 2 if {asked} else x", None), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asked", TENSORS)
def test_the_text_of_a_tensor_is_noticed_by_both_ways(asked: str, way: str, tmp_path: Path) -> None:
    assert refused_or_right(made(f"    return x * 2 if {asked} else x", tmp_path / "texts.py"), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("body", CAUGHT.values(), ids=CAUGHT)
def test_the_text_of_a_message_that_the_model_reads_is_noticed(body: str, kept: bool, way: str, tmp_path: Path) -> None:
    function = made(f"{body}\n    return x * 2 if found == '12' else x", tmp_path / "texts.py" if kept else None)
    assert refused_or_right(function, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("body", MESSAGES.values(), ids=MESSAGES)
def test_a_message_fixes_nothing(body: str, kept: bool, way: str, tmp_path: Path) -> None:
    function = made(f"{body}\n    return x * 2", tmp_path / "texts.py" if kept else None)
    program = irkit.to_onnx(function, (torch.rand(12, 3),), dynamic_shapes=ROWS, capture=way)
    assert program.check(5)


ZIPPED = """
def said(x):
    told = f'{x.shape[0]}'
    warnings.warn(told)
    return x * 2


def asked(x):
    return x * 2 if len(f'{x.shape[0]}') > 1 else x
"""


def test_a_message_in_an_archive_fixes_nothing_and_a_text_that_decides_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        archive.writestr("zipped_texts.py", HEAD + ZIPPED)
    monkeypatch.syspath_prepend(str(tmp_path / "models.zip"))
    zipped: Any = __import__("zipped_texts")
    with pytest.warns(UserWarning):
        assert irkit.to_onnx(zipped.said, (torch.rand(12, 3),), dynamic_shapes=ROWS, capture="direct").check(5)
    with pytest.raises(IrkitError, match="works for 12 only"):
        irkit.to_onnx(zipped.asked, (torch.rand(12, 3),), dynamic_shapes=ROWS, capture="direct")
