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


CROSSINGS = """(() => {
    const view = app.view, found = [];
    const open = group => group.children.filter(each => each.children).forEach(each => {
        view.open.add(each.key); open(each);
    });
    open(view.model.root); view.relayout();
    const place = ([x0, y0], [x1, y1], t) => { // as `trace` draws it
        if (Math.abs(x0 - x1) < .5) return [x0, y0 + (y1 - y0) * t];
        const mid = (y0 + y1) / 2, u = 1 - t, part = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
        return [[x0, x0, x1, x1], [y0, mid, mid, y1]].map(ends => ends.reduce((sum, end, i) => sum + end * part[i], 0));
    };
    for (const { points, a, b } of view.edges) for (const card of view.cards) {
        if (card === view.boxes.get(a) || card === view.boxes.get(b)) continue;
        const { x: left, y: top, w, h } = card;
        const within = ([x, y]) => x > left + 1 && x < left + w - 1 && y > top + 1 && y < top + h - 1;
        const over = k => [...Array(41).keys()].some(i => within(place(points[k - 1], points[k], i / 40)));
        if (points.some((_, k) => k && over(k))) found.push([idOf(a), idOf(b), idOf(card.each)]);
    }
    return [view.edges.length, found];
})()"""


def nested(seed: int) -> irkit.Graph:
    """A graph of operators in modules within modules, with links to whatever came before."""
    rng = np.random.default_rng(seed)
    modules = ["", "a", "a.b", "a.b.c", "a.d", "e", "e.f", "g"]
    x = irkit.param(irkit.tensor("f32", 4))
    made = [x]
    for module in modules[1:] if seed % 2 else [modules[i] for i in rng.integers(0, len(modules), 8)]:
        for _ in range(int(rng.integers(2, 7))):
            near = made[-3:] if rng.random() < 0.7 else made
            one, other = (near[int(i)] for i in rng.integers(0, len(near), 2))
            kinds = (op.Add, lambda p, _: op.Relu(p), lambda p, q: op.Clip(op.Mul(p, q), -1.0, 1.0))
            value = kinds[int(rng.integers(0, 3))](one, other)
            made.append(value.with_origin(irkit.Origin(module=module)))
    return irkit.Graph((x,), (made[-1], made[-4]))


@pytest.mark.parametrize("seed", range(6))
def test_no_line_passes_through_a_card(tmp_path: Path, seed: int) -> None:
    page = tmp_path / "page.html"
    irkit.viz(nested(seed), page)
    edges, crossed = told_by(page, CROSSINGS, tmp_path / "profile")
    assert edges >= 10 and crossed == []
