"""README.md and docs/ keep their word: every `python` block runs, and so does every `irkit` line of a `sh` block, and
the second cell of every row of a table that begins `| there | here |`.

The blocks of one file share a namespace and a folder of their own, so a page reads as one session. A block that cannot
run here says why on the line before it:

    <!-- not run: needs a GPU -->
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from irkit.doors.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]
SHELL_SYNTAX = {"|", "||", "&", "&&", ";", ">", ">>", "<"}


class Block(NamedTuple):
    """One fenced block: its language, the line of its first line of code, its code, and why it is not run."""

    language: str
    line: int
    code: str
    not_run: str | None


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = re.match(r"^( *)(`{3,})\s*(\S*)", lines[number])
        number += 1
        if not opening:
            continue
        indent, fence, language = opening.groups()
        start = number
        while number < len(lines) and not re.match(rf"^ *{fence}`*\s*$", lines[number]):
            number += 1
        code = "".join(line.removeprefix(indent) + "\n" for line in lines[start:number])
        found.append(Block(language, start + 1, code, _reason_before(lines[: start - 1])))
        number += 1
    return found


def calls_of(text: str) -> list[Block]:
    """The code in the second cell of each row of the tables headed `| there | here |`, in order."""
    found: list[Block] = []
    heading = False
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if cells[:2] == ["there", "here"]:
            heading = True
        elif not cells:
            heading = False
        elif heading and not re.fullmatch(r"-+", cells[0]):
            code = re.fullmatch(r"`([^`]+)`", cells[1])
            if code is None:
                raise ValueError(f"line {number}: the second cell is no code between backticks: {cells[1]}")
            found.append(Block("python", number, code[1].replace(r"\|", "|") + "\n", None))
    return found


def _reason_before(lines: list[str]) -> str | None:
    """The reason in the comment that ends these lines, None where no comment does; an empty one is an error."""
    before = next((line.strip() for line in reversed(lines) if line.strip()), "")
    marked = re.fullmatch(r"<!--\s*not run(.*?)-->", before)
    if not marked:
        return None
    reason = marked[1].strip().removeprefix(":").strip()
    if not reason:
        raise ValueError(f"line {len(lines)}: a block that is not run says why: <!-- not run: reason -->")
    return reason


def commands_of(code: str) -> list[list[str]]:
    """The arguments of each line that starts with `irkit `; a line ending in a backslash goes on in the next."""
    joined = code.replace("\\\n", " ")
    commands = [shlex.split(line, comments=True) for line in joined.splitlines() if line.startswith("irkit ")]
    for command in commands:
        if syntax := SHELL_SYNTAX.intersection(command):
            raise ValueError(f"{shlex.join(command)}: no shell runs this line, so {' '.join(syntax)} has no meaning")
    return [command[1:] for command in commands]


class ErrorsOccur(ast.NodeTransformer):
    """Makes `try ... except E as error` fail where nothing is raised: on a page it shows an error."""

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """The statement with an `else` that raises, where it names what it catches and has no `else` of its own."""
        self.generic_visit(node)
        if node.handlers and all(handler.name for handler in node.handlers) and not node.orelse:
            node.orelse = ast.parse("raise AssertionError('the page says that this raises, and it does not')").body
            for part in ast.walk(node.orelse[0]):
                if hasattr(part, "lineno"):
                    ast.copy_location(part, node)
        return node


def run_python(block: Block, page: str, module: ModuleType) -> None:
    """Runs the block in the module's namespace; a traceback names the page and its line."""
    tree = ErrorsOccur().visit(ast.parse("\n" * (block.line - 1) + block.code, page))
    exec(compile(tree, page, "exec", dont_inherit=True), module.__dict__)


def run_shell(block: Block, folder: Path) -> None:
    """Runs the `irkit` lines of the block in the folder; one that fails raises, with what it printed.

    They run in this process, which has torch at hand already; tests/whole/test_cli.py starts processes.
    """
    for arguments in commands_of(block.code):
        with contextlib.chdir(folder):
            result = CliRunner().invoke(app, arguments)
        if result.exit_code != 0:
            command = shlex.join(["irkit", *arguments])
            raise RuntimeError(f"line {block.line}: `{command}` returned {result.exit_code}\n{result.output}")


def run_page(text: str, page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Runs what the page shows, in the folder; returns the namespace that its blocks shared."""
    # A module that can be found by its name, because dataclasses and pickle look classes up there.
    module = ModuleType("page_" + re.sub(r"\W", "_", Path(page).stem))
    module.__file__ = page
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(folder)
    for block in sorted([*blocks_of(text), *calls_of(text)], key=lambda block: block.line):
        if block.not_run is None and block.language == "python":
            run_python(block, page, module)
        elif block.not_run is None and block.language == "sh":
            run_shell(block, folder)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page.read_text(encoding="utf-8"), str(page), tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", page.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


# ---------------------------------------------------------------------------------------------- the runner itself

SHARED = """
```python
x = 20
```
Then
```text
not compared
```
```python
y = x + 1
```
"""


def test_run_page_shares_a_namespace_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SHARED + "```python\nopen('here.txt', 'w').close()\n```\n"
    assert run_page(text, "page.md", tmp_path, monkeypatch).__dict__["y"] == 21
    assert (tmp_path / "here.txt").exists()


def test_run_page_fails_with_the_line_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(SHARED + "```python\nx = 1\n1 / 0\n```\n", "page.md", tmp_path, monkeypatch)
    last = caught.traceback[-1]
    assert (str(last.path).endswith("page.md"), last.lineno + 1) == (True, 14)


def test_run_page_fails_where_an_error_that_it_shows_does_not_occur(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "```python\ntry:\n    1 / {n}\nexcept ZeroDivisionError as error:\n    said = str(error)\n```\n"
    assert run_page(shown.format(n=0), "page.md", tmp_path, monkeypatch).__dict__["said"] == "division by zero"
    with pytest.raises(AssertionError, match="says that this raises"):
        run_page(shown.format(n=1), "page.md", tmp_path, monkeypatch)


def test_run_page_leaves_out_a_marked_block_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<!-- not run: needs a GPU -->\n\n```python\n1 / 0\n```\n```python\nx = 1\n```\n"
    assert run_page(text, "page.md", tmp_path, monkeypatch).__dict__["x"] == 1


def test_run_page_finds_classes_by_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```python\nimport pickle\nclass A: pass\nb = pickle.loads(pickle.dumps(A()))\n```\n"
    assert type(run_page(text, "page.md", tmp_path, monkeypatch).__dict__["b"]).__name__ == "A"


TABLE = "```python\nx = 1\n```\n\n| there | here |\n| --- | --- |\n| `a` | `y = x \\| 2` |\n| `b` | `{code}` |\n"


def test_run_page_runs_the_calls_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_page(TABLE.format(code="z = y"), "page.md", tmp_path, monkeypatch).__dict__["z"] == 3
    with pytest.raises(NameError):
        run_page(TABLE.format(code="nothing"), "page.md", tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="line 8: the second cell is no code"):
        calls_of(TABLE.format(code="").replace("``", "words"))


@pytest.mark.parametrize("mark", ["<!-- not run -->", "<!-- not run: -->"])
def test_blocks_of_wants_a_reason(mark: str) -> None:
    with pytest.raises(ValueError, match="says why"):
        blocks_of(f"{mark}\n```python\n1 / 0\n```\n")


def test_blocks_of_removes_indentation_and_keeps_longer_fences_whole() -> None:
    indented, nested = blocks_of("- so:\n  ```python\n  if x:\n      y\n  ```\n````md\n```python\n1 / 0\n```\n````\n")
    assert indented == Block("python", 3, "if x:\n    y\n", None)
    assert nested.language == "md"


def test_commands_of_reads_irkit_lines_only() -> None:
    code = "pip install irkit\nirkit show 'a b.onnx'  # the graph\nirkit export m.pt2 \\\n  -o m.onnx\nirkitty\n"
    assert commands_of(code) == [["show", "a b.onnx"], ["export", "m.pt2", "-o", "m.onnx"]]


def test_commands_of_refuses_what_only_a_shell_understands() -> None:
    with pytest.raises(ValueError, match="no shell"):
        commands_of("irkit show a.onnx > a.txt\n")


def test_run_shell_fails_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="irkit no-such-command"):
        run_shell(Block("sh", 1, "irkit no-such-command\n", None), tmp_path)
