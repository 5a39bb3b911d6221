"""Packages of Python that are installed, rather than files of the user's or of Python's own library."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def installed_packages(classes: Iterable[type]) -> frozenset[str]:
    """The names of the installed packages in which classes are defined."""
    names = {(kind.__module__ or "").partition(".")[0] for kind in classes}
    return frozenset(filter(is_installed, names))


def is_installed(name: str) -> bool:
    """Whether a package that was imported is installed."""
    file = file_of(name)
    return any(part in file for part in INSTALLED)


def file_of(name: str) -> str:
    """The file of a module that was imported; empty where it has none."""
    return getattr(sys.modules.get(name), "__file__", None) or ""


def beginnings_of_files(packages: Iterable[str]) -> tuple[str, ...]:
    """How the names of all files of some packages begin."""
    files = [file for file in map(file_of, packages) if file]
    whole = f"{os.sep}__init__.py"
    return tuple(f"{Path(file).parent}{os.sep}" if file.endswith(whole) else file for file in files)
