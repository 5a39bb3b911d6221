"""The runtimes by name: what is installed for each, and how a process of its own is started."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from irkit.errors import IrkitError

HERE = Path(__file__).resolve().parent
EXTRA = 'pip install "irkit[runtimes]"'


@attrs.frozen
class Runtime:
    """A runtime: its name, the target to export for, the package that it comes in, how it is installed, the script of
    node's that runs it, if it is none of Python's, and whether it has a second way to load a file at which its process
    ended."""

    name: str
    target: str
    package: str
    install: str = EXTRA
    script: str = ""
    tries_again: bool = False

    def version(self) -> str:
        """The version that is installed; empty where it is not."""
        if self.script:
            found = package_of_node(self.package)
            return "" if found is None or shutil.which("node") is None else found
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    def require(self) -> str:
        """The version that is installed. Raises IrkitError that says what to install where none is."""
        found = self.version()
        if not found:
            raise IrkitError(f"{self.name} is not installed", hint=self.install)
        return found

    def command(self, requests: Iterable[Path]) -> list[str]:
        """The words that start a process which answers requests."""
        if self.script:
            return ["node", str(HERE / self.script), *map(str, requests)]
        return [sys.executable, "-m", "irkit.runtimes", self.name, *map(str, requests)]


def package_of_node(name: str) -> str | None:
    """The version of a package that node finds from the working directory upwards; None where it finds none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "node_modules" / name / "package.json"
        if file.is_file():
            return str(json.loads(file.read_text(encoding="utf-8"))["version"])
    return None


RUNTIMES: Mapping[str, Runtime] = MappingProxyType(
    {
        each.name: each
        for each in (
            Runtime("openvino", "openvino", "openvino"),
            Runtime("tract", "tract", "tract", tries_again=True),
            Runtime("onnx-reference", "onnx-reference", "onnx", "pip install onnx"),
            Runtime(
                "onnxruntime-web",
                "onnxruntime-web",
                "onnxruntime-web",
                "npm install --ignore-scripts onnxruntime-web, in the working directory or above; node 20 or newer",
                "onnxruntime_web.cjs",
            ),
            Runtime("onnxruntime", "onnxruntime-cpu", "onnxruntime", "pip install onnxruntime"),
        )
    }
)
"""The runtimes by name."""


def runtime_named(name: str) -> Runtime:
    """The runtime of that name. Raises IrkitError for another."""
    if name not in RUNTIMES:
        raise IrkitError(f"there is no runtime {name!r}", hint=f"take one of {', '.join(RUNTIMES)}")
    return RUNTIMES[name]


Run = Callable[[Mapping[str, Any]], "tuple[Any, ...]"]
"""Takes the arrays of a call by name, and gives the results in order."""


def library(name: str, install: str = EXTRA) -> Any:
    """A module that is imported where it is first asked for. Raises IrkitError that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise IrkitError(f"{name} cannot be imported: {error}", hint=install) from error
