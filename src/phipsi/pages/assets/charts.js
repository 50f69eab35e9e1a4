"use strict";
// Plots on canvas, with a cursor at the time of the animation; dragging in a plot moves the time.
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
function power(n) { return "10" + (n < 0 ? "⁻" : "") + String(Math.abs(n)).split("").map((d) => SUPERSCRIPT[d]).join(""); }
function niceStep(span, count) {
  const rough = span / Math.max(count, 1), base = 10 ** Math.floor(Math.log10(rough)), m = rough / base;
  return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * base;
}
const middleCut = (name, most = 40) => (name.length > most ? `${name.slice(0, most / 2 - 1)}…${name.slice(-most / 2)}` : name); // names that begin alike end differently
// The least and the most of an axis for values from low to high. What is nothing but rounding is a straight line on an axis of the size of
// what it is computed from, `size`; and `said` says how constant it is. `least`: changes below it are rounding.
function rangeOf(low, high, least, size, zero) {
  if (!(low <= high)) return { low: -1, high: 1, said: "" };
  const large = Math.max(Math.abs(low), Math.abs(high), size || 0), span = high - low;
  if (zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
  if (span > least && high - low > 1e-6 * Math.max(Math.abs(low), Math.abs(high))) return { low, high, said: "" };
  const middle = (low + high) / 2, half = large > least ? 0.1 * large : 1;
  const part = span / large, how = part > 0 && Number.isFinite(part) ? ` to ${part.toExponential(0).replace("e-", "e−")}` : "";
  return { low: middle - half, high: middle + half, said: large > 0 ? `constant${how}` : "" };
}
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Colours are those of the dark page; on a light one they are darker.
const tint = (color) => (page.isDark ? color : "#" + [1, 3, 5].map((i) => Math.round(0.66 * parseInt(color.slice(i, i + 2), 16)).toString(16).padStart(2, "0")).join(""));
function makeChart(parent, chart) {
  const card = document.createElement("div"); card.className = "card";
  const heading = document.createElement("h2"); heading.textContent = chart.title;
  const small = document.createElement("small"); small.textContent = chart.note; heading.append(small);
  const canvas = document.createElement("canvas"); canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${chart.title} over time, ${chart.unit}: ${chart.series.map((s) => s.name).join(", ")}`);
  const legend = document.createElement("div"); legend.className = "legend";
  card.append(heading, canvas, legend); parent.append(card);
  const dashes = [], time = chart.t, values = chart.series.map((s) => s.values), hidden = new Set();
  const readings = chart.series.map((s, i) => {
    const chip = document.createElement("button"), dash = document.createElement("i"), name = document.createElement("span"), reading = document.createElement("em");
    dashes.push([dash, s.color]); name.textContent = middleCut(s.name); chip.title = s.name; chip.append(dash, name, reading); legend.append(chip);
    chip.setAttribute("aria-pressed", "true");
    chip.addEventListener("click", () => { hidden.has(i) ? hidden.delete(i) : hidden.add(i); chip.classList.toggle("off", hidden.has(i)); chip.setAttribute("aria-pressed", String(!hidden.has(i))); paint(); });
    return reading;
  });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const edge = { left: 62, right: 14, top: 20, bottom: 26 };
  let picture = null, box = null;
  const toX = (t) => edge.left + (box.w - edge.left - edge.right) * (t - data.start) / ((data.end - data.start) || 1);

  function paint() { // everything but the cursor, kept as a picture
    for (const [dash, color] of dashes) dash.style.background = tint(color);
    const ratio = window.devicePixelRatio || 1;
    box = { w: canvas.clientWidth, h: canvas.clientHeight };
    if (!box.w || !box.h) return; // not on the screen
    canvas.width = Math.round(box.w * ratio); canvas.height = Math.round(box.h * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.w, box.h);
    let low = Infinity, high = -Infinity;
    values.forEach((column, i) => { if (!hidden.has(i)) for (const y of column) if (y !== null) { if (y < low) low = y; if (y > high) high = y; } });
    const range = rangeOf(low, high, chart.least, chart.size, chart.zero);
    low = range.low; high = range.high;
    canvas.title = range.said;
    const pad = 0.06 * (high - low); low -= pad; high += pad;
    const toY = (y) => box.h - edge.bottom - (box.h - edge.top - edge.bottom) * (y - low) / (high - low);
    pen.font = "11.5px system-ui, sans-serif"; pen.lineWidth = 1;
    const step = niceStep(high - low, 5), most = Math.max(Math.abs(low), Math.abs(high));
    const exponent = most >= 1e4 || most < 1e-2 ? Math.floor(Math.log10(most)) : 0, scale = 10 ** exponent;
    const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)), 12);
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (let y = Math.ceil(low / step) * step; y <= high; y += step) {
      const at = Math.round(toY(y)) + 0.5;
      pen.strokeStyle = Math.abs(y) < step * 1e-6 ? ink("--axis") : ink("--grid");
      pen.beginPath(); pen.moveTo(edge.left, at); pen.lineTo(box.w - edge.right, at); pen.stroke();
      pen.fillStyle = ink("--dim");
      const shown = Math.abs(y) < step * 1e-6 ? 0 : y / scale;
      pen.fillText(shown.toFixed(digits).replace("-", "−"), edge.left - 8, at);
    }
    if (range.said) { pen.textAlign = "right"; pen.fillStyle = ink("--dim"); pen.fillText(range.said, box.w - edge.right, 8); }
    pen.textAlign = "left"; pen.fillStyle = ink("--dim");
    pen.fillText((exponent ? `×${power(exponent)} ` : "") + chart.unit, edge.left, 8);
    const second = niceStep((data.end - data.start) || 1, Math.max(3, box.w / 90));
    const places = Math.max(0, -Math.floor(Math.log10(second) + 1e-9));
    pen.textAlign = "center"; pen.textBaseline = "top";
    for (let t = Math.ceil(data.start / second - 1e-9) * second; t <= data.end + second * 1e-6; t += second) {
      const at = Math.round(toX(t)) + 0.5;
      pen.strokeStyle = ink("--grid"); pen.beginPath(); pen.moveTo(at, edge.top); pen.lineTo(at, box.h - edge.bottom); pen.stroke();
      const label = t.toFixed(places), room = box.w - 14 - pen.measureText(label).width / 2;
      pen.fillText(label, Math.min(at, room), box.h - edge.bottom + 7);
    }
    pen.textAlign = "right"; pen.fillText("s", box.w - 2, box.h - edge.bottom + 7);
    pen.setLineDash([2, 4]); pen.strokeStyle = ink("--dim");
    for (const event of data.events) { pen.beginPath(); pen.moveTo(toX(event.t), edge.top); pen.lineTo(toX(event.t), box.h - edge.bottom); pen.stroke(); }
    pen.setLineDash([]); pen.lineWidth = 1.7; pen.lineJoin = "round";
    values.forEach((column, i) => {
      if (hidden.has(i)) return;
      pen.strokeStyle = tint(chart.series[i].color); pen.beginPath();
      let down = false;
      column.forEach((y, k) => {
        if (y === null) { down = false; return; }
        if (down) pen.lineTo(toX(time[k]), toY(y)); else pen.moveTo(toX(time[k]), toY(y));
        down = true;
      });
      pen.stroke();
    });
    picture = pen.getImageData(0, 0, canvas.width, canvas.height);
    cursor(clock.now);
  }
  function cursor(t) {
    if (!picture) return;
    pen.putImageData(picture, 0, 0);
    const at = Math.round(toX(t)) + 0.5;
    pen.strokeStyle = ink("--accent"); pen.lineWidth = 1.2;
    pen.beginPath(); pen.moveTo(at, edge.top - 4); pen.lineTo(at, box.h - edge.bottom); pen.stroke();
    const [low, high, s] = bracket(time, t);
    readings.forEach((reading, i) => {
      const a = values[i][low], b = values[i][high];
      reading.textContent = page.number(a === null || b === null ? a : a + s * (b - a));
    });
  }
  const scrubTo = (e) => {
    const inside = (e.offsetX - edge.left) / (box.w - edge.left - edge.right);
    setPlaying(false); clock.set(data.start + inside * (data.end - data.start));
  };
  canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); scrubTo(e); });
  canvas.addEventListener("pointermove", (e) => { if (e.buttons & 1) scrubTo(e); });
  new ResizeObserver(paint).observe(canvas);
  page.themes.push(paint);
  let due = false; // at most one cursor per picture of the screen
  clock.listeners.push(() => { if (!due) { due = true; requestAnimationFrame(() => { due = false; cursor(clock.now); }); } });
}
for (const chart of data.charts) makeChart(document.getElementById("charts"), chart);
