"use strict";
// A graph on a canvas: boxes for open modules, cards for the rest, moved by mouse, touch and keys.
const FONT = '12px ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const BOLD = '600 12.5px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const PAD = 16, HEAD = 30, LINE = 16, WIDEST = 300, ASIDE = 6;
const ruler = document.createElement("canvas").getContext("2d"), widths = new Map();
function widthOf(text, font) {
  const key = font.length + text;
  let found = widths.get(key);
  if (found === undefined) { ruler.font = font; widths.set(key, found = ruler.measureText(text).width); }
  return found;
}
function fitted(text, font, most) {
  if (widthOf(text, font) <= most) return text;
  const share = Math.max(3, Math.floor(text.length * most / widthOf(text, font)) - 1);
  return text.slice(0, share) + "…";
}

class GraphView {
  constructor(pane, caption, on) {
    this.pane = pane; this.on = on; this.open = new Set([""]); this.camera = { x: 0, y: 0, s: 1 }; this.matches = null;
    this.selected = null; this.dirty = false; this.touched = false;
    pane.innerHTML = `<canvas tabindex="0" role="application" aria-label="Graph${caption ? ": " + esc(caption) : ""}"></canvas>${caption ? `<div class="caption">${esc(caption)}</div>` : ""}<div class="tip"></div>`;
    this.canvas = pane.querySelector("canvas"); this.tip = pane.querySelector(".tip"); this.ctx = this.canvas.getContext("2d");
    this.listen();
    this.resize(); new ResizeObserver(() => this.resize()).observe(pane);
  }
  show(model, keep) {
    this.model = model;
    if (!keep) this.openSome();
    this.relayout();
    if (!keep) this.fit(true);
  }
  resize() {
    const box = this.pane.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    if (!box.width) return;
    this.width = box.width; this.height = box.height; this.ratio = ratio;
    this.canvas.width = Math.round(box.width * ratio); this.canvas.height = Math.round(box.height * ratio);
    if (this.model && !this.touched) this.fit(true);
    this.paint();
  }
  openSome() { // the outermost modules, as long as there is room
    let shown = this.model.root.children.length, queue = this.model.root.children.filter(c => c.children);
    while (queue.length) {
      const next = [];
      for (const each of queue) if (!each.ports && shown + each.children.length <= 42) { this.open.add(each.key); shown += each.children.length - 1; next.push(...each.children.filter(c => c.children)); }
      queue = next;
    }
  }
  foldAll() { this.open = new Set([""]); this.relayout(); this.fit(); }
  unfoldAll() { for (const each of this.model.groups.values()) this.open.add(each.key); this.relayout(); this.fit(); }
  toggle(at) {
    const before = this.boxes.get(at), x = before ? before.x : 0, y = before ? before.y : 0;
    if (this.open.has(at.key)) this.open.delete(at.key); else this.open.add(at.key);
    this.relayout();
    const after = this.boxes.get(at);
    if (after && before) { this.camera.x -= (after.x - x) * this.camera.s; this.camera.y -= (after.y - y) * this.camera.s; }
    this.touched = true; this.paint();
  }
  // ------------------------------------------------------------------------------------------ layout
  relayout() {
    const { model } = this, roots = model.root;
    this.boxes = new Map(); this.cards = []; this.frames = []; this.edges = []; this.ends = new Map(); this.byEnd = new Map();
    const lifted = new Map(), seenPairs = new Set();
    const chain = new Map();
    const chainOf = key => { // the things that hold a node and can be seen, outermost first
      let found = chain.get(key);
      if (found) return found;
      found = [];
      const home = model.home.get(key);
      let at = home && home.node === key ? home : home;
      const above = [];
      for (; at && at.parent; at = at.parent) above.unshift(at);
      let hidden = false;
      for (const each of above) { found.push(each); if (!this.open.has(each.key)) { hidden = true; break; } }
      if (!hidden && !(home && home.node === key)) found.push(model.nodes.get(key) || model.outNodes.get(key));
      chain.set(key, found);
      return found;
    };
    const connect = (from, to) => {
      const a = chainOf(from), b = chainOf(to);
      if (!a.length || !b.length) return;
      let k = 0; while (k < a.length - 1 && k < b.length - 1 && a[k] === b[k]) k++;
      if (a[k] === b[k]) return;
      const u = a[k], v = b[k], at = k ? a[k - 1] : roots, last = a[a.length - 1], end = b[b.length - 1];
      const pair = idOf(last) + ">" + idOf(end);
      if (seenPairs.has(pair)) return;
      seenPairs.add(pair);
      let list = lifted.get(at); if (!list) lifted.set(at, list = []);
      list.push({ u, v, last, end, from, to });
    };
    for (const id of model.order) {
      const node = model.nodes.get(id);
      if (!model.isDrawn(node)) continue;
      for (const input of node.inputs) { const source = input >= 0 ? model.source(input) : -1; if (source >= 0) connect(source, id); }
    }
    for (const each of model.outs) { const source = model.source(each.result); if (source >= 0) connect(source, each.id); }
    this.sizeOf(roots, lifted);
    this.placeAll(roots, 0, 0);
    for (const list of lifted.values()) for (const edge of list) this.route(edge);
    this.bounds = { w: roots.layout.w, h: roots.layout.h };
    this.paint();
  }
  sizeOf(at, lifted) {
    const items = at.children.map(each => {
      if (!each.children) return { ...cardSize(each.node, this.model), each };
      if (!this.open.has(each.key)) return { ...groupSize(each), each };
      const inner = this.sizeOf(each, lifted), least = widthOf(each.label, BOLD) + 40;
      return { w: Math.max(inner.w + 2 * PAD, least), h: inner.h + HEAD + PAD, each };
    });
    const place = new Map(); items.forEach((item, i) => place.set(item.each.children ? item.each : item.each.node, i));
    const list = lifted.get(at) || [], pairs = list.map(e => [place.get(e.u), place.get(e.v)]);
    const found = layered(items, pairs);
    list.forEach((edge, i) => { edge.points = found.routes[i]; edge.at = at; });
    at.layout = { ...found, items };
    return found;
  }
  placeAll(at, x, y) {
    const inset = at.parent ? (((this.boxes.get(at) || {}).w || 0) - at.layout.w) / 2 : 0;
    at.origin = [x + inset, y]; at.placed = [];
    for (const item of at.layout.items) {
      const box = { x: x + inset + item.x, y: y + item.y, w: item.w, h: item.h, each: item.each, depth: at.depth || 0, at, top: y + item.top, bottom: y + item.bottom };
      at.placed.push(box);
      if (item.each.children) {
        this.boxes.set(item.each, box);
        if (this.open.has(item.each.key)) { item.each.depth = (at.depth || 0) + 1; this.frames.push(box); this.placeAll(item.each, box.x, box.y + HEAD); }
        else { box.group = item.each; this.cards.push(box); }
      } else { box.node = item.each.node; this.boxes.set(item.each.node, box); this.cards.push(box); }
    }
  }
  route(edge) {
    const a = this.boxes.get(edge.last), b = this.boxes.get(edge.end), [x, y] = edge.at.origin;
    if (!a || !b) return;
    const outA = this.boxes.get(edge.u), outB = this.boxes.get(edge.v);
    const down = !outA || !outB || outA.y <= outB.y, points = this.leaving(a, outA, down); // up where modules use each other
    for (const [px, py] of edge.points || []) points.push([x + px, y + py]);
    points.push(...this.leaving(b, outB, !down).reverse());
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const [px, py] of points) { left = Math.min(left, px); right = Math.max(right, px); top = Math.min(top, py); bottom = Math.max(bottom, py); }
    const made = { points, left, right, top, bottom, a: edge.last, b: edge.end, status: this.statusOf(edge) };
    this.edges.push(made);
  }
  leaving(box, out, down) { // the way from a card to the end of the layer of `out`, which holds it: past what stands in each frame
    let x = box.x + box.w / 2;
    const points = [[x, down ? box.y + box.h : box.y]];
    for (; out && box !== out; box = this.boxes.get(box.at)) {
      const frame = this.boxes.get(box.at), base = down ? box.bottom : box.top;
      const ahead = box.at.placed.filter(each => each !== box && (down ? each.y + each.h > base + .5 : each.y < base - .5));
      const next = aside(x, ahead);
      if (next !== x) {
        let near = down ? base + GAP_Y : base - GAP_Y;
        for (const { y, h } of ahead) if (down && y > base) near = Math.min(near, y); else if (!down && y + h < base) near = Math.max(near, y + h);
        points.push([x, base], [next, near]); x = next;
      }
      points.push([x, down ? frame.y + frame.h : frame.y]);
    }
    if (out) points.push([x, down ? out.bottom : out.top]);
    return points;
  }
  statusOf(edge) { const s = this.model.status; return s.get(edge.to) === "removed" || s.get(edge.from) === "removed" ? "removed" : s.get(edge.to) === "added" || s.get(edge.from) === "added" ? "added" : ""; }
  // ------------------------------------------------------------------------------------------ camera
  fit(at_once) {
    if (!this.width || !this.bounds) return;
    const { w, h } = this.bounds, s = Math.min(1.1, (this.width - 48) / w, (this.height - 48) / h), wide = Math.min(1, (this.width - 48) / w);
    const scale = Math.max(s, Math.min(wide, 0.45, s * 6));
    this.goTo({ s: scale, x: (this.width - w * scale) / 2, y: h * scale > this.height ? 24 : (this.height - h * scale) / 2 }, at_once);
    this.touched = false;
  }
  fitTo(boxes, most) {
    if (!boxes.length || !this.width) return;
    const left = Math.min(...boxes.map(b => b.x)), right = Math.max(...boxes.map(b => b.x + b.w)), top = Math.min(...boxes.map(b => b.y)), bottom = Math.max(...boxes.map(b => b.y + b.h));
    const s = Math.max(0.12, Math.min(most || 1, (this.width - 90) / (right - left), (this.height - 90) / (bottom - top)));
    this.touched = true;
    this.goTo({ s, x: this.width / 2 - (left + right) / 2 * s, y: this.height / 2 - (top + bottom) / 2 * s });
  }
  goTo(target, at_once) {
    cancelAnimationFrame(this.moving);
    if (at_once || matchMedia("(prefers-reduced-motion: reduce)").matches) { this.camera = target; this.paint(); return; }
    const start = { ...this.camera }, began = performance.now();
    const step = now => {
      const t = Math.min(1, (now - began) / 220), k = 1 - (1 - t) ** 3;
      this.camera = { s: start.s + (target.s - start.s) * k, x: start.x + (target.x - start.x) * k, y: start.y + (target.y - start.y) * k };
      this.paint();
      if (t < 1) this.moving = requestAnimationFrame(step);
    };
    this.moving = requestAnimationFrame(step);
  }
  zoom(factor, x, y) {
    const s = Math.max(0.01, Math.min(3, this.camera.s * factor)), k = s / this.camera.s;
    x = x ?? this.width / 2; y = y ?? this.height / 2;
    this.camera = { s, x: x - (x - this.camera.x) * k, y: y - (y - this.camera.y) * k };
    this.touched = true; this.paint();
  }
  reveal(id, quiet) { // opens what a node stands in, and brings it into view
    const path = this.model.pathTo(id), closed = path.filter(g => !this.open.has(g.key));
    if (closed.length) { for (const each of closed) this.open.add(each.key); this.relayout(); }
    const box = this.boxOf(id);
    if (box && !quiet) {
      const s = Math.max(this.camera.s, 0.75);
      this.touched = true;
      this.goTo({ s, x: this.width / 2 - (box.x + box.w / 2) * s, y: this.height / 2 - (box.y + box.h / 2) * s });
    }
  }
  boxOf(id) {
    const node = this.model.nodes.get(id), home = this.model.home.get(id);
    return this.boxes.get(node) || (home && this.boxes.get(home));
  }
  // ------------------------------------------------------------------------------------------ input
  listen() {
    const { canvas } = this; let held = null, moved = 0; const fingers = new Map(); let spread = 0;
    const at = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const [x, y] = at(event);
      if (event.ctrlKey || event.metaKey || event.deltaMode || Math.abs(event.deltaY) >= 50 && !event.deltaX && !event.shiftKey) this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
      else { this.camera.x -= event.shiftKey ? event.deltaY : event.deltaX; this.camera.y -= event.shiftKey ? 0 : event.deltaY; this.touched = true; this.paint(); }
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, at(event)); held = at(event); moved = 0; spread = 0; this.on.focus(this);
    });
    canvas.addEventListener("pointermove", event => {
      const [x, y] = at(event);
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        fingers.set(event.pointerId, [x, y]);
        const [p, q] = [...fingers.values()], now = Math.hypot(p[0] - q[0], p[1] - q[1]);
        if (spread) this.zoom(now / spread, (p[0] + q[0]) / 2, (p[1] + q[1]) / 2);
        spread = now; moved = 9; return;
      }
      if (held && fingers.size) {
        moved += Math.abs(x - held[0]) + Math.abs(y - held[1]);
        if (moved > 3) { this.camera.x += x - held[0]; this.camera.y += y - held[1]; this.touched = true; canvas.classList.add("drag"); this.paint(); }
        held = [x, y];
      } else this.hover(x, y);
    });
    const end = event => {
      fingers.delete(event.pointerId); canvas.classList.remove("drag");
      if (held && moved <= 3 && event.type === "pointerup") this.click(...at(event));
      held = null;
    };
    canvas.addEventListener("pointerup", end); canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => { this.tip.style.opacity = 0; });
  }
  hit(x, y) {
    const wx = (x - this.camera.x) / this.camera.s, wy = (y - this.camera.y) / this.camera.s;
    const inside = b => wx >= b.x && wx <= b.x + b.w && wy >= b.y && wy <= b.y + b.h;
    const card = this.cards.find(inside);
    if (card) return { card };
    const frame = [...this.frames].reverse().find(inside);
    return { frame, head: frame && wy <= frame.y + HEAD };
  }
  click(x, y) {
    const { card, frame, head } = this.hit(x, y);
    if (card && card.group) { this.on.select(this, card.group); this.toggle(card.group); }
    else if (card) this.on.select(this, card.node);
    else if (head) { this.on.select(this, frame.each); this.toggle(frame.each); }
    else this.on.select(this, frame ? frame.each : null);
  }
  hover(x, y) {
    const { card, head } = this.hit(x, y), node = card && card.node;
    this.canvas.style.cursor = card || head ? "pointer" : "";
    if (!node || this.camera.s > 0.55) { this.tip.style.opacity = 0; return; }
    this.tip.textContent = `${node.op}  ${node.type}\n${node.name || ""}${node.source ? "\n" + node.source : ""}`;
    this.tip.style.left = Math.min(x + 14, this.width - 300) + "px"; this.tip.style.top = y + 16 + "px"; this.tip.style.opacity = 1;
  }
  // ------------------------------------------------------------------------------------------ painting
  paint() { if (!this.dirty) { this.dirty = true; requestAnimationFrame(() => { this.dirty = false; this.draw(); }); } }
  draw() {
    if (!this.width || !this.model || !this.cards) return;
    const { ctx, camera, ratio } = this, css = getComputedStyle(document.documentElement), v = name => css.getPropertyValue("--" + name).trim();
    const colors = this.colors = Object.fromEntries(["bg", "card", "card-line", "edge", "group", "group-line", "ink", "dim", "accent", "accent-3", "added", "removed", "changed", "added-bg", "removed-bg", "changed-bg", "soft", "panel"].map(k => [k, v(k)]));
    this.dark = document.documentElement.dataset.theme === "dark";
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = colors.bg; ctx.fillRect(0, 0, this.width, this.height);
    ctx.setTransform(ratio * camera.s, 0, 0, ratio * camera.s, ratio * camera.x, ratio * camera.y);
    const left = -camera.x / camera.s, top = -camera.y / camera.s, right = left + this.width / camera.s, bottom = top + this.height / camera.s;
    const seen = b => b.x < right && b.x + b.w > left && b.y < bottom && b.y + b.h > top;
    for (const frame of this.frames) if (seen(frame)) this.drawFrame(frame);
    this.drawEdges(left, top, right, bottom);
    const far = camera.s < 0.28;
    for (const card of this.cards) if (seen(card)) { if (card.group) this.drawGroup(card, far); else this.drawCard(card, far); }
    if (camera.s < 0.5) for (const frame of this.frames) if (seen(frame)) this.drawLabel(frame);
  }
  drawFrame(box) {
    const { ctx, colors, camera } = this, chosen = this.selected === box.each;
    rounded(ctx, box.x, box.y, box.w, box.h, 12);
    ctx.fillStyle = box.depth % 2 ? colors.bg : colors.group; ctx.fill();
    ctx.lineWidth = chosen ? 2 : 1; ctx.strokeStyle = chosen ? colors.accent : colors["group-line"]; ctx.stroke();
    if (camera.s < 0.28) return;
    ctx.font = BOLD; ctx.fillStyle = colors.dim; ctx.textBaseline = "middle"; ctx.textAlign = "left";
    ctx.fillText("▾ " + fitted(box.each.label, BOLD, box.w - 40), box.x + 12, box.y + 16);
  }
  drawLabel(box) { // far away: the name of a module at a size that can be read
    const { ctx, colors, camera } = this, height = 13 / camera.s;
    if (box.w * camera.s < 54 || box.h * camera.s < 34 || (camera.s >= 0.28)) return;
    ctx.font = `600 ${height}px system-ui, sans-serif`; ctx.textBaseline = "top"; ctx.textAlign = "left"; ctx.fillStyle = colors.ink;
    ctx.globalAlpha = .75; ctx.fillText(box.each.label.slice(0, Math.floor(box.w * camera.s / 8)), box.x + 6 / camera.s, box.y + 4 / camera.s); ctx.globalAlpha = 1;
  }
  drawEdges(left, top, right, bottom) {
    const { ctx, colors, camera, selected } = this;
    const chosen = [], faded = this.matches || (selected && selected.id !== undefined);
    const batches = { "": [], added: [], removed: [] };
    for (const edge of this.edges) {
      if (edge.right < left || edge.left > right || edge.bottom < top || edge.top > bottom) continue;
      if (selected && (edge.a === selected || edge.b === selected)) chosen.push(edge); else batches[edge.status].push(edge);
    }
    ctx.lineCap = "round";
    for (const status of ["", "removed", "added"]) {
      if (!batches[status].length) continue;
      ctx.beginPath(); for (const edge of batches[status]) trace(ctx, edge.points);
      ctx.strokeStyle = status ? colors[status] : colors.edge; ctx.globalAlpha = status ? .8 : faded ? .45 : .8;
      ctx.lineWidth = Math.max(1.1, .7 / camera.s); ctx.setLineDash(status === "removed" ? [4, 4] : []); ctx.stroke();
    }
    ctx.setLineDash([]); ctx.globalAlpha = 1;
    if (camera.s > 0.35) for (const edge of [].concat(batches[""], batches.added, batches.removed)) arrow(ctx, edge, edge.status ? colors[edge.status] : colors.edge);
    for (const edge of chosen) {
      ctx.beginPath(); trace(ctx, edge.points); ctx.lineWidth = Math.max(2, 1.4 / camera.s);
      ctx.strokeStyle = edge.b === selected ? colors.accent : colors["accent-3"]; ctx.stroke();
      arrow(ctx, edge, ctx.strokeStyle);
    }
  }
  drawCard(box, far) {
    const { ctx, colors, model } = this, node = box.node, color = colorOf(node.op, this.dark), status = node.op === "result" ? undefined : model.status.get(node.id);
    const chosen = this.selected === node, match = this.matches && this.matches.has(node.id);
    const pill = node.op === PARAM || node.op === "result", stroke = status ? colors[status] : chosen ? colors.accent : colors["card-line"];
    ctx.globalAlpha = this.matches && !match && !chosen ? .32 : 1;
    rounded(ctx, box.x, box.y, box.w, box.h, pill ? box.h / 2 : 8);
    ctx.fillStyle = status ? colors[status + "-bg"] : far ? color : pill ? colors.soft : colors.card; ctx.fill();
    ctx.lineWidth = chosen || status || match ? 2 : 1; ctx.strokeStyle = match && !status ? colors["accent-3"] : stroke;
    if (status === "removed") ctx.setLineDash([5, 4]);
    ctx.stroke(); ctx.setLineDash([]);
    if (chosen) { rounded(ctx, box.x - 3, box.y - 3, box.w + 6, box.h + 6, pill ? box.h / 2 + 3 : 10); ctx.strokeStyle = colors.accent; ctx.globalAlpha = .35; ctx.lineWidth = 3; ctx.stroke(); ctx.globalAlpha = 1; }
    if (!far) {
      ctx.textBaseline = "middle"; ctx.textAlign = "left";
      if (pill) {
        ctx.font = BOLD; ctx.fillStyle = colors.ink; ctx.textAlign = "center";
        ctx.fillText(fitted(labelOf(node), BOLD, box.w - 24), box.x + box.w / 2, box.y + 14);
        ctx.font = FONT; ctx.fillStyle = colors.dim; ctx.fillText(fitted(node.type, FONT, box.w - 24), box.x + box.w / 2, box.y + 30);
      } else {
        ctx.fillStyle = color; rounded(ctx, box.x + 8, box.y + 9, 4, 14, 2); ctx.fill();
        ctx.font = BOLD; ctx.fillStyle = colors.ink; ctx.fillText(fitted(titleOf(node), BOLD, box.w - 28), box.x + 18, box.y + 16);
        ctx.font = FONT; ctx.fillStyle = colors.dim;
        detailsOf(node, model).forEach((line, i) => ctx.fillText(fitted(line, FONT, box.w - 22), box.x + 12, box.y + 35 + i * LINE));
      }
    }
    ctx.globalAlpha = 1;
  }
  drawGroup(box, far) {
    const { ctx, colors } = this, at = box.group, chosen = this.selected === at, hits = this.matches && at.hits;
    ctx.globalAlpha = this.matches && !hits ? .4 : 1;
    for (const shift of [5, 0]) { // a stack of cards
      rounded(ctx, box.x + shift / 2, box.y + shift, box.w - shift, box.h - shift / 5, 10);
      ctx.fillStyle = shift ? colors.group : colors.card; ctx.fill();
      ctx.lineWidth = (chosen || at.changed || hits) && !shift ? 2 : 1; ctx.strokeStyle = shift ? colors["group-line"] : chosen ? colors.accent : hits ? colors["accent-3"] : at.changed ? colors.changed : colors["card-line"]; ctx.stroke();
    }
    if (far) {
      const size = Math.min(13 / this.camera.s, box.h * .6); ctx.font = `600 ${size}px system-ui, sans-serif`; ctx.fillStyle = colors.ink; ctx.textBaseline = "middle"; ctx.textAlign = "center";
      if (box.w * this.camera.s > 40) ctx.fillText(at.label.slice(0, Math.max(2, Math.floor(box.w / size * 1.6))), box.x + box.w / 2, box.y + box.h / 2);
      ctx.globalAlpha = 1; return;
    }
    ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.font = BOLD; ctx.fillStyle = colors.ink;
    ctx.fillText("▸ " + fitted(at.label, BOLD, box.w - 40), box.x + 12, box.y + 18);
    ctx.font = FONT; ctx.fillStyle = colors.dim; ctx.fillText(fitted(groupLine(at), FONT, box.w - 24), box.x + 12, box.y + 37);
    let x = box.x + 12; const whole = box.w - 24;
    for (const [op, n] of [...at.ops].sort((a, b) => b[1] - a[1])) { const w = whole * n / Math.max(1, [...at.ops.values()].reduce((a, b) => a + b, 0)); ctx.fillStyle = colorOf(op, this.dark); ctx.fillRect(x, box.y + 51, Math.max(.5, w - 1), 4); x += w; }
    if (at.changed || hits) {
      const text = hits ? plural(hits, "hit") : `${at.changed} changed`, w = widthOf(text, FONT) + 14;
      rounded(ctx, box.x + box.w - w - 8, box.y - 8, w, 18, 9); ctx.fillStyle = hits ? colors["accent-3"] : colors.changed; ctx.fill();
      ctx.fillStyle = colors.panel; ctx.font = FONT; ctx.fillText(text, box.x + box.w - w - 1, box.y + 1.5);
    }
    ctx.globalAlpha = 1;
  }
}
function idOf(thing) { return thing.children ? "g" + thing.key : "n" + thing.id; }
function labelOf(node) { return node.op === "result" ? node.name : node.name.replace(/^%/, "").replace(/^"(.*)"$/, "$1"); }
function detailsOf(node, model) { // the lines of a card below its operator
  if (node.lines) return node.lines;
  const lines = [node.type];
  for (const input of node.inputs) {
    const operand = model.nodes.get(input);
    if (operand && operand.op === CONSTANT && lines.length < 4) {
      const content = DATA.contents[operand.constant];
      lines.push(content && content.name ? `${lastPart(content.name)} ${operand.type}` : content && content.first && size(content.shape) <= 6 && content.shape.length <= 1 ? `= ${content.first.join(", ")}` : operand.type);
    }
  }
  return node.lines = lines;
}
function lastPart(name) { return name.split(".").slice(-2).join("."); }
function cardSize(node, model) {
  if (node.box) return node.box;
  if (node.op === PARAM || node.op === "result") return node.box = { w: Math.min(WIDEST, Math.max(90, widthOf(labelOf(node), BOLD) + 36, widthOf(node.type, FONT) + 36)), h: 44 };
  const lines = detailsOf(node, model), w = Math.max(widthOf(titleOf(node), BOLD) + 34, ...lines.map(l => widthOf(l, FONT) + 26));
  return node.box = { w: Math.min(WIDEST, Math.max(84, w)), h: 28 + lines.length * LINE + 4 };
}
function groupLine(at) { return at.ports ? fitted(at.children.map(c => labelOf(c.node)).join(", "), FONT, 230) : plural(at.size, "operator"); }
function groupSize(at) { return { w: Math.min(WIDEST, Math.max(150, widthOf(at.label, BOLD) + 48, widthOf(groupLine(at), FONT) + 30)), h: 64 }; }
function rounded(ctx, x, y, w, h, r) { ctx.beginPath(); ctx.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2)); }
function aside(x, boxes) { // the place next to x where a line passes all boxes
  let left = Infinity, right = -Infinity;
  for (const [from, to] of boxes.map(each => [each.x - ASIDE, each.x + each.w + ASIDE]).sort((a, b) => a[0] - b[0])) {
    if (from > right) { if (right >= x) break; left = from; right = to; } else right = Math.max(right, to);
  }
  return x < left || x > right ? x : x - left < right - x ? left - 1 : right + 1;
}
function trace(ctx, points) {
  ctx.moveTo(points[0][0], points[0][1]);
  for (let k = 1; k < points.length; k++) {
    const [x0, y0] = points[k - 1], [x1, y1] = points[k];
    if (Math.abs(x0 - x1) < .5) ctx.lineTo(x1, y1); else { const mid = (y0 + y1) / 2; ctx.bezierCurveTo(x0, mid, x1, mid, x1, y1); }
  }
}
function arrow(ctx, edge, color) {
  const [x, y] = edge.points[edge.points.length - 1], back = edge.points[edge.points.length - 2][1] > y ? 6.5 : -6.5;
  ctx.fillStyle = color; ctx.beginPath(); ctx.moveTo(x, y); ctx.lineTo(x - 3.6, y + back); ctx.lineTo(x + 3.6, y + back); ctx.fill();
}
