"""What a page looks like in a browser: nothing cut off, nothing in the way of a line, quick with ten thousand nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import irkit
from irkit import op
from irkit.core.origins import Origin
from tests.irkit.viewer.browser import told_by
from tests.irkit.viewer.test_histories import from_elsewhere
from tests.irkit.viewer.test_pages import long

INSIDE = """(() => {
    const end = HOST.getBoundingClientRect().right + 1;
    return [...document.querySelectorAll('WHAT')].every(each => each.getBoundingClientRect().right <= end);
})()"""


def inside(what: str, host: str) -> str:
    """Whether what a selector finds ends where its host does, in JavaScript."""
    return INSIDE.replace("WHAT", what).replace("HOST", f"document.getElementById('{host}')")


def wordy(scale: float) -> irkit.Graph:
    """An operator with a long type and long names."""
    x = irkit.param(irkit.tensor("f32", "the_batch_of_the_first_input", "tokens_of_the_second_input", 64))
    w = irkit.const(np.full((64, 64), scale, np.float32), name="model.layers.0.self_attention.q_projection.weight")
    made = op.MatMul(x, w).with_origin(Origin("mm", "aten.mm", "model.layers.0.self_attention", "model.py:3 x @ w"))
    return irkit.Graph((x,), (op.LayerNormalization(made, op.Cast(w[0], to=1)),), name="wordy")


@pytest.mark.parametrize("width", [1000, 1400])
def test_long_lines_of_differences_are_not_cut_off(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    irkit.viz(irkit.diff(wordy(1.0), from_elsewhere()), page)
    script = f"[{inside('#details .below', 'details')}, document.querySelectorAll('#details .below').length]"
    fits, count = told_by(page, script, tmp_path / "profile", width=width)
    assert fits and count > 10


@pytest.mark.parametrize("width", [800, 900, 1000, 1400])
def test_outline_and_title_are_in_sight(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    irkit.viz(wordy(1.0), page)
    title = "document.getElementById('title').getBoundingClientRect().width"
    script = f"[{inside('#outline .count', 'outline')}, {inside('#outline .label', 'outline')}, {title}]"
    counts, labels, wide = told_by(page, script, tmp_path / "profile", "open=1", width)
    assert counts and labels and wide > 30


def test_what_hangs_on_nothing_stands_where_no_line_passes(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    irkit.viz(wordy(1.0), page)
    sizes = "[100, 100, 80, 60].map(w => ({ w, h: 40 }))"
    script = (
        f"(() => {{ const items = {sizes}; const {{ w, h }} = layered(items, [[0, 1]]); return {{ items, w, h }}; }})()"
    )
    found = told_by(page, script, tmp_path / "profile")
    first, second, *alone = found["items"]
    assert all(each["x"] >= max(first["x"] + 100, second["x"] + 100) for each in alone)
    assert all(each["x"] + each["w"] <= found["w"] and each["y"] + each["h"] <= found["h"] for each in alone)
    assert alone[1]["y"] >= alone[0]["y"] + alone[0]["h"]


def test_slider_takes_arrows(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    irkit.viz(from_elsewhere(), page, target="onnxruntime-cpu")
    script = """(() => {
        const at = [];
        for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft', 'End', 'Home']) {
            $('track').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
            at.push(now);
        }
        return [at, MOMENTS.length];
    })()"""
    (first, second, third, end, start), count = told_by(page, script, tmp_path / "profile")
    assert 0 < third <= first < second and end == count and start == 0


def test_ten_thousand_nodes_are_quick(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    irkit.viz(long(10_000), page)
    steps = {
        "ready": "",
        "search": "find('op:Add'); nextHit(1);",
        "unfold": "app.view.unfoldAll(); outlined();",
        "pan": "for (let i = 0; i < 20; i++) { app.view.camera.y -= 50; app.view.draw(); }",
        "text": "tab('text'); for (let i = 0; i < 20; i++) { $('lines').scrollTop = i * 9000; lines.paint(); }",
    }
    timed = " ".join(
        f"at = performance.now(); {code} out.{name} = performance.now() - at;" for name, code in steps.items()
    )
    ready = "out.ready = +document.documentElement.dataset.ready;"
    script = f"(() => {{ const out = {{}}; let at = 0; {timed} {ready} return out; }})()"
    found = told_by(page, script, tmp_path / "profile")
    assert all(milliseconds < 3000 for milliseconds in found.values()), found
