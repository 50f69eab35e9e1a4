"use strict";
// The page only asks and draws: every answer is data, put into the page as text, never as markup.

const $ = (id) => document.getElementById(id);
const LETTERS = ["φ", "ψ", "φ*", "ψ*", "H", "H*", "M", "P", "D", "G", "K", "ℳ", "Λ", "Ω", "Υ", "π̄", "τ", "⁻¹", "*", "½"];
const EXAMPLES = [
  "H φ M φ* H* + Jr", "ℳ⁻¹ τ", "(I − H ψ K)* D⁻¹ (I − H ψ K)", "J ℳ⁻¹ J*", "logdet(ℳ)",
  "ψ K H φ = φ − ψ", "ℳ = (I + H φ K) D (I + H φ K)*",
];
let turn = 0; // answers to an older turn are dropped
let known = []; // identities

async function ask(kind, more = {}) {
  const asked = { kind, text: $("text").value, robot: $("robot").value, seed: Number($("seed").value) || 0 };
  const body = JSON.stringify({ ...asked, notation: $("notation").value, operators: $("operators").value, ...more });
  try {
    const answer = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!answer.ok) return { error: `The workbench answered "${answer.status} ${answer.statusText}". Is it still running?` };
    return await answer.json();
  } catch {
    return { error: "No answer from the workbench. Restart it:  phipsi workbench" };
  }
}

// ---- making parts of the page ----------------------------------------------------------------

function make(tag, text = "", kind = "") {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function typeset(latex, display = false, fallback = "") {
  const element = make("div", "", "typeset");
  try {
    katex.render(latex, element, { displayMode: display, throwOnError: true, trust: false, maxExpand: 1000, strict: "ignore" });
  } catch {
    element.replaceChildren(make("pre", fallback || latex));
  }
  return element;
}

function show(id, title, parts, note = "") {
  const card = $(id), heading = make("h2", title);
  if (note) heading.append(make("small", note));
  card.replaceChildren(heading, ...parts);
  card.hidden = false;
}

function wait(id, title) {
  show(id, title, [make("p", "computing …", "waiting")]);
}

function hide(...ids) {
  for (const id of ids) $(id).hidden = true;
}

function complain(answer) {
  $("error").querySelector("pre").textContent = answer.error;
  $("error").hidden = false;
}

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes, parts = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...parts);
  return element;
}

// ---- the cards ---------------------------------------------------------------------------------

function drawRead(answer) {
  const table = make("table");
  for (const one of answer.operators) {
    const row = make("tr"), symbol = make("td"), source = make("td", one.source, "source");
    symbol.append(typeset(one.latex, false, one.name));
    row.append(symbol, make("td", one.signature), make("td", one.meaning), source);
    table.append(row);
  }
  const more = make("details");
  more.append(make("summary", "Operators in this expression"), table);
  const facts = make("p", [answer.signature, answer.structure].filter(Boolean).join("  ·  "), "facts");
  $("read").replaceChildren(typeset(answer.latex, true, answer.text), facts, more);
  $("read").hidden = false;
}

function drawRecursion(answer) {
  if (answer.error) return show("recursion", "Recursion", [make("pre", answer.error)]);
  const parts = [];
  if (answer.rewrites.length) {
    const steps = make("ol");
    for (const step of answer.rewrites) {
      const item = make("li");
      item.append(make("span", step.name), make("span", step.source ? `   [${step.source}]` : "", "source"));
      item.append(typeset(`${step.before} \\;=\\; ${step.after}`));
      steps.append(item);
    }
    parts.push(make("h3", "Rewrites"), steps, make("h3", "Computed as"), ...answer.lowered.map((x) => typeset(x)));
  }
  parts.push(make("h3", "Schedule of sweeps"));
  const sweeps = make("ol");
  for (const sweep of answer.sweeps) {
    const item = make("li");
    const lines = `\\begin{aligned}${sweep.latex.join("\\\\")}\\end{aligned}`;
    item.append(make("span", sweep.heading), typeset(lines, false, sweep.equations.join("\n")));
    const meanings = make("ul", "", "source");
    sweep.meanings.forEach((meaning, i) => {
      if (meaning) meanings.append(make("li", `${sweep.equations[i].split(" = ")[0]}: ${meaning}`));
    });
    item.append(meanings);
    sweeps.append(item);
  }
  parts.push(sweeps, make("h3", "Levels of the operators"));
  for (const operator of answer.levels) {
    const folded = make("details"), head = make("summary");
    head.append(typeset(operator.latex, false, operator.text));
    folded.append(head);
    for (const [level, line] of operator.lines) folded.append(make("div", level ? `${level}: ${line}` : line));
    parts.push(folded);
  }
  show("recursion", "Recursion", parts, `${answer.order}, about ${answer.flops.toLocaleString("en")} flops for ${answer.bodies} bodies`);
}

function number(x) {
  return x === null ? "not finite" : x === 0 ? "0" : Math.abs(x) < 1e-4 || Math.abs(x) >= 1e5 ? x.toExponential(4) : x.toPrecision(6);
}

function drawValue(answer) {
  if (answer.error) return show("value", "Value", [make("pre", answer.error)]);
  const parts = [];
  if (answer.difference !== undefined) {
    const relative = answer.scale ? answer.difference / answer.scale : answer.difference;
    const words = `${relative < 1e-9 ? "agrees" : "differs"} with dense linear algebra: largest difference ${answer.difference.toExponential(1)} of ${number(answer.scale)}`;
    parts.push(make("p", words, relative < 1e-9 ? "good" : "wrong"));
  }
  if (answer.applied) parts.push(make("p", "The operator is applied to a random vector."));
  if (answer.numbers !== undefined) {
    const box = make("div", "", "numbers"), table = make("table");
    const rows = answer.shape.length === 0 ? [answer.numbers] : answer.numbers;
    rows.flat(answer.shape.length > 2 ? 1 : 0).forEach((row, i) => {
      const line = make("tr");
      if (answer.rows.length) line.append(make("th", answer.rows[i]));
      for (const x of Array.isArray(row) ? row : [row]) line.append(make("td", number(x)));
      table.append(line);
    });
    box.append(table);
    parts.push(box);
  }
  const size = [...answer.shape, "numbers"].join(" × ").replace(" × numbers", " numbers").replace(/^numbers$/, "one number");
  show("value", "Value", parts, `${size}, from ${answer.inputs.join(", ")} of a random state`);
}

function picture(one) {
  const m = one.rows.length, n = one.columns.length, side = Math.max(3, Math.min(24, 240 / Math.max(m, n)));
  const flat = one.cells.flat().filter((x) => x !== null), most = Math.max(...flat), least = Math.min(...flat);
  const svg = draw("svg", { width: n * side + 2, height: m * side + 2, role: "img", "aria-label": "blocks that differ from zero" });
  svg.append(draw("rect", { x: 0.5, y: 0.5, width: n * side + 1, height: m * side + 1, class: "frame" }));
  one.cells.forEach((row, i) => row.forEach((x, j) => {
    if (x === null) return;
    const strength = most > least ? 0.25 + 0.75 * (x - least) / (most - least) : 1;
    const title = draw("title", {});
    title.textContent = `${one.rows[i]}, ${one.columns[j]}: about 1e${Math.round(x)}`;
    svg.append(draw("rect", { x: 1 + j * side, y: 1 + i * side, width: side - 0.5, height: side - 0.5, class: "cell", "fill-opacity": strength.toFixed(2) }, [title]));
  }));
  const figure = make("figure"), caption = make("figcaption");
  caption.append(typeset(one.latex));
  figure.append(svg, caption);
  return figure;
}

function drawBlocks(answer) {
  if (answer.error) return show("blocks", "Blocks", [make("pre", answer.error)]);
  if (!answer.pictures.length) return hide("blocks");
  const box = make("div", "", "pictures");
  box.append(...answer.pictures.map(picture));
  show("blocks", "Blocks", [box], "one square per pair of bodies; darker is larger");
}

function drawCost(answer) {
  if (answer.error) return show("cost", "Cost", [make("pre", answer.error)]);
  const forms = answer.forms, all = forms.flatMap((form) => form.points);
  const width = 420, height = 200, left = 56, bottom = 26;
  const logs = (k) => all.map((p) => Math.log10(Math.max(p[k], 1)));
  const [x0, x1] = [Math.min(...logs(0)), Math.max(...logs(0))], [y0, y1] = [Math.floor(Math.min(...logs(1))), Math.ceil(Math.max(...logs(1)) + 0.01)];
  const px = (x) => left + (width - left - 12) * (Math.log10(x) - x0) / (x1 - x0 || 1);
  const py = (y) => height - bottom - (height - bottom - 10) * (Math.log10(Math.max(y, 1)) - y0) / (y1 - y0 || 1);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "time against the number of bodies" });
  for (let power = y0; power <= y1; power += 1) {
    const label = draw("text", { x: left - 8, y: py(10 ** power) + 4, "text-anchor": "end" });
    label.textContent = `1e${power}`;
    svg.append(draw("line", { x1: left, x2: width - 12, y1: py(10 ** power), y2: py(10 ** power), class: "frame" }), label);
  }
  for (const [n] of forms[0].points) {
    const label = draw("text", { x: px(n), y: height - 8, "text-anchor": "middle" });
    label.textContent = n;
    svg.append(label);
  }
  forms.forEach((form, i) => {
    svg.append(draw("polyline", { points: form.points.map(([n, y]) => `${px(n)},${py(y)}`).join(" "), class: i ? "curve other" : "curve" }));
  });
  const table = make("table");
  answer.plans.forEach((plan, i) => {
    const row = make("tr");
    row.append(make("th", i ? plan.name : `▸ ${plan.name}`), make("td", `${number(plan.nanoseconds)} ns`));
    row.append(make("td", `${plan.flops.toLocaleString("en")} flops, ${plan.words.toLocaleString("en")} numbers stored`, "source"));
    table.append(row);
  });
  show("cost", "Plans and their cost", [svg, make("h3", "On this robot"), table], "estimated ns of one configuration, on chains of N bodies");
}

function offerCode() {
  const button = make("button", "Show the generated code"), mine = turn;
  button.type = "button";
  button.id = "show-code";
  button.onclick = async () => {
    wait("code", "Generated code");
    const answer = await ask("code");
    if (mine !== turn) return;
    if (answer.error) return show("code", "Generated code", [make("pre", answer.error)]);
    show("code", "Generated code", [make("pre", answer.text)], `LLVM, ${answer.lines.toLocaleString("en")} lines, ${answer.lanes} lanes`);
  };
  show("code", "Generated code", [button]);
}

function drawVerdict(answer) {
  if (answer.error) return complain(answer);
  const word = answer.holds ? "proved" : answer.holds_if ? `false in general; true if ${answer.holds_if}` : "false";
  const parts = [make("p", word, answer.holds ? "good" : "wrong"), make("pre", answer.reason)];
  const here = { true: "it holds", false: "it fails", null: "it does not apply" }[String(answer.here)];
  parts.push(make("h3", "On this robot"), make("pre", `${here}: ${answer.reason_here}`));
  if (answer.counterexample) parts.push(make("h3", "Counterexample"), make("pre", answer.counterexample));
  show("verdict", "Proof", parts);
}

function drawDerivation(answer) {
  if (answer.error) return complain(answer);
  if (!answer.complete) return show("verdict", "Derivation", [make("p", "not found", "wrong"), make("pre", answer.reason)]);
  const table = make("table");
  const line = (latex, text, why) => {
    const row = make("tr"), cell = make("td");
    cell.append(typeset(latex, false, text));
    row.append(cell, make("td", why, "source"));
    table.append(row);
  };
  line(answer.start, "", "");
  for (const step of answer.steps) line(`= ${step.latex}`, step.text, step.why);
  const box = make("div", "", "typeset");
  box.append(table);
  show("verdict", "Derivation", [box], answer.condition && `if ${answer.condition}`);
}

// ---- the turns ---------------------------------------------------------------------------------

async function evaluate() {
  const mine = ++turn;
  remember();
  hide("error", "verdict", "recursion", "value", "blocks", "cost", "code");
  if (!$("text").value.trim()) return hide("read");
  const read = await ask("read");
  if (mine !== turn) return;
  if (read.error) {
    hide("read");
    return complain(read);
  }
  drawRead(read);
  $("prove").disabled = $("derive").disabled = !read.claim;
  $("differentiate").disabled = read.claim;
  if (read.claim) return prove();
  for (const [kind, title, drawn] of [
    ["recursion", "Recursion", drawRecursion], ["value", "Value", drawValue], ["blocks", "Blocks", drawBlocks], ["cost", "Plans and their cost", drawCost],
  ]) {
    wait(kind, title);
    const answer = await ask(kind);
    if (mine !== turn) return;
    drawn(answer);
  }
  offerCode();
  document.body.dataset.turn = mine; // for tests: this turn is complete
}

async function act(kind, drawn, title) {
  const mine = ++turn;
  hide("error");
  wait("verdict", title);
  const answer = await ask(kind);
  if (mine !== turn) return;
  hide("verdict");
  drawn(answer);
  document.body.dataset.turn = mine;
}

const prove = () => act("prove", drawVerdict, "Proof");
const derive = () => act("derive", drawDerivation, "Derivation");

async function differentiate() {
  const answer = await ask("differentiate", { wrt: $("wrt").value });
  if (answer.error) return complain(answer);
  $("text").value = answer.text; // in the letters of phipsi
  choose("");
  evaluate();
}

// ---- the link, the letters, the identities -------------------------------------------------------

function remember() {
  const state = new URLSearchParams({ x: $("text").value, robot: $("robot").value, seed: $("seed").value });
  if ($("notation").value) state.set("notation", $("notation").value);
  if ($("operators").value) state.set("operators", $("operators").value);
  history.replaceState(null, "", `#${state}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  $("text").value = state.get("x") || "ℳ⁻¹ τ";
  if ([...$("robot").options].some((o) => o.value === state.get("robot"))) $("robot").value = state.get("robot");
  if (/^\d{1,10}$/.test(state.get("seed") || "")) $("seed").value = state.get("seed");
  $("operators").value = (state.get("operators") || "").slice(0, 2000);
  $("own").open = $("operators").value !== "";
  choose(state.get("notation") || "");
}

function keys(letters) {
  $("keys").replaceChildren(...letters.map(([letter, meaning]) => {
    const key = make("button", letter);
    key.type = "button";
    key.title = meaning;
    key.onclick = () => insert(letter);
    return key;
  }));
}

async function choose(notation) {
  if ([...$("notation").options].some((o) => o.value === notation)) $("notation").value = notation;
  const usual = LETTERS.map((letter) => [letter, ""]);
  keys(usual);
  if (!$("notation").value) return;
  const answer = await ask("letters", { text: "" });
  if (answer.letters) keys([...answer.letters.map((one) => [one.letter, one.meaning]), ...usual]);
}

function insert(letters) {
  const box = $("text"), [a, b] = [box.selectionStart, box.selectionEnd];
  box.setRangeText(letters, a, b, "end");
  box.focus();
}

function list() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = known.filter((one) => words.every((word) => one.all.includes(word)));
  $("count").textContent = `${found.length} of ${known.length}`;
  $("list").replaceChildren(...found.slice(0, 40).map((one) => {
    const item = make("li"), name = make("div", one.name), use = make("button", "Use");
    name.append(make("div", [one.source, one.condition && `if ${one.condition}`].filter(Boolean).join(" · "), "source"));
    use.type = "button";
    use.disabled = !one.latex;
    use.onclick = () => { $("text").value = one.text; choose(""); evaluate(); scrollTo(0, 0); };
    item.append(name, one.latex ? typeset(one.latex, false, one.text) : make("div", one.text), use);
    return item;
  }));
}

async function start() {
  const robots = await ask("robots", { text: "" });
  if (robots.error) return complain(robots);
  $("robot").replaceChildren(...robots.robots.map((name) => new Option(name, name)));
  if (robots.robots.includes("seven_joint_arm") && robots.robots[0].startsWith("planar")) $("robot").value = "seven_joint_arm";
  $("notation").append(...robots.notations.map((name) => new Option(name, name)));
  $("examples").replaceChildren(...EXAMPLES.map((text) => {
    const one = make("button", text);
    one.type = "button";
    one.onclick = () => { $("text").value = text; choose(""); evaluate(); };
    return one;
  }));
  recall();
  $("run").onclick = evaluate;
  $("prove").onclick = prove;
  $("derive").onclick = derive;
  $("differentiate").onclick = differentiate;
  $("robot").onchange = $("seed").onchange = $("operators").onchange = evaluate;
  $("notation").onchange = () => { choose($("notation").value); evaluate(); };
  $("text").onkeydown = (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); evaluate(); }
  };
  $("link").onclick = async () => {
    remember();
    try { await navigator.clipboard.writeText(location.href); $("link").textContent = "Copied"; } catch { $("link").textContent = "Copy the address bar"; }
  };
  addEventListener("hashchange", () => { recall(); evaluate(); });
  await evaluate();
  const answer = await ask("identities");
  known = (answer.identities || []).map((one) => ({ ...one, all: `${one.name} ${one.source} ${one.text} ${one.condition}`.toLowerCase() }));
  $("search").oninput = list;
  list();
}

start();
