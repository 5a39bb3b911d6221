"""Libraries that read folders of `lowering.export_hf`, each run in a process of its own by the interpreter that has it.

`make layouts` installs them below `build/layouts`: optimum needs an older transformers than irkit does, transformers.js
needs node. Where one is missing, its `Reader` says why.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

HERE = Path(__file__).parent
PLACE = Path(__file__).parents[3] / "build" / "layouts"


@attrs.frozen
class Reader:
    """How a library is run: the command, and why it cannot be, where it cannot."""

    name: str
    command: tuple[str, ...]
    missing: str = ""

    def answers(self, jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the library gives for each job: `{"found": ...}`, or `{"problem": ...}` where it refuses.

        A job has a `folder`, a `kind` ("generate" or "infer"), `inputs` as nested lists by name, and `options`.
        """
        with tempfile.TemporaryDirectory() as place:
            asked, given = Path(place, "asked.json"), Path(place, "given.json")
            asked.write_text(json.dumps(list(jobs)), encoding="utf-8")
            environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
            done = subprocess.run(
                [*self.command, asked, given], env=environment, capture_output=True, text=True, cwd=place, timeout=1200
            )
            if not given.exists():
                raise RuntimeError(f"{self.name} ended with {done.returncode}: {done.stderr[-2000:]}")
            return json.loads(given.read_text(encoding="utf-8"))


def optimum() -> Reader:
    """optimum-onnx, in an environment of its own."""
    python = PLACE / "optimum" / "bin" / "python"
    missing = "" if python.exists() else "optimum-onnx wants transformers below 4.58: `make layouts` installs both"
    return Reader("optimum", (str(python), str(HERE / "optimum_reader.py")), missing)


def genai() -> Reader:
    """onnxruntime-genai, beside irkit."""
    missing = "" if importlib.util.find_spec("onnxruntime_genai") else "onnxruntime-genai is not installed: .[genai]"
    return Reader("onnxruntime-genai", (sys.executable, str(HERE / "genai_reader.py")), missing)


def transformers_js() -> Reader:
    """transformers.js, under node."""
    library = PLACE / "node_modules" / "@huggingface" / "transformers" / "dist" / "transformers.node.mjs"
    missing = (
        "" if library.exists() and shutil.which("node") else "transformers.js wants node: `make layouts` installs it"
    )
    return Reader("transformers.js", ("node", str(HERE / "transformers_js_reader.mjs"), str(library)), missing)


READERS = {"optimum": optimum, "transformers.js": transformers_js, "genai": genai}
