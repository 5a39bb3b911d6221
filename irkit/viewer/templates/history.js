"use strict";
// The slider: states of the graph after each firing and each pass, what changed, and how long it took.
const MOMENTS = DATA.moments || [], TURNS = DATA.turns || [];
let now = 0, playing = 0, states = [], stateAtMoment = [0, null];

function applied(state, moment) { // the state after a moment: rows by id, and results
  const rows = new Map(state.rows);
  for (const id of moment.remove) rows.delete(id);
  for (const row of moment.change) rows.set(row[0], row);
  for (const row of moment.add) rows.set(row[0], row);
  const results = moment.results ? moment.results.map((id, i) => [id, ...((DATA.graphs[0].results[i] || [0, "", ""]).slice(1))]) : state.results;
  return { rows, results };
}
function stateAt(index) { // after moment number `index`, counted from 1; 0 is the graph as it was
  if (!states.length) states.push([0, { rows: rowsById(DATA.graphs[0]), results: DATA.graphs[0].results }]);
  let best = stateAtMoment[1] && stateAtMoment[0] <= index ? stateAtMoment : states[0];
  for (const each of states) if (each[0] <= index && each[0] > best[0]) best = each;
  let [at, state] = best;
  while (at < index) { state = applied(state, MOMENTS[at]); at++; if (at % 64 === 0 && !states.some(s => s[0] === at)) states.push([at, state]); }
  stateAtMoment = [index, state];
  return state;
}
function startOf(index) { // the moment before the pass that a moment belongs to
  const turn = MOMENTS[index - 1].turn;
  let at = index - 1;
  while (at > 0 && MOMENTS[at - 1].turn === turn) at--;
  return at;
}
function same(a, b) { for (let i = 1; i < a.length; i++) if (i !== 9 && (Array.isArray(a[i]) ? a[i].join() !== b[i].join() : a[i] !== b[i])) return false; return true; }
function comparison(index) { // the state after a moment with what it removed still in it, and the status of each change
  const after = stateAt(index), status = new Map();
  if (!index) return { rows: after.rows, results: after.results, status };
  const start = startOf(index), from = MOMENTS[start].kind === "between" && start < index - 1 ? start + 1 : start; // what stood there when the pass began
  const before = MOMENTS[index - 1].kind === "pass" ? stateAt(from) : stateAt(index - 1), rows = new Map(after.rows);
  for (const [id, row] of before.rows) if (!after.rows.has(id)) { status.set(id, "removed"); rows.set(id, row); }
  for (const [id, row] of after.rows) { const old = before.rows.get(id); if (!old) status.set(id, "added"); else if (old !== row && !same(old, row)) status.set(id, "changed"); }
  const order = new Map([...before.rows, ...rows]); // in the order of what was
  for (const id of order.keys()) if (!rows.has(id)) order.delete(id); else order.set(id, rows.get(id));
  return { rows: order, results: after.results, status };
}
window.moveTo_ = function (index, quiet) {
  now = Math.max(0, Math.min(MOMENTS.length, index));
  const { rows, results, status } = comparison(now), view = app.view, chosen = app.chosen;
  view.model = new Model(rows, results, DATA.graphs[0].params, status);
  const changed = [...status.keys()].filter(id => view.model.isDrawn(view.model.nodes.get(id)));
  const central = changed.filter(id => status.get(id) !== "changed"), shown = central.length ? central : changed;
  if (changed.length && shown.length <= 80) for (const id of shown) for (const each of view.model.pathTo(id)) view.open.add(each.key);
  view.relayout();
  app.chosen = null; view.selected = null;
  if (chosen && chosen.id !== undefined && view.model.nodes.has(chosen.id)) { app.chosen = view.selected = view.model.nodes.get(chosen.id); }
  if (!quiet) { const boxes = shown.slice(0, 400).map(id => view.boxOf(id)).filter(Boolean); if (boxes.length) view.fitTo(boxes, 1); }
  find($("search").value, true);
  if (app.chosen) details(); else $("details").innerHTML = now ? detailsOfMoment() : detailsOfGraph(view, view.graph) + overview();
  said(); paintTrack();
};
function moveBy(step) { let to = now + step; while (to > 0 && to < MOMENTS.length && MOMENTS[to - 1].kind === "between") to += step; moveTo_(to); }
function movePass(step) {
  const ends = MOMENTS.map((m, i) => m.kind === "pass" ? i + 1 : 0).filter(Boolean);
  if (step > 0) moveTo_(ends.find(i => i > now) ?? MOMENTS.length); else moveTo_([0, ...ends].filter(i => i < now).pop() ?? 0);
}
function play() {
  clearInterval(playing);
  if (playing) { playing = 0; said(); return; }
  if (now >= MOMENTS.length) now = 0;
  playing = setInterval(() => { if (now >= MOMENTS.length) { clearInterval(playing); playing = 0; said(); } else moveBy(1); }, 900);
  said();
}
// ---------------------------------------------------------------------------------------------- words
function ms(x) { return x >= 100 ? `${Math.round(x)} ms` : x >= 1 ? `${x.toFixed(1)} ms` : `${(x * 1000).toFixed(0)} µs`; }
function momentTitle(index) { const m = MOMENTS[index - 1], turn = TURNS[m.turn]; return m.kind === "firing" ? m.rule : m.kind === "between" ? `before ${turn.title}` : turn.title; }
function said() {
  const host = $("moment");
  if (!now) host.innerHTML = `<b>As it was</b><span class="dim">${plural(TURNS.filter(t => t.changed).length, "pass").replace("passs", "passes")} that changed it, ${plural(MOMENTS.filter(m => m.kind === "firing").length, "firing")}, ${ms(TURNS.reduce((sum, t) => sum + t.ms, 0))}</span>`;
  else {
    const m = MOMENTS[now - 1], turn = TURNS[m.turn], rule = m.kind === "firing" ? DATA.rules[m.rule] : null;
    host.innerHTML = `<b>${esc(momentTitle(now))} ${rule && rule.own ? '<span class="chip changed">yours</span>' : ""}</b><span class="dim">${m.kind === "firing" ? `${ms(m.ms)}, in ${esc(turn.title)}` : `${ms(turn.ms)}, ${turn.before} to ${plural(turn.after, "operator")}`} · ${now} of ${MOMENTS.length}</span>`;
  }
  $("play").textContent = playing ? "❚❚" : "▶";
}
function detailsOfMoment() {
  const m = MOMENTS[now - 1], turn = TURNS[m.turn], model = app.view.model, counts = { added: [], removed: [], changed: [] };
  for (const [id, status] of model.status) counts[status].push(id);
  let html = `<h2>${esc(momentTitle(now))}</h2>`;
  if (m.kind === "firing") {
    const rule = DATA.rules[m.rule];
    html += `<div>${rule.own ? '<span class="chip changed">your rule</span>' : ""}<span class="chip">${rule.exact ? "keeps every bit" : "true of real numbers"}</span><span class="chip">${ms(m.ms)}</span></div>${rule.doc ? `<pre class="code">${esc(rule.doc)}</pre>` : ""}`;
    if (!m.seen) html += `<p class="dim">It replaced something that an earlier firing of this pass had made and that no longer stands by itself; the pass shows what came of it.</p>`;
    const root = model.nodes.get(m.root);
    if (root && root.source) html += `<h3>Your source</h3><pre class="code">${esc(root.source)}</pre>`;
  } else html += `<div><span class="chip">${ms(turn.ms)}</span><span class="chip">${turn.before} to ${plural(turn.after, "operator")}</span><span class="chip">${plural(turn.firings, "firing")}</span></div><pre class="code">${esc(turn.name)}</pre>`;
  for (const [status, title] of [["removed", "Removed"], ["added", "Made"], ["changed", "Over other operands"]]) {
    const ids = counts[status].filter(id => model.nodes.get(id).op !== CONSTANT || status !== "changed");
    if (ids.length) html += `<h3>${title} <span class="chip ${status}">${ids.length}</span></h3><div class="list">${ids.slice(0, 40).map(id => itemOf(model, id)).join("")}${ids.length > 40 ? `<span class="dim">and ${ids.length - 40} more</span>` : ""}</div>`;
  }
  if (m.kind === "pass") html += firedIn(m.turn);
  return html;
}
function firedIn(turn) {
  const rules = new Map();
  MOMENTS.forEach((m, i) => { if (m.kind === "firing" && (turn === undefined || m.turn === turn)) { const found = rules.get(m.rule) || { n: 0, ms: 0, first: i + 1 }; found.n++; found.ms += m.ms; rules.set(m.rule, found); } });
  if (!rules.size) return "";
  return `<h3>Rules that fired</h3><div class="list">${[...rules].sort((a, b) => b[1].n - a[1].n).map(([rule, r]) => `<button class="item" data-moment="${r.first}" title="${esc(DATA.rules[rule].doc)}"><span class="what">${esc(rule)}${DATA.rules[rule].own ? ' <span class="chip changed">yours</span>' : ""}</span><span class="type">${r.n} × · ${ms(r.ms)}</span></button>`).join("")}</div>`;
}
function missItem(miss, model) { return `<button class="item tall" data-moment-of="${miss.moment}" data-go="${miss.id}"><span class="what">${esc(miss.rule)}</span><span class="type">${miss.matched ? "declined" : Math.round(miss.near * 100) + "% matched"}</span><span class="dim below">${esc(miss.path + (miss.path ? ": " : "") + miss.reason)}</span></button>`; }
function storyOfNode(node) { // near misses at a value, and the moments that touched it
  const misses = (DATA.misses || []).filter(m => m.id === node.id), touched = [];
  MOMENTS.forEach((m, i) => { if (m.kind !== "pass" && (m.remove.includes(node.id) || m.add.some(r => r[0] === node.id) || m.root === node.id)) touched.push(i + 1); });
  let html = "";
  if (touched.length) html += `<h3>In the history</h3><div class="list">${touched.slice(0, 20).map(i => `<button class="item" data-moment="${i}"><span class="what">${esc(momentTitle(i))}</span><span class="type">${i}</span></button>`).join("")}</div>`;
  if (misses.length) html += `<h3>Why rules did not fire here</h3><div class="list">${misses.map(m => missItem(m)).join("")}</div>`;
  return html;
}
function overview() {
  const misses = DATA.misses || [], own = misses.filter(m => DATA.rules[m.rule] && DATA.rules[m.rule].own), first = own.length ? own : misses;
  let html = `<h3>Passes</h3><div class="list">${TURNS.map((t, i) => { const at = MOMENTS.findIndex(m => m.turn === i && m.kind === "pass") + 1; return t.changed ? `<button class="item" data-moment="${at}"><span class="what">${esc(t.title)}</span><span class="type">${t.before} → ${t.after} · ${ms(t.ms)}</span></button>` : `<div class="item dim"><span class="what">${esc(t.title)}</span><span class="type dim">nothing · ${ms(t.ms)}</span></div>`; }).join("")}</div>`;
  html += firedIn();
  if (first.length) html += `<h3>Near misses${own.length ? " of your rules" : ""}, after optimization</h3><div class="list">${first.slice(0, 60).map(m => missItem(m)).join("")}${first.length > 60 ? `<span class="dim">and ${first.length - 60} more: choose an operator</span>` : ""}</div>`;
  return html;
}
// ---------------------------------------------------------------------------------------------- the track
window.paintTrack = function () {
  const canvas = $("track-canvas");
  if (!canvas || !MOMENTS.length) return;
  const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1, ctx = canvas.getContext("2d"), css = getComputedStyle(document.documentElement), v = name => css.getPropertyValue("--" + name).trim();
  canvas.width = box.width * ratio; canvas.height = box.height * ratio; ctx.scale(ratio, ratio);
  const w = box.width, n = MOMENTS.length, x = i => 6 + (w - 12) * i / n, most = Math.sqrt(Math.max(...MOMENTS.map(m => m.ms || 0), .001));
  let last = -1;
  MOMENTS.forEach((m, i) => {
    if (m.turn !== last) {
      last = m.turn; let end = i; while (end < n && MOMENTS[end].turn === last) end++;
      const left = x(i), right = x(end) - 1; ctx.fillStyle = v("soft"); ctx.beginPath(); ctx.roundRect(left, 2, Math.max(1, right - left), 27, 4); ctx.fill();
      const label = TURNS[last].title;
      ctx.font = '11px system-ui, sans-serif'; ctx.fillStyle = v("dim"); ctx.textBaseline = "top";
      const fits = right - left < 30 ? "" : fitted(label, '11px system-ui, sans-serif', right - left - 2); if (fits.length > 3) ctx.fillText(fits, left + 1, 37);
    }
  });
  const wide = Math.max(1, Math.min(7, (w - 12) / n - 1));
  MOMENTS.forEach((m, i) => {
    const height = 3 + 22 * Math.sqrt(m.ms || 0) / most, own = m.kind === "firing" && DATA.rules[m.rule].own;
    ctx.fillStyle = m.kind === "firing" ? (own ? v("accent-3") : v("accent")) : v("accent-2"); ctx.globalAlpha = i < now ? .95 : .38;
    ctx.fillRect(x(i + .5) - wide / 2, 28 - height, wide, height);
  });
  ctx.globalAlpha = 1; ctx.fillStyle = v("ink"); ctx.beginPath(); ctx.roundRect(x(now) - 1.5, 0, 3, 31, 2); ctx.fill(); ctx.beginPath(); ctx.arc(x(now), 31, 4.5, 0, 7); ctx.fill();
};
function beginHistory() {
  const host = $("timeline"); host.hidden = false;
  host.innerHTML = `<div class="play"><button id="back" title="One back ([)" aria-label="One back">◀</button><button id="play" title="Play (space)" aria-label="Play">▶</button><button id="on" title="One on (])" aria-label="One on">▶︎|</button></div><div id="moment"></div><div id="track" role="slider" tabindex="0" aria-label="Passes and firings" aria-valuemin="0" aria-valuemax="${MOMENTS.length}"><canvas id="track-canvas"></canvas></div>`;
  $("on").textContent = "▸▏"; $("back").textContent = "▏◂";
  $("back").onclick = () => moveBy(-1); $("on").onclick = () => moveBy(1); $("play").onclick = play;
  const track = $("track"), seek = event => { const box = track.getBoundingClientRect(); const i = Math.round((event.clientX - box.left - 6) / (box.width - 12) * MOMENTS.length); if (i !== now) moveTo_(i); };
  let held = false;
  track.addEventListener("pointerdown", event => { held = true; track.setPointerCapture(event.pointerId); seek(event); });
  track.addEventListener("pointermove", event => { if (held) seek(event); else { const box = track.getBoundingClientRect(), i = Math.max(1, Math.min(MOMENTS.length, Math.ceil((event.clientX - box.left - 6) / (box.width - 12) * MOMENTS.length))); track.title = MOMENTS.length ? `${i}: ${momentTitle(i)} ${ms(MOMENTS[i - 1].ms || 0)}` : ""; } });
  track.addEventListener("pointerup", () => { held = false; });
  new ResizeObserver(() => paintTrack()).observe(track);
  said(); paintTrack();
}
