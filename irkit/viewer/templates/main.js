"use strict";
// What joins the parts: the state of the page, its keys, and what is asked of it.
const app = { view: null, views: [], chosen: null, hits: [], hit: -1, tab: "graph" };
const on = {
  focus(view) { if (app.view !== view) { app.view = view; refresh(); } },
  select(view, thing) { app.view = view; choose(thing); },
};
function graphOf(view) { return view.graph; }
function choose(thing, quiet) {
  app.chosen = thing && thing.op === "result" ? app.view.model.nodes.get(thing.inputs[0]) : thing;
  for (const view of app.views) view.selected = view === app.view ? app.chosen : partner(view, app.chosen);
  details(); outlined();
  if (app.tab === "text" && !quiet) seeLine();
  for (const view of app.views) { if (view !== app.view && view.selected && view.selected.id !== undefined) view.reveal(view.selected.id); view.paint(); }
}
function partner(view, thing) { return thing && thing.id !== undefined && DATA.kind === "difference" ? view.model.nodes.get(view.partners.get(thing.id)) || null : null; }
function details() {
  const { view, chosen } = app, host = $("details");
  host.innerHTML = !chosen ? (DATA.kind === "difference" ? detailsOfDifference() : DATA.kind === "history" ? (now ? detailsOfMoment() : detailsOfGraph(view, view.graph) + overview()) : detailsOfGraph(view, view.graph)) : chosen.children ? detailsOfGroup(view, chosen) : detailsOfNode(view, chosen) + (DATA.kind === "history" ? storyOfNode(chosen) : "");
  host.scrollTop = 0;
}
function outlined() {
  const { view } = app;
  outline.set(app.hits.length ? app.hits.map(id => ({ thing: view.model.nodes.get(id), depth: 0 })) : outlineRows(view));
  const at = outline.rows.findIndex(row => row.thing === app.chosen);
  if (at >= 0) outline.see(at);
}
function refresh() { find($("search").value, true); details(); lined(); }
function go(id) {
  const node = app.view.model.nodes.get(id);
  if (!node) return;
  if (app.view.model.isDrawn(node)) app.view.reveal(id); else { const user = app.view.model.usersOf(id)[0]; if (user !== undefined) app.view.reveal(node.op === ITEM ? app.view.model.source(id) : user); }
  choose(node);
}
function find(text, quiet) {
  for (const view of app.views) { const found = search(view.model, text); countHits(view.model, found); view.matches = found && new Set(found); if (view === app.view) { app.hits = found || []; app.hit = -1; } view.paint(); }
  $("hits").textContent = app.view.matches ? plural(app.hits.length, "hit") : "";
  if (!quiet) outline.host.scrollTop = 0;
  outlined(); lined();
}
function nextHit(step) {
  if (!app.hits.length) return;
  app.hit = (app.hit + step + app.hits.length) % app.hits.length;
  $("hits").textContent = `${app.hit + 1} of ${app.hits.length}`;
  go(app.hits[app.hit]);
}
// ---------------------------------------------------------------------------------------------- text
const outline = new Rows($("outline"), 22, outlineRow, row => {
  if (row.thing.children) { choose(row.thing, true); app.view.toggle(row.thing); outlined(); app.view.fitTo([app.view.boxes.get(row.thing)].filter(Boolean)); }
  else go(row.thing.op === "result" ? row.thing.inputs[0] : row.thing.id);
});
const lines = new Rows($("lines"), 20, (row, i) => {
  const node = row.node, model = app.view.model, status = model.status.get(node.id) || "", hit = app.view.matches && app.view.matches.has(node.id) ? " hit" : "";
  return `<div class="row ${status}${hit}${node === app.chosen ? " on" : ""}"><span class="no">${i + 1}</span><span class="ir">${"  ".repeat(row.depth)}${lineOf(model, node)}</span></div>`;
}, row => choose(row.node, true));
function lined() {
  if (app.tab !== "text") return;
  const { model } = app.view, rows = [], depth = new Map();
  const deep = number => { if (number < 0) return 0; let found = depth.get(number); if (found === undefined) { const owner = model.nodes.get(DATA.bodies[number].owner); depth.set(number, found = 1 + (owner ? deep(owner.body) : 0)); } return found; };
  for (const id of model.order) { const node = model.nodes.get(id); rows.push({ node, depth: deep(node.body) }); }
  lines.set(rows);
}
function seeLine() { const at = lines.rows.findIndex(row => row.node === app.chosen); if (at >= 0) lines.see(at); }
function tab(name) {
  app.tab = name; $("panes").style.display = name === "graph" ? "" : "none"; $("lines").hidden = name === "graph";
  $("tab-graph").setAttribute("aria-selected", name === "graph"); $("tab-text").setAttribute("aria-selected", name === "text");
  if (name === "text") { lined(); seeLine(); } else for (const view of app.views) view.resize();
}
// ---------------------------------------------------------------------------------------------- theme and keys
function theme(name, keep) {
  document.documentElement.dataset.theme = name;
  if (keep) try { localStorage.setItem("irkit.theme", name); } catch { /* a page from a file may keep nothing */ }
  for (const view of app.views) view.paint();
  if (app.view) { details(); outlined(); }
  if (window.paintTrack) paintTrack();
}
function firstTheme() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme"); let kept = null;
  try { kept = localStorage.getItem("irkit.theme"); } catch { /* none */ }
  return asked || kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
const KEYS = [["/", "search; Enter and Shift Enter go from hit to hit"], ["op:MatMul", "in the search: also name: module: type: line: rule:"], ["↑ ↓", "to the operand, to the user"], ["← →", "to its neighbours: operands of one user"], ["Enter", "fold or unfold"], ["e c f", "unfold all, fold all, fit"], ["+ −", "closer, further"], ["t", "graph or text"], ["[ ]", "one firing back, one on"], ["{ }", "one pass back, one on"], ["Space", "play"], ["d", "light or dark"], ["Esc", "choose nothing"]];
$("keys").innerHTML = `<h2>Keys</h2><table>${KEYS.map(([k, what]) => `<tr><td>${k.split(" ").map(x => `<kbd>${esc(x)}</kbd>`).join(" ")}</td><td>${what}</td></tr>`).join("")}</table><form method="dialog" style="text-align:right"><button>Close</button></form>`;
function step(direction) {
  const { view, chosen } = app, { model } = view;
  if (!chosen || chosen.children) { const first = chosen ? membersOf(chosen)[0] : model.order.find(id => model.isDrawn(model.nodes.get(id))); if (first !== undefined) go(first); return; }
  const drawn = ids => [...new Set(ids.map(id => model.nodes.get(id)).flatMap(n => n && n.op === ITEM ? (direction === "down" ? model.usersOf(n.id) : [model.source(n.id)]) : n ? [n.id] : []))].filter(id => id >= 0 && model.isDrawn(model.nodes.get(id)));
  const ops = drawn(chosen.inputs.filter(id => id >= 0)), users = drawn(model.usersOf(chosen.id));
  if (direction === "up" && ops.length) go(ops[0]);
  if (direction === "down" && users.length) go(users[0]);
  if (direction === "left" || direction === "right") {
    const user = users[0] !== undefined ? model.nodes.get(users[0]) : null, beside = user ? drawn(user.inputs.filter(id => id >= 0)) : ops.length ? drawn(model.usersOf(ops[0])) : [];
    const at = beside.indexOf(chosen.id);
    if (beside.length > 1) go(beside[(at + (direction === "right" ? 1 : beside.length - 1)) % beside.length]);
  }
}
document.addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT") {
    if (event.key === "Enter") { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { event.target.value = ""; find(""); event.target.blur(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (event.target.id === "track" && /^Arrow|^Home$|^End$/.test(event.key)) { // a slider moves by arrows
    event.preventDefault();
    if (event.key === "Home" || event.key === "End") moveTo_(event.key === "Home" ? 0 : MOMENTS.length); else moveBy(/Left|Down/.test(event.key) ? -1 : 1);
    return;
  }
  const view = app.view, act = {
    "/": () => $("search").focus(), ArrowUp: () => step("up"), ArrowDown: () => step("down"), ArrowLeft: () => step("left"), ArrowRight: () => step("right"),
    Enter: () => { if (app.chosen && app.chosen.children) { view.toggle(app.chosen); outlined(); } else if (app.hits.length) nextHit(1); },
    e: () => { view.unfoldAll(); outlined(); }, c: () => { view.foldAll(); outlined(); }, f: () => view.fit(), "+": () => view.zoom(1.25), "=": () => view.zoom(1.25), "-": () => view.zoom(.8),
    t: () => tab(app.tab === "graph" ? "text" : "graph"), d: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true), "?": () => $("keys").showModal(),
    Escape: () => choose(null), "[": () => window.moveTo_ && moveBy(-1), "]": () => window.moveTo_ && moveBy(1), "{": () => window.moveTo_ && movePass(-1), "}": () => window.moveTo_ && movePass(1), " ": () => window.moveTo_ && play(), n: () => nextHit(1), N: () => nextHit(-1),
  }[event.key];
  if (!act || (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " "))) return;
  event.preventDefault(); act();
});
document.addEventListener("click", event => {
  const to = event.target.closest("[data-go],[data-search],[data-moment]");
  if (!to) return;
  if (to.dataset.momentOf !== undefined && now !== +to.dataset.momentOf + 1) moveTo_(+to.dataset.momentOf + 1, true);
  if (to.dataset.side !== undefined) app.view = app.views[+to.dataset.side];
  if (to.dataset.go !== undefined) go(+to.dataset.go);
  else if (to.dataset.moment !== undefined) moveTo_(+to.dataset.moment);
  else { $("search").value = to.dataset.search; find(to.dataset.search); }
});
$("search").addEventListener("input", event => find(event.target.value));
$("fold").onclick = () => { app.view.foldAll(); outlined(); }; $("unfold").onclick = () => { app.view.unfoldAll(); outlined(); }; $("fit").onclick = () => app.view.fit();
$("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true); $("help").onclick = () => $("keys").showModal();
$("tab-graph").onclick = () => tab("graph"); $("tab-text").onclick = () => tab("text");
// ---------------------------------------------------------------------------------------------- the beginning
function rowsById(graph) { return new Map(graph.rows.map(row => [row[0], row])); }
function pane(caption) { const made = document.createElement("div"); made.className = "pane"; $("panes").append(made); const view = new GraphView(made, caption, on); app.views.push(view); return view; }
function begin() {
  theme(firstTheme());
  $("subtitle").textContent = $("title").parentElement.title = DATA.subtitle || "";
  if (DATA.kind === "difference") beginDifference();
  else {
    app.view = pane(""); app.view.graph = DATA.graphs[0];
    app.view.show(new Model(rowsById(DATA.graphs[0]), DATA.graphs[0].results, DATA.graphs[0].params));
    if (DATA.kind === "history") beginHistory();
  }
  refresh();
  const wanted = new URLSearchParams(location.hash.slice(1)); // page.html#search=op:MatMul&select=%17
  if (wanted.get("open")) { app.view.unfoldAll(); outlined(); }
  if (wanted.get("tab")) tab(wanted.get("tab"));
  if (wanted.get("search")) { $("search").value = wanted.get("search"); find($("search").value); }
  if (wanted.get("moment") && window.moveTo_) moveTo_(+wanted.get("moment"));
  if (wanted.get("select")) for (const node of app.view.model.nodes.values()) if (node.name === wanted.get("select")) { go(node.id); break; }
  document.documentElement.dataset.ready = Math.round(performance.now());
}
