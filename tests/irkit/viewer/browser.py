"""A page in headless Chromium, where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=4000",
)  # fmt: skip


@lru_cache(maxsize=1)
def chromium() -> str:
    """The path of the browser; skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), "")
    if not found:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    return found


def document_after(page: Path, fragment: str, folder: Path, width: int = 800, height: int = 600) -> str:
    """The document that a page has become once its scripts have run, in a window of that size."""
    command = [chromium(), *OPTIONS, f"--user-data-dir={folder}", f"--window-size={width},{height}", "--dump-dom"]
    command.append(f"{page.as_uri()}#{fragment}")
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def told_by(page: Path, script: str, folder: Path, fragment: str = "", width: int = 1400) -> Any:
    """What an expression of JavaScript is, in a page that has opened in a window of that width."""
    said = f"<script>document.documentElement.dataset.told = JSON.stringify({script});</script></body>"
    asked = folder.with_suffix(".html")
    asked.write_text(page.read_text("utf-8").replace("</body>", said), "utf-8")
    found = re.search(r'data-told="([^"]*)"', document_after(asked, fragment, folder, width, 900))
    assert found, "the script has failed"
    return json.loads(unescape(found[1]))
