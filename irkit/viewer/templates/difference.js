"use strict";
// Two graphs side by side: what corresponds has one number, so that choosing it in one chooses it in the other.
function beginDifference() {
  const ids = DATA.graphs.map(graph => new Set(graph.rows.map(row => row[0])));
  DATA.graphs.forEach((graph, side) => {
    const view = pane(graph.name), status = new Map();
    for (const row of graph.rows) if (!ids[1 - side].has(row[0])) status.set(row[0], side ? "added" : "removed"); else if (DATA.status[row[0]]) status.set(row[0], "changed");
    view.graph = graph; view.partners = new Map([...ids[side]].filter(id => ids[1 - side].has(id)).map(id => [id, id]));
    view.show(new Model(rowsById(graph), graph.results, graph.params, status));
    const changed = [...status.keys()].filter(id => view.model.isDrawn(view.model.nodes.get(id)));
    if (changed.length && changed.length <= 60) { for (const id of changed) for (const each of view.model.pathTo(id)) view.open.add(each.key); view.relayout(); view.fit(true); }
  });
  app.view = app.views[0];
  for (const view of app.views) { view.resize(); view.fit(true); }
}
function detailsOfDifference() {
  const { names, changes } = { names: DATA.graphs.map(g => g.name), changes: DATA.changes };
  let html = `<h2 style="display:block">${esc(names[0])} <span class="dim">and</span> ${esc(names[1])}</h2><p class="dim">${DATA.graphs.map(g => plural(g.operators, "operator")).join(", ")}</p>`;
  if (!changes.length) return html + "<p>They do not differ.</p>";
  const byName = [0, 1].map(side => new Map([...app.views[side].model.nodes.values()].map(n => [n.name, n.id])));
  for (const part of ["input", "result", "size", "operator", "weight"]) {
    const found = changes.filter(c => c.part === part);
    if (!found.length) continue;
    html += `<h3>${part}s <span class="chip">${found.length}</span></h3><div class="list">`;
    for (const c of found.slice(0, 80)) {
      const side = c.kind === "added" ? 1 : 0, id = byName[side].get(c.name);
      html += `<button class="item tall" ${id === undefined ? "" : `data-side="${side}" data-go="${id}"`}><span class="chip ${c.kind}">${c.kind}</span><span class="what">${esc(c.name)}</span>${c.before ? `<span class="dim mono below">− ${esc(c.before)}</span>` : ""}${c.after ? `<span class="mono below">+ ${esc(c.after)}</span>` : ""}</button>`;
    }
    html += `</div>${found.length > 80 ? `<span class="dim">and ${found.length - 80} more</span>` : ""}`;
  }
  return html;
}
