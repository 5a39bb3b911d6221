"""The rules of the house that no linter says; `make lint` says the others.

import-linter keeps the floors, the circles and torch in `lowering` (pyproject.toml, `tool.importlinter`), ruff the
complexity, `assert`, `global` and reminders. Here: sizes of files, functions and folders, what is imported by a string,
what an import brings in, and the pages that speak of the sources.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from irkit import errors
from lowering import errors as lowering_errors
from tests.tables import house

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("irkit", "passes", "lowering")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
FILE_LINES = 600
FUNCTION_LINES = 60
FOLDER_FILES = 21


@lru_cache(maxsize=2000)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file, which several rules look at."""
    return ast.parse(text)


@pytest.fixture(autouse=True, scope="module")
def uncollected() -> Iterator[None]:
    """Trees of all files are millions of objects, which Python's collector would look at again and again."""
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()


def name_of(path: Path) -> str:
    """The path from the root, with `/`."""
    return path.relative_to(ROOT).as_posix()


def require_none(offences: list[str], rule: str) -> None:
    """Fails with the rule and the list of offenders."""
    if offences:
        pytest.fail(f"{rule}\n  " + "\n  ".join(offences), pytrace=False)


def long_functions(text: str, limit: int = FUNCTION_LINES) -> Iterator[str]:
    """Functions longer than the limit, from `def` to the last line; a nested one counts also as lines of its outer."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > limit:
                yield f"{node.lineno}: {node.name} has {lines} lines, at most {limit}"


def modules_by_string(text: str) -> Iterator[str]:
    """The modules that a file imports by their names in strings, which no linter of imports sees."""
    for node in ast.walk(parsed(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
            case ast.Name(id="NotImplementedError"):
                yield "NotImplementedError"


# Where names of torch that it promises nothing of may stand: where they are imported, and where they are patched.
INTERNALS = ("lowering/records/torch_internals.py", "lowering/capture/patches/", "lowering/direct/")
PRIVATE = re.compile(r"torch(\.\w+)*\.(_(?!_)\w+|fx\.experimental\b)")
PUBLIC = ("torch._check", "torch.ops.")  # documented, or made of the operators that there are


def private_torch(path: str, text: str) -> list[str]:
    """Names of torch that begin with an underscore, and its `fx.experimental`: imported, in a path, or as a text."""
    if path.startswith(INTERNALS):
        return []
    offences = []
    for node in ast.walk(parsed(text)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                named = [f"{module}.{alias.name}" for alias in names]
            case ast.Import(names=names):
                named = [alias.name for alias in names]
            case ast.Attribute():
                named = [ast.unparse(node)]
            case ast.Constant(value=str(word)) if " " not in word:
                named = [word]
            case _:
                continue
        found = [name for name in named if PRIVATE.match(name) and not name.startswith(PUBLIC)]
        offences += [f"{path}:{getattr(node, 'lineno', 0)}: {name}" for name in found]
    return list(dict.fromkeys(offences))


def display_of(value: ast.expr, at_top: bool) -> ast.expr | None:
    """The entries written out that a value is, or that a call gets as its only argument, at the top as its last too."""
    match value:
        case ast.Dict(keys=entries) | ast.List(elts=entries) | ast.Tuple(elts=entries) | ast.Set(elts=entries):
            return value if len(entries) >= 3 else None
        case ast.BinOp(left=left, right=right):
            return display_of(left, at_top) or display_of(right, at_top)
        case ast.Call(func=ast.Attribute(value=ast.Dict() as inner, attr="get")) | ast.Subscript(value=inner):
            return display_of(inner, at_top)
        case ast.Call(args=[*others, last], keywords=[]) if at_top or not others:
            return display_of(last, at_top)
        case _:
            return None


def is_table(node: ast.AST) -> bool:
    """Whether a statement assigns or returns entries written out, or a decorator gets a list of them."""
    match node:
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.Return(value=ast.expr() as value):
            return display_of(value, node.col_offset == 0) is not None
        case ast.Call(args=arguments):
            return any(isinstance(each, ast.List | ast.Tuple) and len(each.elts) >= 3 for each in arguments)
        case _:
            return False


def laid_out_by_hand(text: str) -> Iterator[str]:
    """Lines with `# fmt: skip` that end no table."""
    ends: dict[int, ast.AST] = {}
    for node in ast.walk(parsed(text if "# fmt: skip" in text else "")):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            ends |= {each.end_lineno or 0: each for each in node.decorator_list}
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            ends[node.end_lineno or 0] = node
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith("# fmt: skip") and not (number in ends and is_table(ends[number])):
            yield f"{number}: {line.strip()}"


PARTICIPLE = re.compile(
    r"[a-z]{2,}(?<!e)ed|(?!string)[a-z]{2,}ing|bound|built|caught|chosen|drawn|done|found|frozen|given|held|hidden|kept|known|laid|left"
    r"|lost|made|met|read|said|seen|shown|slid|split|spread|taken|told|torn|worn|written"
)
OFFERED = {"closed", "verified", "guarded", "overflowing", "patched", "seeded"}
"""Names that users know, of `irkit`, `irkit.testing` and `passes`."""


def silent_raises(text: str, advised: frozenset[str]) -> Iterator[str]:
    """Errors of irkit that are raised without a hint, whose class gives no advice either; one that passes on what
    another error said is not looked at."""
    for node in ast.walk(parsed(text)):
        call = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ERRORS - advised:
            passed_on = any(isinstance(each, ast.Attribute) and each.attr == "what" for each in call.args)
            if not passed_on and not any(k.arg in ("hint", None) for k in call.keywords):
                yield f"{call.lineno}: {ast.unparse(call)[:80]}"


KINDS = {name: kind for module in (errors, lowering_errors) for name, kind in vars(module).items()}
ERRORS = frozenset(
    name for name, kind in KINDS.items() if isinstance(kind, type) and issubclass(kind, errors.IrkitError)
)
ADVISED = frozenset(name for name in ERRORS if KINDS[name].advice)


def participles(texts: Mapping[str, str]) -> Iterator[str]:
    """Functions whose name is one participle, and which other modules import; texts: by path."""
    named = {
        (path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), node.name): f"{path}:{node.lineno}"
        for path, text in texts.items()
        for node in parsed(text).body
        if isinstance(node, ast.FunctionDef) and PARTICIPLE.fullmatch(node.name) and node.name not in OFFERED
    }
    imported: set[tuple[str, str]] = set()
    reached: set[tuple[str, str]] = set()
    for text in texts.values():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ImportFrom):
                imported |= {(node.module or "", each.name) for each in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                reached.add((node.value.id, node.attr))
    modules = {f"{module}.{name}" for module, name in imported}
    for (module, name), place in named.items():
        last = module.rpartition(".")[2]
        if (module, name) in imported or (module in modules and (last, name) in reached):
            yield f"{place}: {name}"


ANY = 10
"""So many `Any` in a thousand lines of irkit and passes at most, imports of it not counted."""


def uses_of_any(text: str) -> int:
    """How often the code of a file speaks of `Any`."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(parsed(text)))


def odd_banners(text: str) -> Iterator[str]:
    """Lines that head a section in another form than a row of dashes and its name, which starts at the same column."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"#\s*[-=#*~]{3,}", line):
            name = line.lstrip("# -=*~").rstrip("-=*#~ ")
            if line != f"# {'-' * min(94, 117 - len(name))} {name}" or not name:
                yield f"{number}: {line[:60]}"


def foreign_underscores(text: str) -> Iterator[str]:
    """Names of our own with a leading underscore that a file takes from another module."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from (f"{node.lineno}: {each.name}" for each in node.names if re.match(r"_[a-z]", each.name))


FEW = {"DType", "np.dtype", "bool"}
"""Types of which there are few values."""


def unbounded_caches(text: str) -> Iterator[str]:
    """Functions that remember an answer for ever for each argument that files or users bring."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef):
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            keys = [ast.unparse(each.annotation) if each.annotation else each.arg for each in taken]
            made = {ast.unparse(each).replace("functools.", "") for each in node.decorator_list}
            if made & {"cache", "lru_cache(maxsize=None)", "lru_cache(None)"} and not set(keys) <= FEW:
                yield f"{node.lineno}: {node.name} remembers every {', '.join(keys)}"


def machine_paths(text: str) -> Iterator[str]:
    """Lines that name a folder of somebody's machine."""
    # Assembled, so that this file is not its own offence; a word or a dot before the slash makes it a relative path.
    pattern = re.compile(r"(?<![\w.])/(?:" + "|".join(("work", "root", "home")) + r")/\S*")
    for number, line in enumerate(text.splitlines(), 1):
        if found := pattern.search(line):
            yield f"{number}: {found[0]}"


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


def text_of(file: Path) -> str:
    """The text of a file; empty for a folder, a file that is gone, and one that is not text."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


# ---------------------------------------------------------------------------------------------- the rules can fail


def test_long_functions_counts_methods_async_and_nested_and_not_decorators() -> None:
    body = "    x = 1\n"
    assert list(long_functions("@a\n@b\ndef f():\n" + body * 59)) == []
    assert list(long_functions("def f():\n" + body * 60)) == ["1: f has 61 lines, at most 60"]
    assert len(list(long_functions("class C:\n    async def f():\n" + f"    {body}" * 60))) == 1
    assert len(list(long_functions("def g():\n    def f():\n" + f"    {body}" * 59))) == 1


def test_modules_by_string_sees_calls_and_no_prose() -> None:
    text = "import importlib\nimportlib.import_module('torch.fx')\n__import__('lowering')\n'''import_module('torch')'''"
    assert list(modules_by_string(text)) == ["torch.fx", "lowering"]
    assert list(modules_by_string("def f():\n    raise NotImplementedError('later')")) == ["NotImplementedError"]
    assert list(modules_by_string("def __eq__(a, b):\n    return NotImplemented")) == []


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
    assert len(private_torch("lowering/fold/a.py", text)) >= 1
    assert private_torch("lowering/records/torch_internals.py", text) == []


def test_private_torch_allows_what_torch_documents_and_its_operators() -> None:
    text = "import torch.utils\ntorch._check(x)\ntorch.ops.aten._softmax.default\n'see torch._C for it'\nx._node\n"
    assert private_torch("lowering/fold/a.py", text) == []


@pytest.mark.parametrize("decorator", ["cache", "functools.cache", "lru_cache(maxsize=None)", "lru_cache(None)"])
def test_unbounded_caches_reports_keys_of_which_there_are_many(decorator: str) -> None:
    text = f"@{decorator}\ndef f(op: str, dtype: DType) -> int:\n    return 1\n"
    assert list(unbounded_caches(text)) == ["2: f remembers every str, DType"]


def test_unbounded_caches_allows_few_keys_none_and_an_end() -> None:
    text = "@cache\ndef f(): ...\n@cache\ndef g(dtype: DType): ...\n@lru_cache(maxsize=64)\ndef h(op: str): ...\n"
    assert list(unbounded_caches(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(\n    a, b,\n) -> None:  # fmt: skip\n    pass",
        "x = f(a,\n      b)  # fmt: skip",
        "x = (a,\n     b)  # fmt: skip",
        "def f():\n    return g(a, (1, 2, 3,\n        4))  # fmt: skip",
        "@rule(p.Add(x,\n            y))  # fmt: skip\ndef f(): ...",
        "x = [a for a in b\n     if c]  # fmt: skip",
    ],
)
def test_laid_out_by_hand_reports_what_is_no_table(text: str) -> None:
    assert len(list(laid_out_by_hand(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "X = {1: 2, 3: 4,\n     5: 6}  # fmt: skip",
        "X: frozenset[int] = Y | frozenset((1, 2,\n    3))  # fmt: skip",
        "X = functions_of('a', (1, 2,\n     3))  # fmt: skip",
        "def f():\n    return (1, 2,\n    3)  # fmt: skip",
        "@pytest.mark.parametrize('a', [1, 2,\n    3])  # fmt: skip\ndef f(): ...",
    ],
)
def test_laid_out_by_hand_allows_tables(text: str) -> None:
    assert list(laid_out_by_hand(text)) == []


def test_participles_reports_what_other_modules_import_and_no_more() -> None:
    mine = (
        "def merged(): ...\ndef kept(): ...\ndef _seen(): ...\ndef merge_rows(): ...\ndef feed(): ...\ndef told(): ..."
    )
    texts = {"a/b.py": mine, "a/c.py": "from a.b import merged, merge_rows, feed", "d.py": "from a import b\nb.kept()"}
    assert list(participles(texts)) == ["a/b.py:1: merged", "a/b.py:2: kept"]


def test_uses_of_any_counts_annotations_and_no_import() -> None:
    assert uses_of_any("from typing import Any\ndef f(a: Any, b: dict[str, Any]) -> None: ...\n# Any\n'Any'") == 2


@pytest.mark.parametrize("line", ["# ---- a", "# " + "-" * 94, "#" * 20, "# " + "-" * 94 + " a ---", "# === a"])
def test_odd_banners_reports_other_forms(line: str) -> None:
    assert len(list(odd_banners(f"x = 1\n{line}\n"))) == 1


def test_odd_banners_allows_the_form_and_long_names() -> None:
    assert list(odd_banners(f"# {'-' * 94} sizes\n# {'-' * 77} {'n' * 40}\n# - a\n    # ---- in a table\n")) == []


def test_foreign_underscores_reports_ours_and_not_capitals() -> None:
    text = (
        "from irkit.core import _hidden, shown\nfrom torch import _C\nfrom lowering.records.torch_internals import _VF"
    )
    assert list(foreign_underscores(text)) == ["1: _hidden"]


@pytest.mark.parametrize("folder", ["work", "root", "home"])
def test_machine_paths_reports_absolute_and_not_relative_paths(folder: str) -> None:
    assert list(machine_paths(f"see\n`/{folder}/me/x.py`")) == [f"2: /{folder}/me/x.py`"]
    assert len(list(machine_paths(f'open("/{folder}/me")'))) == 1
    assert list(machine_paths(f"see ../{folder}/me, at{folder}/x, and a/{folder}/b")) == []


# ---------------------------------------------------------------------------------------------- the house keeps them


def test_imports_keep_to_the_contracts_of_pyproject() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    result = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[result.stdout.find("Contracts") :] + result.stderr


def test_files_functions_and_folders_are_of_moderate_size() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    held = Counter(path.parent for path in FILES if path.name != "__init__.py")
    require_none(
        [f"{name_of(path)}: {count} lines, at most {FILE_LINES}" for path, count in lines.items() if count > FILE_LINES]
        + [f"{name_of(path)}:{offence}" for path, text in texts.items() for offence in long_functions(text)]
        + [f"{name_of(path)}: {count} modules, at most {FOLDER_FILES}" for path, count in held.items() if count > 21],
        "Split by subject, not by length:",
    )


def test_functions_that_others_use_say_what_they_return_or_do() -> None:
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in FILES}
    require_none(
        list(participles(texts)),
        "One participle says too little where it is imported; a noun, or a verb with its object:",
    )


def test_silent_raises_reports_errors_that_say_nothing_of_what_to_try() -> None:
    text = "raise GraphError('a')\nraise GraphError('a', hint='b')\nraise LoadError('a')\nraise GraphError(error.what)"
    assert list(silent_raises(text, frozenset({"LoadError"}))) == ["1: GraphError('a')"]


def test_errors_say_what_to_try() -> None:
    require_none(
        [
            f"{name_of(path)}:{each}"
            for path in FILES
            for each in silent_raises(path.read_text(encoding="utf-8"), ADVISED)
        ],
        "An error says what is wrong, then what to try (`hint`):",
    )


def test_irkit_and_passes_say_types() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FILES if not name_of(path).startswith("lowering/")]
    found, lines = sum(map(uses_of_any, texts)), sum(text.count("\n") for text in texts)
    assert 1000 * found <= ANY * lines, f"{found} uses of Any in {lines} lines, at most {ANY} in a thousand"


def test_sections_have_one_form_and_underscores_stay_at_home() -> None:
    sources = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in sources}
    require_none(
        [
            f"{path}:{each}"
            for path, text in texts.items()
            if not path.removeprefix("tests/").startswith(ELSEWHERE)
            for each in odd_banners(text)
        ]
        + [f"{path}:{each}" for path, text in texts.items() if path in HERE for each in foreign_underscores(text)],
        "A section begins with one row of dashes and its name; `_name` is for its own module:",
    )


HERE = {name_of(path) for path in FILES}

ELSEWHERE = ("lowering/direct/", "lowering/capture/", "lowering/program/", "passes/legal/runtime/")


def test_only_tables_are_laid_out_by_hand() -> None:
    sources = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    require_none(
        [
            f"{name_of(path)}:{each}"
            for path in sources
            if not name_of(path).removeprefix("tests/").startswith(ELSEWHERE)
            for each in laid_out_by_hand(path.read_text(encoding="utf-8"))
        ],
        "`# fmt: skip` stands on tables only, three entries or more written out; ruff lays out the rest:",
    )


def test_nothing_is_imported_by_a_string_that_may_not_be_imported_by_name() -> None:
    allowed = {"irkit": ("irkit",), "passes": ("irkit", "passes"), "lowering": (*PACKAGES, "torch", "transformers")}
    foreign = {*PACKAGES, "torch", "transformers", "torchvision", "tests", "benchmarks", "NotImplementedError"}
    offences = [
        f"{name_of(path)}: {module}"
        for path in FILES
        if path.parent.name != "doors"
        for module in modules_by_string(path.read_text(encoding="utf-8"))
        if (top := module.partition(".")[0]) in foreign and top not in allowed[name_of(path).partition("/")[0]]
    ]
    require_none(offences, "Only the doors reach up, and no promise is left unfinished:")


def test_private_names_of_torch_stand_in_one_module() -> None:
    require_none(
        [each for path in FILES for each in private_torch(name_of(path), path.read_text(encoding="utf-8"))],
        "torch promises nothing of these. Import them in lowering.records.torch_internals:",
    )


def test_no_cache_grows_with_what_files_and_users_bring() -> None:
    require_none(
        [f"{name_of(path)}:{each}" for path in FILES for each in unbounded_caches(path.read_text(encoding="utf-8"))],
        "A cache keyed by what files or users bring has an end, lru_cache(maxsize=...):",
    )


def test_no_file_names_a_path_of_a_machine() -> None:
    offences = [f"{name_of(file)}:{offence}" for file in tracked_files() for offence in machine_paths(text_of(file))]
    require_none(offences, "A path that exists on one machine only:")


@pytest.mark.parametrize("package", ["irkit", "passes"])
def test_import_never_imports_torch(package: str) -> None:
    script = f"import {package}, sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split()) & {"torch", "transformers", "lowering"}
    assert not loaded, f"`import {package}` brought in {', '.join(sorted(loaded))}"


# -------------------------------------------------------------------------------------- pages that speak of the sources


def test_the_drawings_of_the_house_are_those_of_the_imports() -> None:
    page = house.PAGE.read_text(encoding="utf-8")
    assert page == house.with_drawings(page, house.drawings()), "python -m tests.tables.house draws them anew"


def test_the_walk_of_a_model_names_what_is_there() -> None:
    places = house.places_of(house.PAGE.read_text(encoding="utf-8"))
    assert len(places) > 12
    for file, name in places:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", "") for node in tree.body}, f"{file} has no {name}: see {house.PAGE.name}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/understand/house.md", "docs/understand/glossary.md"])
def test_the_paths_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`((?:irkit|passes|lowering|tests|docs|benchmarks)/[\w/.]*)`", text_of(ROOT / page))
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


ANSWERS = {
    "the type rule of TopK": "def infer_TopK", "the kernel of MaxPool": "kernel_MaxPool",
    "a NaN kept in max pooling": "max pooling|MaxPool", "the list of operator families": "^FAMILIES",
    "the converter of `aten.softmax`": "aten_softmax", "eigenvalues computed": "eigenvalues",
    "torch patched": "^PATCHES|Patch", "it decided whether sizes 0 and 1 are right": "0 and 1|0 or 1",
    "a guard of torch read": "class .*Guard|def .*guard", "a write through a view understood": "view",
    "the FLOPs of an operator": "^FORMULAS",
    "an equation of sizes solved": "def solve", "a symbol read off an input": "def feed|class Binding",
    "a condition of a model written as JSON": "json", "external data written": "external",
    "a protobuf message read": "def split_message", "a graph written for opset 17": "opset",
    "an operator rewritten that ONNX Runtime computes wrongly": "QUIRKS",
    "a Transpose moved through others": "Transpose", "layer norm recognized": "LayerNormalization",
    "it decided whether a fused kernel pays": "kernel|LayerNormalization",
    "float16 kept from overflowing": "overflow", "a rule compared with what it replaces": "def check_rule",
    "what `x + y`, `x[1:]` or `graph.cut(...)` build": "def indexed",
    "a program run and compared with torch": "class .*Check|def check", "the command `irkit optimize`": "def optimize",
    "weights made integers": "def quantize", "the gradient of an operator": "gradient",
    "an `if` on what a tensor holds rewritten as a branch of the graph": "cond|branch",
    "`irkit.compile`": "irkit.compile", "it found out which module of a model cannot be exported": "class Piece",
    "a graph made a torch module": "def as_module", "the steps of a model that generates": "step",
}  # fmt: skip
"""What stands in a file at each place to which a question of CONTRIBUTING.md leads."""


def test_the_stranger_finds_what_he_asks_for() -> None:
    table = text_of(ROOT / "CONTRIBUTING.md").partition("### The stranger's test")[2].partition("\n## ")[0]
    answers = dict(re.findall(r"^\| (.*) \| `(.*)` \|$", table, re.M))
    assert len(answers) >= 20 and answers.keys() == ANSWERS.keys()
    for question, place in answers.items():
        files = [file for file in [ROOT / place, *(ROOT / place).rglob("*.py")] if file.is_file()]
        assert any(re.search(ANSWERS[question], text_of(file), re.M) for file in files), f"{question}: not in {place}"


def test_the_entrance_has_what_belongs_there() -> None:
    """No file of somebody's afternoon lies beside the README."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        found = {line for line in listed.stdout.splitlines() if "/" not in line}
    else:  # a copy without history
        found = {each.name for each in ROOT.iterdir() if each.is_file()}
    assert found <= {
        ".gitignore",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "constraints.txt",
        "irkit_command.py",
        "mkdocs.yml",
        "pyproject.toml",
    }
