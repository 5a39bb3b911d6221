"""The rules of the house, read off the source: sizes, floors, no circles, and what package code never says.

Each rule is a function from sources to a list of offences, one line of text each. The first half of the tests shows, on
small sources, that the rule can fail; the second half applies it to the packages.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("irkit", "passes", "lowering")
FILE_LINES = 600
FUNCTION_LINES = 60
FOLDER_FILES = 21

# What no module of the package may import; `lowering`, the top floor, may import the other two and torch.
FORBIDDEN = {
    "irkit": ("torch", "torchvision", "transformers", "passes", "lowering", "tests", "benchmarks"),
    "passes": ("torch", "torchvision", "transformers", "lowering", "tests", "benchmarks"),
    "lowering": ("tests", "benchmarks"),
}
# The doors on the roof. In `irkit/__init__.py` only the lazy `__getattr__` is one.
DOORS = ("irkit/doors/cli.py", "irkit/__main__.py", "irkit/doors/to_onnx.py", "irkit/doors/above.py")
LAZY_DOOR = ("irkit/__init__.py", "__getattr__")


class Source(NamedTuple):
    """One file of Python: its path from the root, with `/`, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """The dotted name: `irkit/core/printer.py` -> `irkit.core.printer`, `irkit/__init__.py` -> `irkit`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.path.split("/", 1)[0]


class Import(NamedTuple):
    """One imported name, seen from where it stands."""

    line: int
    target: str  # `a.b` for `import a.b`
    name: str  # `c` for `from a.b import c`, else empty
    function: str  # the outermost function it stands in, else empty
    typing_only: bool  # under `if TYPE_CHECKING:`


def sources() -> list[Source]:
    """Every file of Python in the packages that exist."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return [Source(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files]


# ---- sizes ----------------------------------------------------------------------------------------------------------


def long_files(files: Iterable[Source], limit: int = FILE_LINES) -> list[str]:
    """Files with more lines than the limit."""
    counted = ((file.path, len(file.text.splitlines())) for file in files)
    return [f"{path}: {lines} lines, at most {limit}" for path, lines in counted if lines > limit]


def long_functions(files: Iterable[Source], limit: int = FUNCTION_LINES) -> list[str]:
    """Functions longer than the limit, from `def` to the last line; a nested one counts also as lines of its outer."""
    offences = []
    for file in files:
        for node in ast.walk(ast.parse(file.text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > limit:
                    offences.append(f"{file.path}:{node.lineno}: {node.name} has {lines} lines, at most {limit}")
    return offences


# ---- imports --------------------------------------------------------------------------------------------------------


def imports_of(file: Source) -> list[Import]:
    """Every import of the file, those inside functions and `importlib.import_module("name")` included."""
    return [
        Import(node.lineno, target, name, function, typing_only)
        for node, function, typing_only in _walk_scopes(ast.parse(file.text))
        if isinstance(node, ast.stmt | ast.expr)
        for target, name in _imported_names(node, file)
    ]


def _walk_scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, bool]]:
    """Each node with the outermost function around it and whether only type checkers read it."""
    pending: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while pending:
        node, function, typing_only = pending.pop()
        yield node, function, typing_only
        inside = function
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = function or node.name
        checked: list[ast.stmt] = node.body if isinstance(node, ast.If) and _is_type_checking(node.test) else []
        pending += [(child, inside, typing_only or child in checked) for child in ast.iter_child_nodes(node)]


def _is_type_checking(test: ast.expr) -> bool:
    """Whether the condition is `TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imported_names(node: ast.AST, file: Source) -> list[tuple[str, str]]:
    """The (module, name) pairs that one statement or call imports."""
    match node:
        case ast.Import(names=names):
            return [(alias.name, "") for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            base = _absolute(file, module, level)
            return [(base, alias.name) for alias in names]
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [(name, "")]
        case _:
            return []


def _absolute(file: Source, module: str | None, level: int) -> str:
    """The module that `from ..module import name` means in this file."""
    if level == 0:
        return module or ""
    parts = file.module.split(".")
    own_package = parts if file.path.endswith("/__init__.py") else parts[:-1]
    return ".".join([*own_package[: len(own_package) - level + 1], *([module] if module else [])])


def _is_door(file: Source, found: Import) -> bool:
    """Whether this import may reach up: the file is a door, or it is the lazy door of the package."""
    return file.path in DOORS or (file.path, found.function) == LAZY_DOOR


def upward_imports(files: Iterable[Source]) -> list[str]:
    """Imports of a higher floor, or of torch below `lowering`; not those of the doors."""
    return [
        f"{file.path}:{found.line}: {file.package} must not import {found.target}"
        for file in files
        for found in imports_of(file)
        if found.target.split(".")[0] in FORBIDDEN[file.package] and not _is_door(file, found)
    ]


def import_graph(files: Sequence[Source]) -> dict[str, dict[str, str]]:
    """module -> {module it imports: where}, for the modules given.

    Imports inside functions count: a circle that is broken by a late import is a circle. Imports for type checkers do
    not, nor does the lazy door, nor that `import a.b` runs `a/__init__.py`, which would make every package a circle.
    """
    modules = {file.module for file in files}
    edges: dict[str, dict[str, str]] = {file.module: {} for file in files}
    for file in files:
        for found in imports_of(file):
            if found.typing_only or (file.path, found.function) == LAZY_DOOR:
                continue
            full = f"{found.target}.{found.name}"
            target = full if found.name and full in modules else found.target
            if target in modules and target != file.module:
                edges[file.module].setdefault(target, f"{file.path}:{found.line}")
    return edges


def import_circles(files: Sequence[Source]) -> list[str]:
    """Circles among the modules, each with the lines that make it; enough of them that cutting each leaves none."""
    edges = import_graph(files)
    circles = []
    while circle := _a_circle(edges):
        steps = [(a, b, edges[a].pop(b)) for a, b in pairwise(circle)]
        circles.append("; ".join(f"{where}: {a} imports {b}" for a, b, where in steps))
    return circles


def folder_of(file: Source) -> str:
    """The folder that a file stands in; a face, `a/b/__init__.py`, stands in `a/b`."""
    return file.path.rpartition("/")[0]


def folder_circles(files: Sequence[Source]) -> list[str]:
    """Circles among folders, imports that only type checkers read counted too; each with an import for each step.

    The files of a package's root are no folder: errors are imported by all, and doors and faces import all.
    """
    folders = {file.module: folder_of(file) for file in files}
    edges: dict[str, dict[str, str]] = {folder: {} for folder in folders.values() if "/" in folder}
    for file in files:
        for found in imports_of(file):
            full = f"{found.target}.{found.name}"
            own, other = folder_of(file), folders.get(full, folders.get(found.target, ""))
            if file.path not in DOORS and own != other and {own, other} <= set(edges):
                edges[own].setdefault(other, f"{file.path}:{found.line}")
    circles = []
    while circle := _a_circle(edges):
        steps = [(a, b, edges[a].pop(b)) for a, b in pairwise(circle)]
        circles.append("; ".join(f"{where}: {a} imports {b}" for a, b, where in steps))
    return circles


def full_folders(files: Iterable[Source], limit: int = FOLDER_FILES) -> list[str]:
    """Folders with more modules than the limit, `__init__.py` not counted."""
    counted = Counter(folder_of(file) for file in files if not file.path.endswith("/__init__.py"))
    return [f"{folder}: {count} modules, at most {limit}" for folder, count in counted.items() if count > limit]


def _a_circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle as `[a, b, ..., a]`, each importing the next; empty where there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # graphlib lists what is imported before what imports it
    return []


# ---- what package code never says -----------------------------------------------------------------------------------


def banned_statements(files: Iterable[Source]) -> list[str]:
    """`assert` (stripped by -O, and it says nothing), `global`, and `NotImplementedError` (an unfinished promise)."""
    offences = []
    for file in files:
        for node in ast.walk(ast.parse(file.text)):
            match node:
                case ast.Assert():
                    offences.append(f"{file.path}:{node.lineno}: assert; raise an error that says what to try")
                case ast.Global(names=names):
                    offences.append(f"{file.path}:{node.lineno}: global {', '.join(names)}; pass it, or return it")
                case ast.Name(id="NotImplementedError") | ast.Attribute(attr="NotImplementedError"):
                    offences.append(f"{file.path}:{node.lineno}: NotImplementedError; raise an error of irkit.errors")
    return offences


# Where names of torch that it promises nothing of may stand: where they are imported, and where they are patched.
INTERNALS = ("lowering/records/torch_internals.py", "lowering/capture/patches/", "lowering/direct/")
PRIVATE = re.compile(r"torch(\.\w+)*\.(_(?!_)\w+|fx\.experimental\b)")
PUBLIC = ("torch._check", "torch.ops.")  # documented, or made of the operators that there are


def private_torch(files: Iterable[Source]) -> list[str]:
    """Names of torch that begin with an underscore, and its `fx.experimental`: imported, in a path, or as a text."""
    offences = []
    for file in files:
        if file.path.startswith(INTERNALS):
            continue
        for node in ast.walk(ast.parse(file.text)):
            match node:
                case ast.ImportFrom(module=str(module), names=names):
                    paths = [f"{module}.{alias.name}" for alias in names]
                case ast.Import(names=names):
                    paths = [alias.name for alias in names]
                case ast.Attribute():
                    paths = [ast.unparse(node)]
                case ast.Constant(value=str(text)) if " " not in text:
                    paths = [text]
                case _:
                    continue
            found = [path for path in paths if PRIVATE.match(path) and not path.startswith(PUBLIC)]
            offences += [f"{file.path}:{getattr(node, 'lineno', 0)}: {path}" for path in found]
    return list(dict.fromkeys(offences))


def reminders(files: Iterable[Source]) -> list[str]:
    """Lines that put work off."""
    pattern = re.compile(r"\b(TODO|FIXME)\b")
    return [
        f"{file.path}:{number}: {found[0]}; do it, or write it down as an issue"
        for file in files
        for number, line in enumerate(file.text.splitlines(), 1)
        if (found := pattern.search(line))
    ]


def machine_paths(path: str, text: str) -> list[str]:
    """Lines that name a folder of somebody's machine."""
    # Assembled, so that this file is not its own offence; a word or a dot before the slash makes it a relative path.
    pattern = re.compile(r"(?<![\w.])/(?:" + "|".join(("work", "root", "home")) + r")/\S*")
    return [
        f"{path}:{number}: {found[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        if (found := pattern.search(line))
    ]


def tracked_files() -> list[Path]:
    """What git tracks or would track; every file where this is no checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        return [file for package in (*PACKAGES, "tests", "docs") for file in (ROOT / package).rglob("*")]
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def text_of(file: Path) -> str | None:
    """The text of a file; None for a folder, a file that is gone, and one that is not text."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


# ---- the rules can fail ---------------------------------------------------------------------------------------------


def _function_of(lines: int, indent: str = "") -> str:
    """A function of so many lines."""
    return f"{indent}def f():\n" + f"{indent}    x = 1\n" * (lines - 1)


def _one(path: str, text: str) -> list[Source]:
    """One made-up file."""
    return [Source(path, text)]


def test_long_files_reports_601_lines_and_not_600() -> None:
    assert long_files(_one("irkit/a.py", "x = 1\n" * 600)) == []
    assert long_files(_one("irkit/a.py", "x = 1\n" * 601)) == ["irkit/a.py: 601 lines, at most 600"]


def test_long_functions_reports_61_lines_and_not_60() -> None:
    assert long_functions(_one("irkit/a.py", _function_of(60))) == []
    assert long_functions(_one("irkit/a.py", _function_of(61))) == ["irkit/a.py:1: f has 61 lines, at most 60"]


def test_long_functions_counts_methods_async_and_nested_and_not_decorators() -> None:
    method = "class C:\n" + _function_of(61, "    ")
    nested = "def outer():\n" + _function_of(60, "    ")
    decorated = "@a\n@b\n" + _function_of(60)
    assert long_functions(_one("irkit/a.py", method)) == ["irkit/a.py:2: f has 61 lines, at most 60"]
    assert long_functions(_one("irkit/a.py", nested)) == ["irkit/a.py:1: outer has 61 lines, at most 60"]
    assert len(long_functions(_one("irkit/a.py", "async " + _function_of(61)))) == 1
    assert long_functions(_one("irkit/a.py", decorated)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("irkit/a.py", "import torch"),
        ("irkit/a.py", "import torch.fx as fx"),
        ("irkit/a.py", "def f():\n    from torch.fx import Node"),
        ("irkit/a.py", "if TYPE_CHECKING:\n    from torch import Tensor"),
        ("irkit/a.py", "from passes import optimize"),
        ("irkit/a.py", "import lowering"),
        ("irkit/a.py", "import importlib\nimportlib.import_module('torch.fx')"),
        ("irkit/a.py", "__import__('torch')"),
        ("irkit/__init__.py", "from lowering import lower"),
        ("irkit/__init__.py", "def helper():\n    import lowering"),
        ("irkit/text/cli.py", "import lowering"),
        ("passes/a.py", "import lowering.fold.nodes"),
        ("passes/a.py", "import torch"),
        ("lowering/a.py", "from tests.strategies import typed_graphs"),
    ],
)
def test_upward_imports_reports(path: str, text: str) -> None:
    assert len(upward_imports(_one(path, text))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("irkit/a.py", "import numpy\nfrom irkit.core.ir import Value\nimport torchlike"),
        ("irkit/a.py", "'import torch'\n# import torch"),
        ("irkit/doors/cli.py", "def export():\n    from lowering import lower"),
        ("irkit/doors/to_onnx.py", "from lowering import export"),
        ("irkit/__init__.py", "def __getattr__(name):\n    from lowering import lower"),
        ("passes/a.py", "from irkit import op"),
        ("lowering/a.py", "import torch\nfrom passes import optimize\nimport irkit"),
    ],
)
def test_upward_imports_allows(path: str, text: str) -> None:
    assert upward_imports(_one(path, text)) == []


def test_imports_of_resolves_relative_imports() -> None:
    found = imports_of(Source("irkit/text/printer.py", "from . import a\nfrom ..ir import Value\nfrom .b import c"))
    assert {(each.target, each.name) for each in found} == {
        ("irkit.text", "a"),
        ("irkit.ir", "Value"),
        ("irkit.text.b", "c"),
    }
    (package,) = imports_of(Source("irkit/text/__init__.py", "from .parser import parse"))
    assert package.target == "irkit.text.parser"


def test_import_circles_counts_imports_inside_functions() -> None:
    a = Source("irkit/a.py", "from irkit import b")
    b = Source("irkit/b.py", "def f():\n    import irkit.a")
    assert import_circles([a]) == []
    (circle,) = import_circles([a, b])
    assert "irkit/a.py:1: irkit.a imports irkit.b" in circle
    assert "irkit/b.py:2: irkit.b imports irkit.a" in circle


def test_import_circles_reports_each_and_a_name_taken_from_the_package() -> None:
    files = [
        Source("irkit/__init__.py", "from irkit.a import Value"),
        Source("irkit/a.py", "from irkit import Value"),
        Source("passes/a.py", "import passes.b\nimport irkit.a"),
        Source("passes/b.py", "import passes.c"),
        Source("passes/c.py", "from passes.a import x"),
    ]
    assert len(import_circles(files)) == 2


def test_import_circles_leaves_out_type_checking_and_the_lazy_door() -> None:
    a = Source("irkit/a.py", "import irkit.b")
    b = Source("irkit/b.py", "if TYPE_CHECKING:\n    from irkit.a import A\nelse:\n    A = None")
    door = Source("irkit/__init__.py", "def __getattr__(name):\n    from lowering import lower")
    lowering = Source("lowering/__init__.py", "import irkit")
    assert import_circles([a, b, door, lowering]) == []


def test_import_circles_counts_what_stands_in_the_else_of_type_checking() -> None:
    a = Source("irkit/a.py", "import irkit.b")
    b = Source("irkit/b.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import irkit.a")
    assert len(import_circles([a, b])) == 1


def test_folder_circles_counts_typing_and_not_doors_or_the_root() -> None:
    a = Source("irkit/core/a.py", "from irkit.text.b import B\nfrom irkit.errors import E")
    b = Source("irkit/text/b.py", "if TYPE_CHECKING:\n    from irkit.core import a")
    door = Source("irkit/doors/cli.py", "import passes.rules.c")
    c = Source("passes/rules/c.py", "import irkit.doors.cli\nimport irkit.core.a")
    errors = Source("irkit/errors.py", "import irkit.core.a")
    assert folder_circles([a, door, c, errors]) == []
    (circle,) = folder_circles([a, b, door, c, errors])
    assert "irkit/core/a.py:1: irkit/core imports irkit/text" in circle
    assert "irkit/text/b.py:2: irkit/text imports irkit/core" in circle


def test_full_folders_counts_modules_and_not_faces() -> None:
    files = [Source(f"irkit/a/{name}.py", "") for name in ("__init__", "b", "c", "d")]
    assert full_folders(files, 3) == []
    assert full_folders(files, 2) == ["irkit/a: 3 modules, at most 2"]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    assert x",
        "def f():\n    global state",
        "def f():\n    raise NotImplementedError",
        "def f():\n    raise NotImplementedError('later')",
        "import builtins\nraise builtins.NotImplementedError()",
    ],
)
def test_banned_statements_reports(text: str) -> None:
    assert len(banned_statements(_one("irkit/a.py", text))) == 1


def test_banned_statements_allows_not_implemented_and_words_in_prose() -> None:
    text = '"""We assert nothing, and no global."""\ndef __eq__(a, b):\n    return NotImplemented\n'
    assert banned_statements(_one("irkit/a.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from torch._ops import OpOverload",
        "from torch.utils import _pytree as pytree",
        "from torch import _VF",
        "import torch.fx.experimental.symbolic_shapes",
        "from torch.fx.experimental.proxy_tensor import make_fx",
        "def f():\n    return torch._C.DispatchKey",
        "name = 'torch._dynamo.convert_frame'",
    ],
)
def test_private_torch_reports_imports_paths_and_texts(text: str) -> None:
    assert len(private_torch(_one("lowering/fold/a.py", text))) >= 1
    assert private_torch(_one("lowering/records/torch_internals.py", text)) == []


def test_private_torch_allows_what_torch_documents_and_its_operators() -> None:
    text = "import torch.utils\ntorch._check(x)\ntorch.ops.aten._softmax.default\n'see torch._C for it'\nx._node\n"
    assert private_torch(_one("lowering/fold/a.py", text)) == []


def test_reminders_reports_comments_and_docstrings() -> None:
    later, broken = "TO" + "DO", "FIX" + "ME"
    assert len(reminders(_one("irkit/a.py", f"x = 1  # {later}: more\n"))) == 1
    assert len(reminders(_one("irkit/a.py", f'"""{broken} later."""\n'))) == 1
    assert reminders(_one("irkit/a.py", "mastodon = 1  # a todo list is a fine example\n")) == []


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_machine_paths_reports_absolute_and_not_relative_paths(folder: str) -> None:
    assert machine_paths("a.md", f"see\n`/{folder}/me/x.py`") == [f"a.md:2: /{folder}/me/x.py`"]
    assert len(machine_paths("a.py", f'open("/{folder}/me")')) == 1
    assert machine_paths("a.md", f"see ../{folder}/me, at{folder}/x, and a/{folder}/b") == []


# ---- the house keeps them -------------------------------------------------------------------------------------------


def offences_in(rule: Callable[[list[Source]], list[str]]) -> list[str]:
    """What the rule finds in the packages."""
    return rule(sources())


def check(offences: list[str], rule: str) -> None:
    """Fails with the rule and the list of offenders."""
    if offences:
        pytest.fail(f"{rule}\n  " + "\n  ".join(offences), pytrace=False)


def test_no_file_is_over_600_lines() -> None:
    check(offences_in(long_files), "A file is one subject, of at most 600 lines. Split by subject:")


def test_no_function_is_over_60_lines() -> None:
    check(offences_in(long_functions), "A function has at most 60 lines. Name its parts:")


def test_no_import_goes_up() -> None:
    check(offences_in(upward_imports), "irkit <- passes <- lowering, and torch only in lowering (the doors excepted):")


def test_no_imports_form_a_circle() -> None:
    check(
        offences_in(import_circles), "Imports form a circle (one inside a function counts). Move what both need down:"
    )


def test_no_folders_form_a_circle() -> None:
    check(offences_in(folder_circles), "Folders form a circle. Move what both need to a folder below:")


def test_no_folder_is_too_full() -> None:
    check(offences_in(full_folders), "A folder holds some 20 modules that belong together. Split by subject:")


def test_no_banned_statement_stands_in_package_code() -> None:
    check(offences_in(banned_statements), "Package code has no assert, no global, no NotImplementedError:")


def test_no_reminder_stands_in_package_code() -> None:
    check(offences_in(reminders), "Package code puts nothing off:")


def test_private_names_of_torch_stand_in_one_module() -> None:
    check(
        offences_in(private_torch), "torch promises nothing of these. Import them in lowering.records.torch_internals:"
    )


def test_no_file_names_a_path_of_a_machine() -> None:
    offences = [
        offence
        for file in tracked_files()
        if (text := text_of(file)) is not None
        for offence in machine_paths(file.relative_to(ROOT).as_posix(), text)
    ]
    check(offences, "A path that exists on one machine only:")


@pytest.mark.parametrize("package", ["irkit", "passes"])
def test_import_never_imports_torch(package: str) -> None:
    script = f"import {package}, sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split()) & {"torch", "transformers", "lowering"}
    assert not loaded, f"`import {package}` brought in {', '.join(sorted(loaded))}"
