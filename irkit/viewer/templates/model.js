"use strict";
// The data of the page, and a graph made of its rows: nodes by id, who uses each, and the tree of modules and bodies.
const DATA = JSON.parse(document.getElementById("data").textContent);
const T = DATA.texts;
const CONSTANT = "Constant", PARAM = "Param", ITEM = "Item";
const MOST_PORTS = 7, BIG = 240, CHUNK = 80; // a module with more than BIG things directly in it is cut into parts of CHUNK

function nodeOf(row) {
  const [id, op, name, type, inputs, given, module, source, node, rules, body, constant] = row;
  const attributes = [];
  for (let i = 0; i < given.length; i += 2) attributes.push([T[given[i]], T[given[i + 1]]]);
  return { id, op: T[op], name: T[name], type: T[type], inputs, attributes, module: T[module], source: T[source],
    fx: T[node], rules: rules.map(r => T[r]), body, constant, row };
}
function titleOf(node) { return node.op.slice(node.op.lastIndexOf(":") + 1); }
function familyOf(op) { return DATA.families[op] || (op === PARAM ? "input" : op === "result" ? "result" : op.includes("::") ? "runtime" : "other"); }
const HUES = { elementwise: 214, activations: 12, casts: 262, creation: 195, movement: 168, indexing: 48, reduction: 322, linear_algebra: 230,
  convolution: 276, pooling: 300, normalization: 92, attention: 342, recurrent: 28, images: 120, signal: 145, text: 60, sequences: 180, control: 0,
  input: 150, result: 150, runtime: 345, other: 220 };
function colorOf(op, dark, light) {
  const family = familyOf(op), gray = ["other", "","movement", "casts", "creation"].includes(family);
  return `hsl(${HUES[family] ?? 220} ${gray ? 38 : 62}% ${light ?? (dark ? 64 : 47)}%)`;
}

class Model {
  // rows: Map from id to row; results: [[id, name, role]]; status: Map from id to "added" | "removed" | "changed"
  constructor(rows, results, params, status) {
    this.rows = rows; this.status = status || new Map(); this.results = results; this.params = params;
    this.nodes = new Map(); this.users = new Map(); this.order = [];
    for (const row of rows.values()) this.nodes.set(row[0], nodeOf(row));
    this.order = inOrder(this.nodes);
    for (const id of this.order) for (const input of new Set(this.nodes.get(id).inputs)) if (input >= 0) this.usersOf(input).push(id);
    this.portNames = new Map(results.map(([id, name]) => [id, name]));
    this.buildTree();
  }
  usersOf(id) { let found = this.users.get(id); if (!found) this.users.set(id, found = []); return found; }
  // The producer behind Items, for an operand; -1 for constants and what is left out.
  source(id) {
    let node = this.nodes.get(id);
    while (node && node.op === ITEM) { id = node.inputs[0]; node = this.nodes.get(id); }
    return !node || node.op === CONSTANT ? -1 : id;
  }
  isDrawn(node) { return node.op !== CONSTANT && node.op !== ITEM; }
  buildTree() {
    const root = this.root = group("", "", null);
    this.groups = new Map([["", root]]); this.home = new Map();
    const child = (parent, key, label) => {
      let found = this.groups.get(key);
      if (!found) { found = group(key, label, parent); this.groups.set(key, found); parent.children.push(found); }
      return found;
    };
    const owned = new Map(); // owner -> its group
    const bodyGroup = number => {
      const body = DATA.bodies[number], owner = this.nodes.get(body.owner);
      if (!owner) return root;
      let outer = owned.get(body.owner);
      if (!outer) { const at = groupOf(owner); outer = child(at, at.key + "/%" + owner.id, titleOf(owner)); outer.node = owner.id; owned.set(owner.id, outer); }
      return child(outer, outer.key + "/&" + number, body.word + (body.name && body.name !== "body" && body.name !== body.word + "_branch" ? " " + body.name : ""));
    };
    const groupOf = node => {
      let at = node.body >= 0 ? bodyGroup(node.body) : root;
      const owner = node.body >= 0 ? this.nodes.get(DATA.bodies[node.body].owner) : null;
      let path = node.module;
      if (owner && owner.module && (path === owner.module || path.startsWith(owner.module + "."))) path = path.slice(owner.module.length + 1);
      if (path) for (const part of path.split(".")) at = child(at, at.key + "." + part, part);
      return at;
    };
    const holders = new Set([...this.nodes.values()].filter(n => n.body >= 0).map(n => DATA.bodies[n.body].owner));
    for (const id of this.order) {
      const node = this.nodes.get(id);
      if (!this.isDrawn(node)) continue;
      const at = groupOf(node);
      if (holders.has(id)) {
        let outer = owned.get(id);
        if (!outer) { outer = child(at, at.key + "/%" + id, titleOf(node)); outer.node = id; owned.set(id, outer); }
        this.home.set(id, outer);
      } else { at.children.push({ id, node }); this.home.set(id, at); }
    }
    this.outs = this.results.filter(([id]) => this.nodes.has(id)).map(([id, name], i) => {
      const node = { id: `out:${i}`, op: "result", name: name || "result", type: this.nodes.get(id).type, inputs: [id], attributes: [], rules: [], result: id };
      return { id: node.id, node, result: id };
    });
    this.outNodes = new Map(this.outs.map(each => [each.id, each.node]));
    for (const each of this.outs) { root.children.push(each); this.home.set(each.id, root); }
    this.gather(root, "inputs", each => !each.children && each.node.op === PARAM); this.gather(root, "results", each => each.result !== undefined);
    this.chunk(root); this.merge(root); this.count(root);
  }
  gather(root, word, are) { // many inputs, or results, as one thing that can be opened
    const ports = root.children.filter(are);
    if (ports.length <= MOST_PORTS) return;
    const made = group("/" + word, `${ports.length} ${word}`, root);
    made.ports = true; made.children = ports; this.groups.set(made.key, made);
    const at = root.children.indexOf(ports[0]);
    root.children = root.children.filter(each => !are(each)); root.children.splice(at, 0, made);
    for (const each of ports) this.home.set(each.id, made);
  }
  chunk(at) { // a long flat list in parts
    for (const each of at.children) if (each.children) this.chunk(each);
    const loose = at.children.filter(c => !c.children && c.node.op !== PARAM && c.result === undefined);
    if (loose.length <= BIG) return;
    const kept = at.children.filter(c => c.children || c.node.op === PARAM || c.result !== undefined), parts = [];
    for (let i = 0; i < loose.length; i += CHUNK) {
      const part = loose.slice(i, i + CHUNK), key = at.key + "#" + i / CHUNK;
      const made = group(key, `${titleOf(part[0].node)} … ${titleOf(part[part.length - 1].node)}`, at);
      made.children = part; made.part = true; this.groups.set(key, made); parts.push(made);
      for (const each of part) this.home.set(each.id, made);
    }
    at.children = [...kept.filter(c => c.result === undefined), ...parts, ...kept.filter(c => c.result !== undefined)];
  }
  merge(at) { // a module that holds one module only is one with it
    for (const each of at.children) if (each.children) this.merge(each);
    if (at.parent && at.node === undefined && at.children.length === 1 && at.children[0].children && at.children[0].node === undefined && !at.part && !at.ports) {
      const only = at.children[0];
      at.children = only.children; at.label = at.label + "." + only.label; at.part = only.part;
      for (const each of at.children) if (each.children) each.parent = at;
      for (const [id, home] of this.home) if (home === only) this.home.set(id, at);
      this.groups.set(only.key, at);
    }
  }
  count(at) {
    at.size = 0; at.ops = new Map(); at.changed = 0;
    for (const each of at.children) {
      if (each.children) {
        this.count(each); at.size += each.size + (each.node !== undefined ? 1 : 0); at.changed += each.changed;
        if (each.node !== undefined && this.status.has(each.node)) at.changed++;
        for (const [op, n] of each.ops) at.ops.set(op, (at.ops.get(op) || 0) + n);
      } else {
        if (each.result !== undefined) continue;
        if (this.status.has(each.id)) at.changed++;
        if (each.node.op === PARAM) continue;
        at.size++; at.ops.set(titleOf(each.node), (at.ops.get(titleOf(each.node)) || 0) + 1);
      }
    }
  }
  pathTo(id) { // the groups that must be open for a node to be seen, outermost first
    const found = []; let at = this.home.get(id);
    if (at && at.node === id) at = at.parent;
    for (; at && at.parent; at = at.parent) found.unshift(at);
    return found;
  }
}
function group(key, label, parent) { return { key, label, parent, children: [], size: 0 }; }

function inOrder(nodes) { // operands before users; what a body holds after its owner
  const order = [], seen = new Set();
  for (const start of nodes.keys()) {
    const stack = [[start, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1], node = nodes.get(top[0]);
      if (top[1] === 0 && seen.has(top[0])) { stack.pop(); continue; }
      if (top[1] === 0) seen.add(top[0]);
      let next = -1;
      while (top[1] < node.inputs.length) { const input = node.inputs[top[1]++]; if (nodes.has(input) && !seen.has(input)) { next = input; break; } }
      if (next >= 0) stack.push([next, 0]); else if (top[1] >= node.inputs.length) { stack.pop(); order.push(node.id); if (!node.inputs.length) continue; }
    }
  }
  return [...new Set(order)];
}
function lineOf(model, node) { // the line of a value, as HTML
  const name = id => { const found = model.nodes.get(id); return found ? esc(found.name) : "_"; };
  const constant = node.constant >= 0 ? DATA.contents[node.constant] : null;
  const given = node.attributes.length ? ` {${node.attributes.map(([k, v]) => `${esc(k)} = <span class="v">${esc(v)}</span>`).join(", ")}}` : "";
  const origin = [node.source, node.module].filter(Boolean).join(" ") || (node.op === PARAM ? "" : node.fx);
  const rules = node.rules.length ? ` &lt;${esc(node.rules.join(", "))}&gt;` : "";
  const head = node.op === PARAM ? `<span class="k">input</span> ${esc(node.name)}: <span class="n1">${esc(node.type)}</span>`
    : `${esc(node.name)}: <span class="n1">${esc(node.type)}</span> = <span class="k">${esc(node.op)}</span>` + (constant ? ` ${esc(firstOf(constant))}` : `(${node.inputs.map(name).join(", ")})${given}`);
  return head + (origin || rules ? `  <span class="c"># ${esc(origin)}${rules}</span>` : "");
}
function firstOf(content) { return content.first ? (content.first.slice(0, 6).join(", ") + (size(content.shape) > 6 ? ", …" : "")) : content.absent ? "absent" : "…"; }
function size(shape) { return shape.reduce((a, b) => a * b, 1); }
function esc(text) { return String(text).replace(/[&<>"']/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]); }
function plural(n, word) { return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`; }
function bytes(n) { const units = ["B", "kB", "MB", "GB"]; let i = 0; while (n >= 1000 && i < 3) { n /= 1000; i++; } return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`; }
