"use strict";
// What the pictures of a report have in common and what each one shows. uPlot
// draws the axes, scales, lines, cursor and zoom; rectangles are painted into
// its plot area.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const S = data.series || {};
const dark = matchMedia("(prefers-color-scheme: dark)");
const ratio = () => devicePixelRatio || 1;

// Each kind of time has a colour and a pattern, so that it is known in black
// and white too.
const looks = {
  productive: ["#2b8a57", "#47b67c", "solid"], lost_work: ["#b3392f", "#f0776c", "down"], warmup: ["#b86e00", "#e5a13a", "dots"],
  init: ["#7a56b3", "#b396ea", "up"], checkpoint_load: ["#2f6fca", "#7db0f5", "across"], checkpoint_save: ["#184f9c", "#5b96e6", "upright"],
  "startup.interpreter": ["#5f4a8b", "#c0aee8", "dots"], "startup.imports": ["#5f4a8b", "#c0aee8", "down"], "startup.rendezvous": ["#8a3d7c", "#e09ad2", "across"],
  "startup.device": ["#5f4a8b", "#c0aee8", "upright"], "startup.model": ["#8a3d7c", "#e09ad2", "up"], "startup.first_batch": ["#8a3d7c", "#e09ad2", "dots"],
  "startup.compile": ["#5f4a8b", "#c0aee8", "cross"],
  data_wait: ["#a78900", "#e2c64a", "down"], validation: ["#0f7f8f", "#4cc4d4", "dots"], testing: ["#40757d", "#94c6cd", "cross"],
  stall: ["#d0432f", "#ff8a75", "cross"], downtime: ["#3c4248", "#aeb7c0", "across"], unobserved: ["#7b8086", "#80878f", "dots"],
  absent: ["#a9aeb4", "#5c646c", "upright"], other: ["#8a6544", "#c79d78", "up"],
  input: ["#a78900", "#e2c64a", "down"], transfer: ["#8a6544", "#c79d78", "dots"], forward: ["#2b8a57", "#47b67c", "solid"],
  backward: ["#184f9c", "#5b96e6", "up"], optimizer: ["#7a56b3", "#b396ea", "cross"], checkpoint: ["#2f6fca", "#7db0f5", "across"],
  host: ["#7b8086", "#9aa2ab", "dots"], wait: ["#c9ced4", "#4a525b", "empty"], "transfer of the collectives": ["#b3392f", "#f0776c", "upright"],
  several: ["#59636e", "#9aa5b1", "empty"],
};
const spare = [["#9c2f6f", "#e787bd"], ["#516d12", "#a8c95c"], ["#1d6a75", "#66c3d0"]];
const kinds = ["up", "dots", "cross", "across"];
function look(name) {
  if (looks[name]) return looks[name];
  let h = 0;
  for (const c of name) h = (h * 31 + c.codePointAt(0)) >>> 0;
  return [...spare[h % spare.length], kinds[(h >> 4) % kinds.length]];
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = name => look(name)[dark.matches ? 1 : 0];

// pattern makes the fill of a kind of time, from a tile.
const patterns = new Map(), blank = document.createElement("canvas").getContext("2d");
function pattern(name) {
  const key = name + dark.matches + ratio();
  if (!patterns.has(key)) patterns.set(key, blank.createPattern(tile(name), "repeat"));
  return patterns.get(key);
}
function tile(name) {
  const c = colour(name), kind = look(name)[2], n = Math.round(8 * ratio()), square = document.createElement("canvas");
  square.width = square.height = n;
  const x = square.getContext("2d");
  x.fillStyle = css("--bg");
  x.fillRect(0, 0, n, n);
  x.globalAlpha = kind === "solid" ? 1 : kind === "empty" ? 0.6 : 0.45;
  x.fillStyle = x.strokeStyle = c;
  x.fillRect(0, 0, n, n);
  x.globalAlpha = 1;
  x.lineWidth = n / 5;
  const line = (...p) => { x.beginPath(); for (let i = 0; i < p.length; i += 4) { x.moveTo(p[i] * n, p[i + 1] * n); x.lineTo(p[i + 2] * n, p[i + 3] * n); } x.stroke(); };
  if (kind === "up" || kind === "cross") line(-.25, .25, .25, -.25, 0, 1, 1, 0, .75, 1.25, 1.25, .75);
  if (kind === "down" || kind === "cross") line(-.25, .75, .25, 1.25, 0, 0, 1, 1, .75, -.25, 1.25, .25);
  if (kind === "across") line(0, .5, 1, .5);
  if (kind === "upright") line(.5, 0, .5, 1);
  if (kind === "dots") for (const [a, b] of [[.25, .25], [.75, .75]]) { x.beginPath(); x.arc(a * n, b * n, n / 7, 0, 7); x.fill(); }
  return square;
}

// words returns the words of the first screen for a kind of time.
const words = name => data.words[name] || name;
function ms(v) {
  if (v == null) return "unknown";
  const a = Math.abs(v);
  if (a < .005) return "0 ms";
  if (a >= 1e4) return time(v * 1e6);
  return (a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : v.toFixed(2)) + " ms";
}
function time(ns) {
  const s = ns / 1e9;
  if (s < 1) return ms(s * 1e3);
  if (s < 60) return +s.toFixed(2) + " s";
  const n = Math.round(s);
  if (n < 3600) return Math.floor(n / 60) + "m " + String(n % 60).padStart(2, "0") + "s";
  const m = Math.round(s / 60);
  return m < 2880 ? Math.floor(m / 60) + "h " + String(m % 60).padStart(2, "0") + "m" : (m / 1440).toFixed(1) + " d";
}
// tick writes the marks of an axis of milliseconds.
// through names the last step of a point: the one before the next point, if that is of the same attempt. Steps may be left out between.
const through = (first, next) => next > first ? (next - 1 > first ? ` to ${next - 1}` : "") : " and later";
const tick = v => v == null ? "" : Math.abs(v) >= 1e4 ? time(v * 1e6) : +v.toPrecision(6) + " ms";
// seconds writes the marks of a time axis.
const seconds = v => v === 0 ? "0" : v < 120 ? +v.toFixed(3) + " s" : v < 7200 ? +(v / 60).toFixed(2) + " min" : v < 2 * 86400 ? +(v / 3600).toFixed(2) + " h" : +(v / 86400).toFixed(2) + " d";
const percent = v => (100 * v).toFixed(1) + " %";

function element(tag, attributes, parent, text) {
  const e = document.createElement(tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text != null) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
function legend(box, names) {
  const list = element("ul", {class: "legend", "aria-label": "legend"}, box);
  for (const n of names) {
    const item = element("li", {}, list), swatch = element("canvas", {"aria-hidden": "true"}, item);
    swatch.width = 22 * ratio(); swatch.height = 14 * ratio();
    const x = swatch.getContext("2d");
    x.fillStyle = pattern(n);
    x.fillRect(0, 0, swatch.width, swatch.height);
    item.append(words(n));
  }
}
// table shows the numbers of a picture when somebody asks for them.
function table(box, title, heads, rows) {
  const d = element("details", {}, box);
  element("summary", {}, d, title);
  d.addEventListener("toggle", () => {
    if (!d.open || d.childElementCount > 1) return;
    const t = element("table", {}, element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title}, d)), head = element("tr", {}, element("thead", {}, t)), body = element("tbody", {}, t);
    for (const h of heads) element("th", {scope: "col"}, head, h);
    for (const row of rows()) {
      const r = element("tr", {}, body);
      for (const c of row) element("td", {}, r, c);
    }
  });
}

const axis = more => ({stroke: css("--fg"), grid: {stroke: css("--line"), width: 1}, ticks: {stroke: css("--line"), width: 1}, font: "12px system-ui, sans-serif", ...more});
const whole = v => Number.isInteger(v), pointing = "Touch or point at the chart to see values.";

// chart makes one picture. spec has uPlot's data and series, and: say(index,
// left, top, u), which describes what is under the cursor; paint(u), which
// draws below the axes' lines.
function chart(box, spec) {
  const shown = element("div", {class: "readout", role: "status"}), full = [spec.x[0], spec.x[1]];
  const opts = {
    width: box.clientWidth || 900, height: spec.height || 260, legend: {show: false}, padding: [8, 24, 0, 0],
    scales: {
      x: {time: false, auto: false, min: full[0], max: full[1], range: (u, lo, hi) => lo == null || !(hi - lo > 0) ? full : [Math.max(lo, full[0]), Math.min(hi, full[1])]},
      y: {range: spec.y, dir: spec.rows ? -1 : 1}, // rows are read from top to bottom
    },
    axes: [axis({size: 34, ...spec.xAxis}), axis({size: 74, ...spec.yAxis})],
    series: [{}, ...spec.series],
    cursor: {drag: {x: true, y: false}, y: !!spec.rows, points: {show: !spec.paint && !spec.noPoints}, bind: {dblclick: u => () => u.setScale("x", {min: full[0], max: full[1]})}, sync: spec.sync ? {key: spec.sync} : undefined},
    hooks: {
      setCursor: [u => {
        const {idx, left, top} = u.cursor;
        shown.textContent = left < 0 || left == null ? spec.hint || "" : spec.say(idx, u.posToVal(left, "x"), u.posToVal(top, "y")) || "";
      }],
      drawClear: spec.paint ? [] : undefined,
      drawAxes: [u => {
        const x = u.ctx, b = u.bbox;
        x.save();
        x.beginPath(); x.rect(b.left, b.top, b.width, b.height); x.clip();
        if (spec.paint) spec.paint(u, x);
        x.restore();
      }],
      draw: [u => {
        const x = u.ctx, b = u.bbox;
        x.save();
        x.beginPath(); x.rect(b.left, b.top, b.width, b.height); x.clip();
        if (spec.above) spec.above(u, x);
        x.restore();
        if (!box.dataset.drawn) performance.mark("drawn");
        box.dataset.drawn = "yes";
      }],
    },
  };
  if (!opts.hooks.drawClear) delete opts.hooks.drawClear;
  const u = new uPlot(opts, spec.data, box);
  box.append(shown);
  shown.textContent = spec.hint || "";
  const canvas = box.querySelector("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", spec.label);
  if (spec.legend) legend(box, spec.legend);
  if (spec.table) table(box, ...spec.table);
  fingers(u, full);
  let at = -1;
  box.onkeydown = e => {
    if (e.target !== box || e.ctrlKey || e.metaKey || e.altKey) return;
    const {min, max} = u.scales.x, step = spec.keyStep || 1;
    const zoom = f => {
      const mid = at >= 0 ? keyed(at) : (min + max) / 2, half = (max - min) * f / 2;
      u.setScale("x", {min: mid - half, max: mid + half});
    };
    const keyed = i => spec.keyAt ? spec.keyAt(i) : spec.data[0][i];
    const last = (spec.keys || spec.data[0].length) - 1;
    if (e.key === "ArrowRight") at = Math.min(at + step, last);
    else if (e.key === "ArrowLeft") at = Math.max(at - step, 0);
    else if (e.key === "+" || e.key === "=") return zoom(.5), e.preventDefault();
    else if (e.key === "-") return zoom(2), e.preventDefault();
    else if (e.key === "0" || e.key === "Escape") return u.setScale("x", {min: full[0], max: full[1]});
    else if (spec.rows && (e.key === "ArrowUp" || e.key === "ArrowDown")) { row = Math.min(Math.max(row + (e.key === "ArrowDown" ? 1 : -1), 0), spec.rows - 1); if (at < 0) at = 0; }
    else return;
    e.preventDefault();
    u.setCursor({left: u.valToPos(keyed(at), "x"), top: spec.rows ? u.valToPos(spec.rowAt ? spec.rowAt(row) : row, "y") : u.over.clientHeight / 2});
  };
  let row = 0;
  return u;
}

// fingers lets a chart be read by touch: one finger moves the cursor, two zoom.
// A vertical movement scrolls the page, as everywhere else.
function fingers(u, full) {
  const over = u.over, down = new Map();
  let held = [];
  over.style.touchAction = "pan-y";
  const point = e => { const box = over.getBoundingClientRect(); return {left: e.clientX - box.left, top: e.clientY - box.top}; };
  const move = e => {
    if (e.pointerType === "mouse" || !down.has(e.pointerId)) return;
    down.set(e.pointerId, point(e));
    const [a, b] = down.values();
    if (!b) return u.setCursor(a);
    if (held.length < 2) held = [a, b].map(p => u.posToVal(p.left, "x"));
    const each = (held[1] - held[0]) / (b.left - a.left), min = held[0] - a.left * each;
    if (Math.abs(b.left - a.left) > 10 && each > 0) u.setScale("x", {min: Math.max(min, full[0]), max: Math.min(min + over.clientWidth * each, full[1])});
  };
  over.addEventListener("pointerdown", e => { if (e.pointerType !== "mouse") { down.set(e.pointerId, point(e)); held = []; move(e); } });
  over.addEventListener("pointermove", move);
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) over.addEventListener(end, e => { down.delete(e.pointerId); held = []; });
}

// rect paints in the units of the axes.
function rect(u, x, from, to, low, high, fill, edge) {
  const a = u.valToPos(from, "x", true), b = u.valToPos(to, "x", true), c = u.valToPos(high, "y", true), d = u.valToPos(low, "y", true);
  const left = Math.min(a, b), top = Math.min(c, d), w = Math.max(Math.abs(b - a), 1), h = Math.abs(d - c);
  x.fillStyle = fill;
  x.fillRect(left, top, w, h);
  if (edge && w > 3) { x.strokeStyle = edge; x.lineWidth = 1; x.strokeRect(left, top, w, h); }
}

const charts = {
  timeline(box) {
    const list = [...new Set(S.attempts.map(a => a.attempt))].sort((a, b) => a - b), row = new Map(list.map((a, i) => [a, i]));
    const end = S.time_ns.at(-1) / 1e9, n = list.length;
    return chart(box, {
      label: `Timeline of ${n} attempts`, height: Math.min(50 + 34 * n, 420), x: [0, end], y: [-.6, n - .4], sync: "time", rows: n,
      data: [[0, end], [null, null]], series: [{}], hint: pointing,
      keys: 101, keyAt: i => end * i / 100,
      xAxis: {values: (u, v) => v.map(seconds)},
      yAxis: {splits: () => list.map((_, i) => i), values: (u, v) => v.map(i => "attempt " + list[i]), grid: {show: false}},
      paint(u, x) {
        for (const a of S.attempts) rect(u, x, a.from_ns / 1e9, a.to_ns / 1e9, row.get(a.attempt) - .35, row.get(a.attempt) + .35, pattern(a.category), css("--fg"));
      },
      say(_, x, y) {
        const a = S.attempts.find(a => a.attempt === list[Math.round(y)] && x * 1e9 >= a.from_ns && x * 1e9 <= a.to_ns);
        return a ? `Attempt ${a.attempt}: ${words(a.category)}, from ${time(a.from_ns)} to ${time(a.to_ns)}` : "at " + time(x * 1e9);
      },
      legend: data.categories.concat(Object.keys(S.ledger)).filter((c, i, all) => all.indexOf(c) === i && S.attempts.some(a => a.category === c)),
      table: ["Table of intervals", ["attempt", "from", "to", "mostly"], () => S.attempts.map(a => [a.attempt, time(a.from_ns), time(a.to_ns), words(a.category)])],
    });
  },
  ledger(box) {
    const all = data.categories.concat(Object.keys(S.ledger)), names = all.filter((c, i) => all.indexOf(c) === i && S.ledger[c]);
    const x = S.time_ns.map(t => t / 1e9), n = x.length - 1, sums = [];
    let sum = new Array(n).fill(0);
    for (const c of names) { sum = sum.map((v, i) => v + S.ledger[c][i]); sums.push([...sum, sum[n - 1]]); }
    const stepped = uPlot.paths.stepped({align: 1});
    return chart(box, {
      label: "The share of each category over time, stacked", x: [0, x[n]], y: [0, 1], sync: "time", noPoints: true,
      // The largest sum is drawn first, what is below it over it.
      data: [x, ...sums.toReversed()],
      series: names.toReversed().map(c => ({label: words(c), fill: () => pattern(c), stroke: css("--bg"), width: 1, paths: stepped, points: {show: false}})),
      xAxis: {values: (u, v) => v.map(seconds)}, yAxis: {values: (u, v) => v.map(p => Math.round(100 * p) + " %")},
      hint: pointing,
      say(_, at) {
        const k = Math.min(Math.max(x.findLastIndex(v => v <= at), 0), n - 1);
        return `${time(S.time_ns[k])} to ${time(S.time_ns[k + 1])}: ` + names.filter(c => S.ledger[c][k] > 0).sort((a, b) => S.ledger[b][k] - S.ledger[a][k]).map(c => `${words(c)} ${percent(S.ledger[c][k])}`).join(", ");
      },
      legend: names,
      table: ["Table of the ledger over time", ["from", ...names.map(words)], () => S.time_ns.slice(0, n).map((t, k) => [time(t), ...names.map(c => percent(S.ledger[c][k]))])],
    });
  },
  steps(box) {
    const s = S.steps, n = s.step.length, x = s.step.map((_, i) => i);
    const names = ["input", "transfer", "forward", "backward", "optimizer", "checkpoint", "host"].filter(p => s.phases_ms[p]);
    const layers = names.map(p => s.phases_ms[p]);
    if (s.wait_ms) { names.push("wait", "transfer of the collectives"); layers.push(s.wait_ms, s.transfer_ms); }
    let sum = new Array(n).fill(0);
    const sums = layers.map(l => (sum = sum.map((v, i) => v + Math.max(l[i] || 0, 0)), sum));
    const sorted = s.median_ms.filter(v => v != null).sort((a, b) => a - b), typical = sorted[sorted.length >> 1];
    // A single pause must not flatten all else: what is beyond is shown at the edge.
    const top = Math.max(Math.min(Math.max(...s.max_ms), 3 * typical), 1.2 * typical, 1.1 * sorted[Math.floor(.99 * (sorted.length - 1))]);
    const far = s.max_ms.map(v => v > 1.5 * typical ? Math.min(v, .985 * top) : null);
    const line = {label: "step", stroke: css("--fg"), width: 1.5, points: {show: false}};
    return chart(box, {
      label: "Step time and its phases", height: 320, x: [0, Math.max(n - 1, 1)], y: [0, top], noPoints: true,
      data: [x, ...sums.toReversed(), s.median_ms, far],
      series: [...names.toReversed().map(p => ({label: p, fill: () => pattern(p), stroke: "transparent", width: 0, points: {show: false}})), line,
        {label: "much longer", stroke: css("--fg"), paths: () => null, points: {show: true, size: 7, fill: css("--bg"), width: 2}}],
      xAxis: {values: (u, v) => v.map(i => whole(i) && s.step[i] != null ? s.step[i] : ""), label: "step", labelSize: 16, labelGap: -4, labelFont: "12px system-ui, sans-serif"},
      yAxis: {values: (u, v) => v.map(tick)},
      above(u, c) { attempts(u, c, s.attempt); },
      hint: (s.steps_per_point > 1 ? `Each point is ${s.steps_per_point} steps. ` : "") + "The line is the step time; ● marks steps that took much longer." + (data.device ? " Times are those of the device: data and other code are its idle time." : ""),
      say(i) {
        if (i == null) return "";
        const to = s.steps_per_point > 1 ? through(s.step[i], s.attempt[i + 1] === s.attempt[i] ? s.step[i + 1] : null) : "";
        return `Attempt ${s.attempt[i]}, step ${s.step[i]}${to}: ${ms(s.median_ms[i])}` + (to ? `, longest ${ms(s.max_ms[i])}` : "") + (names.length ? " = " + names.map((p, k) => `${words(p)} ${ms(layers[k][i])}`).join(", ") : "");
      },
      legend: names,
      table: ["Table of steps", ["attempt", "step", "time", "longest", ...names.map(words)], () => s.step.map((v, i) => [s.attempt[i], v, ms(s.median_ms[i]), ms(s.max_ms[i]), ...layers.map(l => ms(l[i]))])],
    });
  },
  heat(box) {
    const h = S.heat, rows = h.first_rank.length, cols = h.first_step.length, raw = atob(h.cells);
    const per = cols > 1 ? h.first_step[1] - h.first_step[0] : 1, many = rows > 1 ? h.first_rank[1] - h.first_rank[0] : 1;
    const image = document.createElement("canvas");
    image.width = cols; image.height = rows;
    const x = image.getContext("2d"), pixels = x.createImageData(cols, rows), shade = heatColours();
    for (let i = 0; i < raw.length; i++) pixels.data.set(shade(raw.charCodeAt(i) / 255), 4 * i);
    x.putImageData(pixels, 0, 0);
    const excess = (r, c) => { const v = raw.charCodeAt(r * cols + c); return v === 255 ? "at least " + ms(h.scale_ms) : ms(v / 255 * h.scale_ms); };
    const slow = new Map(data.slow.map(k => [h.first_rank.findIndex((f, r) => f <= k && k < (h.first_rank[r + 1] ?? f + many)), k])), far = .04 * rows; // by row
    slow.delete(-1);
    const rank = r => many > 1 ? `${h.first_rank[r]} to ${(h.first_rank[r + 1] ?? h.first_rank[r] + many) - 1}` : h.first_rank[r];
    const u = chart(box, {
      label: "Heat map of the excess of each rank in each step", height: Math.min(60 + rows * (rows <= 8 ? 24 : 14), 480), x: [-.5, cols - .5], y: [-.5, rows - .5], rows,
      data: [[0, cols - 1], [null, null]], series: [{}], keys: cols, keyAt: i => i,
      xAxis: {values: (u, v) => v.map(i => whole(i) && h.first_step[i] != null ? h.first_step[i] : ""), grid: {show: false}, label: "step", labelSize: 16, labelGap: -4, labelFont: "12px system-ui, sans-serif"},
      yAxis: {
        size: 92, values: (u, v) => v.map(i => slow.has(i) ? "▶ rank " + slow.get(i) : whole(i) && h.first_rank[i] != null ? "rank " + h.first_rank[i] : ""), grid: {show: false},
        splits: (u, _, from, to, by) => rows <= 16 ? h.first_rank.map((_, i) => i) : [...slow.keys(), ...Array.from({length: Math.floor(to / by) + 1}, (_, n) => n * by).filter(i => i >= from && ![...slow.keys()].some(k => Math.abs(k - i) < far))],
      },
      paint(u, c) {
        c.imageSmoothingEnabled = false;
        const a = u.valToPos(-.5, "x", true), b = u.valToPos(cols - .5, "x", true), t = u.valToPos(-.5, "y", true), d = u.valToPos(rows - .5, "y", true);
        c.drawImage(image, a, t, b - a, d - t);
      },
      hint: `Full colour is ${ms(h.scale_ms)} or more.`,
      say(_, x, y) {
        const c = Math.round(x), r = Math.round(y);
        if (!(c >= 0 && c < cols && r >= 0 && r < rows)) return "";
        return `Rank ${rank(r)}, step ${h.first_step[c]}${per > 1 ? through(h.first_step[c], h.first_step[c + 1]) : ""}: ${excess(r, c)} more work than usual`;
      },
      table: ["Table of the excess by rank", ["rank", "mean", "largest", "at step"], () => h.first_rank.map((_, r) => {
        let sum = 0, best = 0;
        for (let c = 0; c < cols; c++) { const v = raw.charCodeAt(r * cols + c); sum += v; if (v > raw.charCodeAt(r * cols + best)) best = c; }
        return [rank(r), ms(sum / cols / 255 * h.scale_ms), excess(r, best), h.first_step[best]];
      })],
    });
    const scale = element("p", {class: "dim"}, box, `0 ms `), bar = element("canvas", {"aria-hidden": "true", style: "width:160px;height:12px;vertical-align:-1px;border:1px solid"}, scale);
    bar.width = 160; bar.height = 1;
    const bx = bar.getContext("2d"), line = bx.createImageData(160, 1);
    for (let i = 0; i < 160; i++) line.data.set(shade(i / 159), 4 * i);
    bx.putImageData(line, 0, 0);
    scale.append(" " + ms(h.scale_ms) + " and more");
    return u;
  },
  lanes(box) {
    const l = S.lanes, n = l.ranks.length, tall = Math.min(48 + n * (n <= 8 ? 28 : 20), 900), slow = new Set(data.slow);
    const ends = l.ranks.map((_, i) => l.parts.reduce((t, p) => t + Math.max(p.ms[i] || 0, 0), 0)), end = Math.max(...ends, l.period_ms);
    return chart(box, {
      label: `What each rank did in step ${l.step}`, height: tall, x: [0, end], y: [-.6, n - .4], rows: n, keys: 101, keyAt: i => end * i / 100,
      data: [[0, end], [null, null]], series: [{}], hint: pointing,
      xAxis: {values: (u, v) => v.map(tick)},
      yAxis: {size: 96, splits: () => l.ranks.map((_, i) => i), values: (u, v) => v.map(i => (slow.has(l.ranks[i]) ? "▶ " : "") + "rank " + l.ranks[i]), grid: {show: false}},
      paint(u, x) {
        for (let i = 0; i < n; i++) {
          let at = 0;
          for (const p of l.parts) {
            const v = Math.max(p.ms[i] || 0, 0);
            if (v > 0) rect(u, x, at, at + v, i - .38, i + .38, pattern(p.name), css("--fg"));
            at += v;
          }
        }
      },
      say(_, x, y) {
        const i = Math.round(y);
        if (!(i >= 0 && i < n)) return "";
        let at = 0, here = "";
        for (const p of l.parts) { const v = Math.max(p.ms[i] || 0, 0); if (x >= at && x < at + v) here = p.name; at += v; }
        return `Rank ${l.ranks[i]}: ` + l.parts.filter(p => p.ms[i] > 0).map(p => (p.name === here ? "▶ " : "") + `${words(p.name)} ${ms(p.ms[i])}`).join(", ");
      },
      legend: l.parts.map(p => p.name),
      table: ["Table of this step", ["rank", ...l.parts.map(p => words(p.name))], () => l.ranks.map((r, i) => [r, ...l.parts.map(p => ms(p.ms[i]))])],
    });
  },
  comm(box) {
    const s = S.steps, n = s.step.length, send = colour("transfer of the collectives");
    const sorted = s.wait_ms.concat(s.transfer_ms).filter(v => v != null).sort((a, b) => a - b), top = sorted[Math.floor(.995 * (sorted.length - 1))] * 1.15 || 1;
    return chart(box, {
      label: "Waiting for other ranks and transfer, by step", x: [0, Math.max(n - 1, 1)], y: [0, top],
      data: [s.step.map((_, i) => i), s.wait_ms, s.transfer_ms],
      series: [{label: "wait", stroke: css("--fg"), width: 1.5, dash: [6, 3], points: {show: false}}, {label: "transfer", stroke: send, width: 2, points: {show: false}}],
      xAxis: {values: (u, v) => v.map(i => whole(i) && s.step[i] != null ? s.step[i] : ""), label: "step", labelSize: 16, labelGap: -4, labelFont: "12px system-ui, sans-serif"},
      yAxis: {values: (u, v) => v.map(tick)}, hint: "Dashed: waiting for other ranks. Solid: transfer.",
      above(u, c) { attempts(u, c, s.attempt); },
      say: i => i == null ? "" : `Attempt ${s.attempt[i]}, step ${s.step[i]}: waiting ${ms(s.wait_ms[i])}, transferring ${ms(s.transfer_ms[i])}`,
      table: ["Table of waiting and transfer", ["attempt", "step", "wait", "transfer"], () => s.step.map((v, i) => [s.attempt[i], v, ms(s.wait_ms[i]), ms(s.transfer_ms[i])])],
    });
  },
  saves(box) {
    const s = data.saves, n = s.step.length, x = s.step.map((_, i) => i), both = s.blocking.map((v, i) => v + s.background[i]);
    const bars = uPlot.paths.bars({size: [.7, 60]}), name = i => `${s.load[i] ? "load" : "save"}${s.step[i] >= 0 ? " " + s.step[i] : ""}`;
    return chart(box, {
      label: "How long each checkpoint took", x: [-.6, n - .4], y: [0, Math.max(...both) * 1.1 || 1], noPoints: true,
      data: [x, both, s.blocking],
      series: [{label: "background", fill: () => pattern("wait"), stroke: css("--fg"), width: 1, paths: bars, points: {show: false}}, {label: "blocking", fill: () => pattern("checkpoint"), stroke: css("--fg"), width: 1, paths: bars, points: {show: false}}],
      xAxis: {values: (u, v) => v.map(i => whole(i) && i >= 0 && i < n ? name(i) : ""), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500], grid: {show: false}}, yAxis: {values: (u, v) => v.map(tick)},
      hint: "Hatched: blocked training. Plain: in the background.",
      say: i => i == null ? "" : `Attempt ${s.attempt[i]}, ${name(i)}: blocked training for ${ms(s.blocking[i])}, in the background ${ms(s.background[i])}`,
    });
  },
};

// attempts draws a line where another attempt begins.
function attempts(u, c, list) {
  c.strokeStyle = c.fillStyle = css("--fg");
  c.font = 12 * ratio() + "px system-ui, sans-serif";
  c.textAlign = "left";
  c.textBaseline = "alphabetic";
  c.lineWidth = ratio();
  c.setLineDash([4 * ratio(), 4 * ratio()]);
  for (let i = 1; i < list.length; i++) {
    if (list[i] === list[i - 1]) continue;
    const x = Math.round(u.valToPos(i - .5, "x", true)) + .5;
    c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
    const text = "attempt " + list[i], w = c.measureText(text).width;
    c.fillStyle = css("--bg");
    c.fillRect(x + 2, u.bbox.top + 2, w + 8 * ratio(), 16 * ratio());
    c.fillStyle = css("--fg");
    c.fillText(text, x + 5 * ratio(), u.bbox.top + 14 * ratio());
  }
  c.setLineDash([]);
}

// heatColours go evenly from the background to the other end of lightness.
function heatColours() {
  const stops = dark.matches ? [[23, 28, 34], [90, 45, 60], [214, 88, 52], [255, 236, 160]] : [[246, 248, 250], [253, 190, 110], [200, 62, 40], [70, 5, 30]];
  return v => {
    const at = Math.min(v, 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2), f = at - i;
    return [...stops[i].map((c, k) => Math.round(c + f * (stops[i + 1][k] - c))), 255];
  };
}

// Charts of a section that is closed are drawn when it is opened: until then they have no width.
let live = new Map();
const hidden = box => box.closest("details.section:not([open])");
function draw(box) {
  if (live.has(box) || hidden(box)) return;
  box.replaceChildren();
  live.set(box, charts[box.dataset.chart](box));
}
const drawOpen = () => document.querySelectorAll(".chart").forEach(draw);
function drawAll() {
  for (const u of live.values()) u.destroy();
  live.clear();
  for (const box of document.querySelectorAll(".chart")) delete box.dataset.drawn;
  drawOpen();
  // The bars of the table are filled as the pictures are.
  for (const bar of document.querySelectorAll("td.bar i[data-category], .stack i, .stacked i")) {
    const t = tile(bar.dataset.category);
    bar.style.background = `url(${t.toDataURL()}) 0 0 / ${t.width / ratio()}px`;
  }
}
dark.addEventListener("change", drawAll);
let width = innerWidth, waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 100);
});
for (const d of document.querySelectorAll("details.section")) d.addEventListener("toggle", drawOpen);
// A link to a section opens it, and so does printing.
const reveal = () => {
  const to = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1))), section = to && to.closest("details.section");
  if (section) { section.open = true; drawOpen(); to.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
addEventListener("beforeprint", () => {
  for (const d of document.querySelectorAll("details.section")) d.open = true;
  drawOpen();
});
// A button copies the command beside it, or selects it where the browser does not let it.
for (const button of document.querySelectorAll("button.copy")) {
  const command = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
  });
}
drawAll();
reveal();
})();
