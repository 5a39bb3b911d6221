"use strict";
// Layered layout of items with sizes: ranks by the longest path, order by barycentres, places by isotonic regression.
const GAP_X = 22, GAP_Y = 34, MOST_DUMMIES = 30000;

function layered(items, edges) {
  const n = items.length;
  const alone = [], linked = new Uint8Array(n);
  for (const [u, v] of edges) { linked[u] = 1; linked[v] = 1; }
  const down = Array.from({ length: n }, () => []), up = Array.from({ length: n }, () => []);
  for (const [u, v] of acyclic(n, edges)) { down[u].push(v); up[v].push(u); }
  const rank = ranks(n, down, up);
  const layers = [];
  const place = (item, r) => { (layers[r] = layers[r] || []).push(item); };
  const all = items.map((item, i) => ({ i, w: item.w, h: item.h, r: rank[i], up: [], down: [], x: 0, pos: 0, dummy: false }));
  for (let i = 0; i < n; i++) if (linked[i]) place(all[i], rank[i]); else alone.push(all[i]);
  const chains = new Array(n); let dummies = 0;
  for (let u = 0; u < n; u++) {
    let far = 0;
    for (const v of down[u]) far = Math.max(far, rank[v] - rank[u]);
    const chain = chains[u] = [];
    if (dummies + far > MOST_DUMMIES) far = 1;
    for (let k = 1, before = all[u]; k < far; k++) {
      const dummy = { i: -1, w: 6, h: 0, r: rank[u] + k, up: [], down: [], x: 0, pos: 0, dummy: true };
      place(dummy, dummy.r); link(before, dummy); chain.push(dummy); before = dummy; dummies++;
    }
    for (const v of down[u]) { const k = rank[v] - rank[u]; link(k >= 2 && chain.length >= k - 1 ? chain[k - 2] : all[u], all[v]); }
  }
  for (let r = 0; r < layers.length; r++) (layers[r] = layers[r] || []).forEach((item, k) => { item.pos = k; });
  for (let sweep = 0; sweep < 10; sweep++) arrange(layers, sweep % 2 === 0);
  for (const layer of layers) pack(layer, layer.map((_, k) => k), true);
  for (let sweep = 0; sweep < 12; sweep++) straighten(layers, sweep % 2 === 0 ? "up" : "down");
  straighten(layers, "both");
  return finish(items, all, layers, alone, edges, chains, rank);
}
function link(a, b) { a.down.push(b); b.up.push(a); }
function acyclic(n, edges) { // the edges, those that close a circle turned round
  const next = Array.from({ length: n }, () => new Set());
  for (const [u, v] of edges) if (u !== v) next[u].add(v);
  const state = new Uint8Array(n), found = [], seen = new Set();
  const add = (u, v) => { const key = u * n + v; if (!seen.has(key)) { seen.add(key); found.push([u, v]); } };
  for (let start = 0; start < n; start++) {
    if (state[start]) continue;
    const stack = [[start, [...next[start]], 0]]; state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top[2] >= top[1].length) { state[top[0]] = 2; stack.pop(); continue; }
      const v = top[1][top[2]++];
      if (state[v] === 1) add(v, top[0]); else { add(top[0], v); if (!state[v]) { state[v] = 1; stack.push([v, [...next[v]], 0]); } }
    }
  }
  return found;
}
function ranks(n, down, up) {
  const rank = new Int32Array(n), left = up.map(u => u.length), queue = [];
  for (let i = 0; i < n; i++) if (!left[i]) queue.push(i);
  for (let k = 0; k < queue.length; k++) for (const v of down[queue[k]]) { rank[v] = Math.max(rank[v], rank[queue[k]] + 1); if (!--left[v]) queue.push(v); }
  for (let k = queue.length - 1; k >= 0; k--) { // what has no operands stands right above its first user
    const i = queue[k];
    if (!up[i].length && down[i].length) rank[i] = Math.max(0, Math.min(...down[i].map(v => rank[v])) - 1);
  }
  return rank;
}
function arrange(layers, downward) {
  const start = downward ? 1 : layers.length - 2, step = downward ? 1 : -1;
  for (let r = start; r >= 0 && r < layers.length; r += step) {
    const layer = layers[r];
    for (const item of layer) {
      const near = downward ? item.up : item.down;
      let sum = 0; for (const other of near) sum += other.pos / Math.max(1, layers[other.r].length - 1 || 1);
      item.key = near.length ? sum / near.length : item.pos / Math.max(1, layer.length - 1);
    }
    layer.sort((a, b) => a.key - b.key || a.pos - b.pos);
    layer.forEach((item, k) => { item.pos = k; });
  }
}
function straighten(layers, by) {
  const downward = by !== "down";
  for (let k = 0; k < layers.length; k++) {
    const layer = layers[downward ? k : layers.length - 1 - k];
    const wanted = layer.map(item => {
      const near = by === "up" ? item.up : by === "down" ? item.down : [...item.up, ...item.down];
      if (!near.length) return item.x;
      let sum = 0, weight = 0;
      for (const other of near) { const w = item.dummy && other.dummy ? 8 : item.dummy || other.dummy ? 2 : 3 / Math.sqrt(near.length); sum += w * other.x; weight += w; }
      return sum / weight;
    });
    pack(layer, wanted, false);
  }
}
function pack(layer, wanted, first) { // the places nearest to those that are wanted, without overlap (pool adjacent violators)
  if (!layer.length) return;
  const shift = [0];
  for (let k = 1; k < layer.length; k++) shift.push(shift[k - 1] + (layer[k - 1].w + layer[k].w) / 2 + (layer[k - 1].dummy && layer[k].dummy ? 8 : GAP_X));
  if (first) { layer.forEach((item, k) => { item.x = shift[k] - shift[shift.length - 1] / 2; }); return; }
  const blocks = [];
  for (let k = 0; k < layer.length; k++) {
    const item = layer[k], weight = item.dummy ? 3 : Math.max(1, item.up.length + item.down.length);
    let block = { sum: (wanted[k] - shift[k]) * weight, weight, from: k };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const last = blocks.pop();
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, from: last.from };
    }
    blocks.push(block);
  }
  blocks.forEach((block, b) => {
    const to = b + 1 < blocks.length ? blocks[b + 1].from : layer.length;
    for (let k = block.from; k < to; k++) layer[k].x = block.sum / block.weight + shift[k];
  });
}
function finish(items, all, layers, alone, edges, chains, rank) {
  let y = 0, left = Infinity, right = -Infinity;
  const tops = [], heights = [];
  layers.forEach((layer, r) => {
    const height = layer.reduce((most, item) => Math.max(most, item.h), 0);
    const crossing = layer.reduce((sum, item) => sum + item.down.length, 0);
    tops[r] = y; heights[r] = height;
    for (const item of layer) {
      left = Math.min(left, item.x - item.w / 2); right = Math.max(right, item.x + item.w / 2);
      item.y = y + (height - item.h) / 2; item.top = y; item.bottom = y + height;
    }
    y += height + GAP_Y + Math.min(40, crossing * 1.5);
  });
  let height = layers.length ? y - GAP_Y : 0;
  if (!layers.length) { left = 0; right = 0; }
  const room = alone.reduce((sum, item) => sum + item.h + GAP_Y / 2, 0);
  if (alone.length && layers.length && room <= height + GAP_Y) { // without any edge: beside the rest, where no line passes
    const x = right + GAP_X, wide = Math.max(...alone.map(item => item.w)); y = 0;
    for (const item of alone) { item.x = x + wide / 2; item.y = y; y += item.h + GAP_Y / 2; }
    right = x + wide;
  } else if (alone.length) { // rows below the rest, where these are too many
    const across = Math.max(right - left, Math.sqrt(alone.reduce((sum, item) => sum + (item.w + GAP_X) * (item.h + GAP_Y), 0)) * 1.3);
    let x = left, line = 0; y = layers.length ? height + GAP_Y : 0;
    for (const item of alone) {
      if (x > left && x + item.w > left + across) { x = left; y += line + GAP_Y / 2; line = 0; }
      item.x = x + item.w / 2; item.y = y; x += item.w + GAP_X; line = Math.max(line, item.h);
      right = Math.max(right, item.x + item.w / 2);
    }
    height = y + line;
  }
  for (const item of all) { const { y, h, top = y, bottom = y + h } = item; Object.assign(items[item.i], { x: item.x - item.w / 2 - left, y, top, bottom }); }
  const routes = edges.map(([u, v]) => {
    const turned = rank[u] > rank[v], a = turned ? v : u, b = turned ? u : v, points = [], k = rank[b] - rank[a];
    if (chains[a].length >= k - 1) for (let j = 0; j < k - 1; j++) {
      const dummy = chains[a][j];
      points.push([dummy.x - left, tops[dummy.r]]);
      if (heights[dummy.r]) points.push([dummy.x - left, tops[dummy.r] + heights[dummy.r]]);
    }
    return turned ? points.reverse() : points;
  });
  return { w: Math.max(0, right - left), h: Math.max(0, height), routes };
}
