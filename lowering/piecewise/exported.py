"""The result of exporting a model piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import torch

from lowering.errors import CaptureError
from lowering.piecewise.shown import Column, Shown, as_page, as_text
from lowering.piecewise.statuses import Status
from lowering.piecewise.tree import Called, name_at_depth
from lowering.program.check import SizeReport

STYLES = ((Status.FAIL, "red"), (Status.DIFFERS, "red"), (Status.CHILDREN, "yellow"), (Status.CUSTOM, "yellow"))


@attrs.frozen(eq=False, repr=False)
class Exported:
    """What became of a piece, and of those in it.

    `step` is where it failed: capture, lower, write, run or compare; `reason` why, `line` the line of the model, `hint`
    what to try. `runs` compare it with eager, call by call; `opaque` are the names of the pieces that are opaque
    operators in its `program`. `like` is the name of the piece that was tried in its place. `own` says that it is to
    blame itself, and no piece in it.
    """

    piece: Called
    status: Status
    children: tuple[Exported, ...] = ()
    step: str = ""
    reason: str = ""
    line: str = ""
    hint: str = ""
    error: Exception | None = None
    seconds: float = 0.0
    nodes: int = 0
    runs: tuple[SizeReport, ...] = ()
    program: Any = None
    opaque: tuple[str, ...] = ()
    like: str = ""
    own: bool = False
    exporter: str = "irkit"
    options: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """The name of the piece."""
        return self.piece.name

    @property
    def failing(self) -> tuple[Exported, ...]:
        """All pieces that are to blame: those that fail, or whose numbers are wrong, though no piece in them does."""
        return tuple(each for _, each, _ in self.walk() if each.own)

    @property
    def discrepancies(self) -> Mapping[str, tuple[float, ...]]:
        """The largest absolute error of each piece that was exported, in each call that was compared."""
        return {
            each.name: tuple(max((e[1] for e in run.errors), default=0.0) for run in each.runs)
            for _, each, _ in self.walk()
            if each.runs
        }

    def walk(self, depth: int = 0, above: str = "") -> Iterator[tuple[int, Exported, str]]:
        """(depth, piece, name of the piece around it) of this one and all in it, each before its children."""
        yield depth, self, above
        for child in self.children:
            yield from child.walk(depth + 1, self.name)

    def __getitem__(self, name: str) -> Exported:
        """What became of the piece of that name. Raises KeyError for none."""
        for _, each, _ in self.walk():
            if each.name == name:
                return each
        raise KeyError(name)

    def __bool__(self) -> bool:
        """Whether nothing failed, with nothing left out."""
        return Status.OK in self.status and not self.opaque and not self.failing

    # -------------------------------------------------------------------------------------- by itself

    @property
    def script(self) -> str:
        """A program that exports this piece alone, as it was tried. It reads what `save_script` writes beside it."""
        return SCRIPT.format(
            title=self.name or "the model",
            type=self.piece.type,
            reason=self.reason or str(self.status),
            file=f"{self.stem}.pt",
            first="import irkit\n" if self.exporter != "torch.export" else "",
            call=CALLS.get(self.exporter, CALLS["irkit"]).format(
                options="".join(f",\n    {key}={value!r}" for key, value in self.plain_options().items())
            ),
        )

    @property
    def stem(self) -> str:
        """The name of files for this piece."""
        return "".join(c if c.isalnum() or c in "._" else "" for c in self.name) or "model"

    def plain_options(self) -> dict[str, Any]:
        """The options that a text can say."""
        seen = self.piece.observation
        shapes = {"dynamic_shapes": dict(seen.dynamic_shapes)} if seen.dynamic_shapes else {}
        scalars = {"scalar_inputs": list(seen.scalar_inputs)} if seen.scalar_inputs else {}
        plain = {k: v for k, v in self.options.items() if isinstance(v, str | int | float | bool | None)}
        return {**shapes, **scalars, **plain}

    def save_script(self, folder: str | Path) -> Path:
        """Writes `script`, and the module with its arguments beside it; returns the path of the script. Raises
        CaptureError for a module that Python cannot pickle, one of a class inside a function, say."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        seen = self.piece.observation
        held = {"model": self.piece.owner, "args": seen.args, "kwargs": dict(seen.kwargs), "shapes": seen.torch_shapes}
        try:
            torch.save(held, folder / f"{self.stem}.pt")
        except Exception as error:  # pickle and torch raise what they like
            (folder / f"{self.stem}.pt").unlink(missing_ok=True)
            raise CaptureError(
                f"{self.piece.type} cannot be written to a file: {error}",
                hint="let its class stand at the top of a Python file that can be imported",
            ) from error
        path = folder / f"{self.stem}.py"
        path.write_text(self.script, encoding="utf-8")
        return path

    # -------------------------------------------------------------------------------------- shown

    def shown(self) -> Shown:
        """The tree as a table: what became of each piece."""
        columns = (
            Column("piece", "bold"),
            Column("type", "cyan"),
            Column("status"),
            Column("nodes", right=True),
            Column("seconds", right=True),
            Column("largest error", right=True),
            Column("reason"),
            Column("line", "dim"),
        )
        rows, styles, details = [], {}, {}
        for number, (depth, each, above) in enumerate(self.walk()):
            rows.append(each.row(depth, above))
            style = next((color for flag, color in STYLES if flag in each.status), "green")
            styles[number] = "dim" if Status.COVERED in each.status and style == "green" else style
            if each.own:
                told = [each.reason, each.hint, *map(str, each.runs)]
                details[number] = (("reason", "\n".join(filter(None, told))), ("script", each.script))
            elif each.runs:
                details[number] = (("calls", "\n".join(map(str, each.runs))),)
        blamed = [each for each in self.failing if not each.like]
        notes = [f"{len(blamed)} to blame: {', '.join(each.name or 'the model' for each in blamed)}"] if blamed else []
        alike = len(self.failing) - len(blamed)
        notes += [f"{alike} more are like these"] if alike else []
        notes += [f"exported with {len(self.opaque)} opaque operators"] if self.opaque and self.program else []
        return Shown(
            f"{self.piece.type}, by {self.exporter}: {self.status}", columns, tuple(rows), tuple(notes), styles, details
        )

    def row(self, depth: int, above: str) -> tuple[str, ...]:
        """The line of this piece in a table."""
        errors = [max((e[1] for e in run.errors), default=0.0) for run in self.runs]
        reason = " ".join(self.reason.split())
        told = f"like {self.like}" if self.like else reason if len(reason) < LONGEST else f"{reason[:LONGEST]}..."
        return (
            name_at_depth(depth, self.piece, above),
            self.piece.type,
            str(self.status),
            str(self.nodes) if self.nodes else "",
            f"{self.seconds:.3f}" if self.seconds else "",
            f"{max(errors):.2g}" if errors else "",
            told,
            self.line if self.own and not self.like else "",
        )

    def __str__(self) -> str:
        return as_text(self.shown())

    def __repr__(self) -> str:
        return f"<Exported {self.name or 'model'}: {self.status}, {len(self.failing)} to blame>"

    def page(self) -> str:
        """The tree as an HTML page that needs no other file: reasons, calls and scripts can be opened."""
        return as_page(self.shown())

    def save_page(self, path: str | Path) -> Path:
        """Writes `page`; returns the path."""
        Path(path).write_text(self.page(), encoding="utf-8")
        return Path(path)

    def asdict(self) -> dict[str, Any]:
        """The tree as plain data, ready for JSON."""
        return {
            "name": self.name,
            "type": self.piece.type,
            "kind": self.piece.kind,
            "status": [flag.name for flag in Status if flag in self.status],
            "step": self.step,
            "reason": self.reason,
            "line": self.line,
            "hint": self.hint,
            "own": self.own,
            "like": self.like,
            "seconds": self.seconds,
            "nodes": self.nodes,
            "opaque": list(self.opaque),
            "exporter": self.exporter,
            "inputs": dict(self.piece.inputs),
            "outputs": dict(self.piece.outputs),
            "runs": [
                {"sizes": dict(run.sizes), "errors": [list(e) for e in run.errors], "problem": run.problem}
                for run in self.runs
            ],
            "children": [child.asdict() for child in self.children],
        }

    def json(self) -> str:
        """`asdict` as JSON."""
        return json.dumps(self.asdict(), indent=2)


LONGEST = 120
SCRIPT = '''"""{title} ({type}) exported alone: {reason}"""

from pathlib import Path

{first}import torch

piece = torch.load(Path(__file__).parent / "{file}", weights_only=False)
{call}
'''
CALLS: Mapping[str, str] = {
    "irkit": 'program = irkit.to_onnx(\n    piece["model"], piece["args"], piece["kwargs"]{options}\n)\n'
    'print(program(*piece["args"], **piece["kwargs"]))',
    "torch.export": 'program = torch.export.export(\n    piece["model"], piece["args"], piece["kwargs"], '
    'dynamic_shapes=piece["shapes"]\n)\nprint(program.module()(*piece["args"], **piece["kwargs"]))',
}


def errors_of(runs: Sequence[SizeReport]) -> str:
    """What is wrong in the first run that has a problem; empty where none has."""
    return next((run.problem for run in runs if run.problem), "")
