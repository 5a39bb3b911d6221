"use strict";
// The outline, the text, the details of what is chosen, and search.
const $ = id => document.getElementById(id);

class Rows { // a list of which only the rows in sight exist
  constructor(host, height, make, click) {
    this.host = host; this.height = height; this.make = make; this.rows = []; this.inner = document.createElement("div"); this.inner.className = "virtual";
    host.replaceChildren(this.inner);
    host.addEventListener("scroll", () => this.paint()); new ResizeObserver(() => this.paint()).observe(host);
    this.inner.addEventListener("click", event => { const row = event.target.closest(".row"); if (row) click(this.rows[+row.dataset.i], event); });
  }
  set(rows) { this.rows = rows; this.inner.style.height = rows.length * this.height + "px"; this.paint(true); }
  paint(force) {
    const from = Math.max(0, Math.floor(this.host.scrollTop / this.height) - 6), to = Math.min(this.rows.length, from + Math.ceil(this.host.clientHeight / this.height) + 12);
    if (!force && from === this.from && to === this.to) return;
    this.from = from; this.to = to; let html = "";
    for (let i = from; i < to; i++) html += this.make(this.rows[i], i).replace('class="row', `data-i="${i}" style="top:${i * this.height}px" class="row`);
    this.inner.innerHTML = html;
  }
  see(i) { const top = i * this.height, host = this.host; if (top < host.scrollTop + 30 || top > host.scrollTop + host.clientHeight - 50) host.scrollTop = top - host.clientHeight / 2; this.paint(true); }
}

function badge(at) { return at.hits ? `<span class="badge">${at.hits}</span>` : at.changed ? `<span class="badge">${at.changed}</span>` : ""; }
function outlineRow(row) {
  const pad = 10 + row.depth * 14, on = row.thing === app.chosen ? " on" : "";
  if (row.thing.children) {
    const at = row.thing;
    return `<div class="row${on}" role="treeitem" style="" title="${esc(at.key)}"><span style="width:${pad - 10}px;flex:none"></span><span class="twist">${app.view.open.has(at.key) ? "▼" : "▶"}</span>${at.node !== undefined ? dot(app.view.model.nodes.get(at.node).op) : ""}<span class="label">${esc(at.label)}</span>${badge(at)}<span class="count">${at.size}</span></div>`;
  }
  const node = row.thing, status = app.view.model.status.get(node.id);
  return `<div class="row${on} ${status || ""}" role="treeitem" title="${esc(node.name + " " + node.type)}"><span style="width:${pad - 10}px;flex:none"></span><span class="twist"></span>${dot(node.op)}<span class="label">${esc(node.op === PARAM || node.op === "result" ? labelOf(node) : titleOf(node))}</span><span class="count mono">${esc(node.op === PARAM || node.op === "result" ? node.type : node.name)}</span></div>`;
}
function dot(op) { return `<span class="dot" style="background:${colorOf(op, document.documentElement.dataset.theme === "dark")}"></span>`; }
function outlineRows(view) {
  const rows = [];
  const walk = (at, depth) => { for (const each of at.children) {
    if (each.children) { rows.push({ thing: each, depth }); if (view.open.has(each.key)) walk(each, depth + 1); } else rows.push({ thing: each.node, depth });
  } };
  walk(view.model.root, 0);
  return rows;
}
// ---------------------------------------------------------------------------------------------- search
function searchText(model, node) {
  return node.words || (node.words = `${node.op} ${node.name} ${node.type} ${node.module} ${node.source} ${node.fx} ${node.rules.join(" ")} ${node.attributes.flat().join(" ")} ${node.inputs.map(i => { const n = model.nodes.get(i); return n && n.constant >= 0 ? DATA.contents[n.constant].name : ""; }).join(" ")}`.toLowerCase());
}
const FIELDS = { op: n => n.op, name: n => n.name + " " + n.fx, module: n => n.module, type: n => n.type, line: n => n.source, rule: n => n.rules.join(" ") };
function search(model, text) { // the nodes that hold every word; `op:MatMul` asks one part only
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const tests = words.map(word => {
    const [, field, rest] = /^(op|name|module|type|line|rule):(.*)$/.exec(word) || [];
    if (!field) return node => searchText(model, node).includes(word);
    return node => { const found = FIELDS[field](node).toLowerCase(); return field === "op" ? found === rest || found.endsWith("::" + rest) || found.startsWith(rest) && !DATA.lowered.has(rest) : found.includes(rest); };
  });
  return model.order.filter(id => { const node = model.nodes.get(id); return node.op !== ITEM && node.op !== CONSTANT && tests.every(test => test(node)); });
}
DATA.lowered = new Set(Object.keys(DATA.families).map(op => op.toLowerCase()));
function countHits(model, matches) {
  for (const at of model.groups.values()) at.hits = 0;
  if (matches) for (const id of matches) { let at = model.home.get(id); for (; at; at = at.parent) at.hits = (at.hits || 0) + 1; }
}
// ---------------------------------------------------------------------------------------------- details
function itemOf(model, id, note) {
  const node = model.nodes.get(id);
  if (!node) return `<div class="item"><span class="what dim">_</span></div>`;
  const content = node.constant >= 0 ? DATA.contents[node.constant] : null;
  const what = node.op === CONSTANT ? (content && content.name) || (content ? firstOf(content) : node.name) : node.op === PARAM ? labelOf(node) : `${titleOf(node)} ${node.name}`;
  return `<button class="item" data-go="${id}" title="${esc(what + " " + node.type)}">${dot(node.op)}<span class="what">${esc(what)}</span><span class="type">${esc(node.type)}</span></button>`;
}
function detailsOfNode(view, node) {
  const { model } = view, status = model.status.get(node.id), users = model.usersOf(node.id);
  let html = `<h2>${dot(node.op)}${esc(node.op === PARAM ? labelOf(node) : node.op)}${status ? `<span class="chip ${status}">${status}</span>` : ""}</h2><div class="type">${esc(node.type)}</div>`;
  html += `<pre class="code">${lineOf(model, node)}</pre>`;
  if (node.rules.length) html += `<h3>Rewritten by</h3>${node.rules.map(r => `<button class="chip" data-search="rule:${esc(r)}">${esc(r)}</button>`).join("")}`;
  if (node.source) { const [place, ...code] = node.source.split(" "); html += `<h3>Your source</h3><button class="chip" data-search="line:${esc(place)}">${esc(place)}</button><pre class="code">${esc(code.join(" ")) || "…"}</pre>`; }
  if (node.module || node.fx) html += `<h3>Origin</h3><table>${node.module ? `<tr><td>module</td><td class="mono"><button class="chip" data-search="module:${esc(node.module)}">${esc(node.module)}</button></td></tr>` : ""}${node.fx ? `<tr><td>node</td><td class="mono">${esc(node.fx)}</td></tr>` : ""}</table>`;
  if (node.constant >= 0) html += contentOf(DATA.contents[node.constant]);
  if (node.attributes.length) html += `<h3>Attributes</h3><table>${node.attributes.map(([k, v]) => `<tr><td>${esc(k)}</td><td class="mono">${esc(v)}</td></tr>`).join("")}</table>`;
  if (node.inputs.length) html += `<h3>Operands</h3><div class="list">${node.inputs.map(id => itemOf(model, id)).join("")}</div>`;
  if (users.length) html += `<h3>Used by ${users.length > 1 ? users.length : ""}</h3><div class="list">${users.slice(0, 60).map(id => itemOf(model, id)).join("")}${users.length > 60 ? `<span class="dim">and ${users.length - 60} more</span>` : ""}</div>`;
  for (const input of node.inputs) { const operand = model.nodes.get(input); if (operand && operand.constant >= 0 && node.constant < 0) html += `<h3>${esc(DATA.contents[operand.constant].name || operand.name)}</h3>${contentOf(DATA.contents[operand.constant], true)}`; }
  return html;
}
function number(x) { return x === undefined ? "" : Math.abs(x) >= 1e5 || (x && Math.abs(x) < 1e-3) ? x.toExponential(3) : String(+x.toPrecision(5)); }
function contentOf(content, inside) {
  let html = inside ? "" : `<h3>Content</h3>`;
  html += `<div class="dim">${esc(content.dtype)}[${content.shape.join(", ")}] · ${plural(size(content.shape), "element")} · ${bytes(content.bytes)}</div>`;
  if (content.absent) return html + `<p class="dim">${esc(content.absent)}</p>`;
  if (content.bins && content.bins.length > 1) {
    const most = Math.max(...content.bins), n = content.bins.length;
    html += `<svg class="hist" viewBox="0 0 ${n * 10} 84" preserveAspectRatio="none" role="img" aria-label="histogram">${content.bins.map((c, i) => `<rect x="${i * 10 + 1}" y="${(78 - 70 * Math.sqrt(c / most)).toFixed(1)}" width="8" height="${(70 * Math.sqrt(c / most)).toFixed(1)}"><title>${c}</title></rect>`).join("")}</svg><div class="ends"><span>${number(content.low)}</span><span class="dim">√ of counts</span><span>${number(content.high)}</span></div>`;
  }
  if (content.mean !== undefined && content.looked_at > 1) html += `<table><tr><td>mean</td><td class="mono">${number(content.mean)}</td><td>deviation</td><td class="mono">${number(content.deviation)}</td></tr><tr><td>zeros</td><td class="mono">${content.zeros}</td><td>NaN, inf</td><td class="mono">${content.odd}</td></tr></table>`;
  if (content.looked_at !== undefined && content.looked_at < size(content.shape)) html += `<div class="dim">of ${plural(content.looked_at, "element")}, evenly spread</div>`;
  if (content.first && content.first.length) html += `<pre class="code">${esc(content.first.join(", "))}${size(content.shape) > content.first.length ? ", …" : ""}</pre>`;
  return html;
}
function meters(ops, most) {
  const all = [...ops].sort((a, b) => b[1] - a[1]), top = all.length ? all[0][1] : 1, dark = document.documentElement.dataset.theme === "dark";
  return `<div class="list">${all.slice(0, most || 24).map(([op, n]) => `<button class="item" data-search="op:${esc(op)}"><span class="meter"><span class="what">${esc(op)}</span><span class="bar" style="width:${Math.max(2, 90 * n / top)}px;background:${colorOf(op, dark)}"></span><span class="n">${n}</span></span></button>`).join("")}</div>`;
}
function weightsOf(model, ids) { const seen = new Set(); let total = 0; for (const id of ids) for (const input of model.nodes.get(id).inputs) { const n = model.nodes.get(input); if (n && n.constant >= 0 && !seen.has(n.constant)) { seen.add(n.constant); total += DATA.contents[n.constant].bytes; } } return total; }
function membersOf(at, found = []) { for (const each of at.children) { if (each.children) { if (each.node !== undefined) found.push(each.node); membersOf(each, found); } else if (each.result === undefined) found.push(each.id); } return found; }
function detailsOfGroup(view, at) {
  const { model } = view, ids = membersOf(at);
  let html = `<h2>${esc(at.label)}</h2><div class="dim mono">${esc(at.key.replace(/^\./, ""))}</div><p>${plural(at.size, "operator")}, ${bytes(weightsOf(model, ids))} of constants</p>`;
  if (at.node !== undefined) html += `<div class="list">${itemOf(model, at.node)}</div>`;
  const lines = new Map(); for (const id of ids) { const s = model.nodes.get(id).source; if (s) lines.set(s, (lines.get(s) || 0) + 1); }
  html += `<h3>Operators</h3>${meters(at.ops)}`;
  if (lines.size) html += `<h3>Your source</h3><div class="list">${[...lines].slice(0, 20).map(([s, n]) => `<button class="item" data-search="line:${esc(s.split(" ")[0])}" title="${esc(s)}"><span class="what">${esc(s)}</span><span class="type">${n}</span></button>`).join("")}</div>`;
  return html;
}
function detailsOfGraph(view, graph) {
  const { model } = view, ids = [...model.nodes.keys()];
  let html = `<h2>${esc(graph.name)}</h2><p class="dim">${plural(model.root.size, "operator")} · ${bytes(weightsOf(model, ids))} of constants</p>`;
  html += `<h3>Inputs</h3><div class="list">${graph.params.map(([id]) => model.nodes.has(id) ? itemOf(model, id) : "").join("")}</div>`;
  html += `<h3>Results</h3><div class="list">${model.results.map(([id, name]) => `<button class="item" data-go="${id}"><span class="what">${esc(name || "result")}</span><span class="type">${esc((model.nodes.get(id) || {}).type || "")}</span></button>`).join("")}</div>`;
  if (graph.symbols.length) html += `<h3>Sizes</h3><table>${graph.symbols.map(([n, r]) => `<tr><td class="mono">${esc(n)}</td><td class="mono">${esc(r)}</td></tr>`).join("")}</table>`;
  html += `<h3>Operators</h3>${meters(model.root.ops)}`;
  if (graph.facts.length) html += `<h3>Facts</h3>${graph.facts.map(([k, t, s]) => `<div><span class="chip">${esc(k)}</span><code>${esc(t)}</code>${s ? `<div class="dim">${esc(s)}</div>` : ""}</div>`).join("")}`;
  return html;
}
