// Draws the charts of a report, sorts and filters its tables. Text is inserted by textContent only.
(() => {
  "use strict";
  const sections = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const root = document.documentElement;

  function make(name, attributes = {}, text = null) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  }

  // ---- Light and dark ----
  const themes = ["auto", "light", "dark"];
  const themeButton = document.getElementById("theme");
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  let theme = "auto";
  let printing = false;
  try { theme = localStorage.getItem("midway-theme") || "auto"; } catch { /* a page from a file may have no storage */ }
  const isDark = () => !printing && (theme === "dark" || (theme === "auto" && systemDark.matches));
  function applyTheme() {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    themeButton.textContent = `Theme: ${theme}`;
    redraw();
  }
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("midway-theme", theme); } catch { /* as above */ }
    applyTheme();
  });
  systemDark.addEventListener("change", () => applyTheme());

  // ---- Marks: the same shapes as in the printed figures ----
  function corners(count, radius, turn, inner = null) {
    const points = [];
    const total = inner === null ? count : 2 * count;
    for (let i = 0; i < total; i++) {
      const r = inner !== null && i % 2 ? inner : radius;
      const angle = turn + (2 * Math.PI * i) / total;
      points.push(`${(r * Math.cos(angle)).toFixed(2)},${(r * Math.sin(angle)).toFixed(2)}`);
    }
    return points.join(" ");
  }
  const up = -Math.PI / 2;
  const shapes = {
    s: (r) => corners(4, r * 1.25, Math.PI / 4), "^": (r) => corners(3, r * 1.3, up),
    v: (r) => corners(3, r * 1.3, -up), "<": (r) => corners(3, r * 1.3, Math.PI), ">": (r) => corners(3, r * 1.3, 0),
    D: (r) => corners(4, r * 1.3, 0), d: (r) => `0,${-1.5 * r} ${0.8 * r},0 0,${1.5 * r} ${-0.8 * r},0`,
    P: (r) => corners(4, r * 1.35, 0, r * 0.55), X: (r) => corners(4, r * 1.45, Math.PI / 4, r * 0.55),
    h: (r) => corners(6, r * 1.15, up), H: (r) => corners(6, r * 1.15, 0), 8: (r) => corners(8, r * 1.1, 0.4),
    p: (r) => corners(5, r * 1.2, up), "*": (r) => corners(5, r * 1.75, up, r * 0.72),
  };
  const colour = (method) => (isDark() ? method.colour_on_dark : method.colour);
  function mark(method, x, y, radius = 4.5) {
    const style = { fill: colour(method), stroke: isDark() ? "#15171b" : "#ffffff", "stroke-width": 0.8 };
    const shape = shapes[method.marker];
    return shape
      ? make("polygon", { points: shape(radius), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, ...style })
      : make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius, ...style });
  }
  function swatch(method, line = true) {
    const svg = make("svg", { width: 18, height: 12, viewBox: "0 0 18 12", "aria-hidden": "true" });
    if (line && method.line !== false) svg.append(make("line", { x1: 0, x2: 18, y1: 6, y2: 6, stroke: colour(method), "stroke-width": 2, "stroke-dasharray": method.dash.join(" ") }));
    if (method.marker) svg.append(mark(method, 9, 6, 3.6));
    return svg;
  }

  function named(method, line) {
    const span = document.createElement("span");
    span.append(swatch(method, line), method.title);
    return span;
  }

  // ---- Scales ----
  function ticks(low, high, wanted) {
    const rough = (high - low) / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || power;
    const values = [];
    for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) values.push(Number(value.toFixed(9)));
    return values;
  }
  function logTicks(low, high, wanted) {
    if (!(low > 0)) return [];
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      const values = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
        for (const step of steps) if (step * 10 ** power >= low && step * 10 ** power <= high) values.push(Number((step * 10 ** power).toPrecision(6)));
      }
      if (values.length <= wanted || steps.length === 1) return values;
    }
    return [];
  }
  function scale(low, high, from, to, log = false) {
    const f = log ? Math.log : (v) => v;
    const span = f(high) - f(low) || 1;
    return (value) => from + ((f(value) - f(low)) / span) * (to - from);
  }
  const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
  function padded(values, share) {
    const low = Math.min(...values), high = Math.max(...values), more = (high - low || 2) * share;
    return [Math.max(0, low - more), Math.min(100, high + more)];
  }
  function aroundZero(values) {
    const far = 1.1 * Math.max(...values.map(Math.abs)) || 1;
    return [-far, far];
  }

  // ---- Charts ----
  const charts = [];
  class Chart {
    constructor(figure, section, data) {
      Object.assign(this, { figure, section, data, view: 0, targets: [], at: -1 });
      this.canvas = figure.querySelector(".canvas");
      this.tip = figure.querySelector(".tip");
      const select = figure.querySelector("select");
      if (select) select.addEventListener("change", () => { this.view = select.selectedIndex; this.draw(); });
      new ResizeObserver(() => { if (this.canvas.clientWidth !== this.width) this.draw(); }).observe(this.canvas);
    }
    methods() { return this.section.methods.filter((m) => !this.section.off.has(m.label)); }
    draw() {
      this.hide();
      this.width = printing ? 600 : this.canvas.clientWidth;
      if (!this.width) return;
      const view = this.data.views[this.view];
      const { svg, targets } = { dots: drawDots, lines: drawLines, points: drawPoints }[this.data.kind](this, view);
      svg.setAttribute("role", "img");
      svg.setAttribute("tabindex", "0");
      svg.setAttribute("aria-label", `${this.data.title}, ${view.name}. ${this.data.caption} Arrow keys read the values.`);
      svg.addEventListener("pointermove", (event) => this.point(event, svg));
      svg.addEventListener("pointerdown", (event) => this.point(event, svg));
      svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.hide(); });
      svg.addEventListener("blur", () => this.hide());
      svg.addEventListener("keydown", (event) => this.key(event));
      this.targets = targets;
      this.svg = svg;
      this.canvas.replaceChildren(svg);
      this.figure.querySelector(".view").textContent = view.name;
      const drawn = (m) => view.rows ? view.rows.some((row) => row.values[m.label] != null) : (view.lines || view.points)[m.label]?.length;
      const shown = this.methods().filter(drawn);
      this.figure.querySelector(".legend").hidden = shown.length < 2;
      this.figure.querySelector(".legend").replaceChildren(...shown.map((method) => named(method, this.data.kind === "lines")));
    }
    point(event, svg) {
      const box = svg.getBoundingClientRect();
      const ratio = this.width / box.width;
      const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
      let best = -1, least = this.data.kind === "lines" ? Infinity : 30;
      this.targets.forEach((target, index) => {
        const far = this.data.kind === "lines" ? Math.abs(target.x - x) : Math.hypot(target.x - x, target.y - y);
        if (far < least) { least = far; best = index; }
      });
      if (best < 0) this.hide(); else this.show(best);
    }
    key(event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") this.hide();
      if (!step || !this.targets.length) return;
      event.preventDefault();
      this.show((this.at + step + this.targets.length) % this.targets.length);
    }
    show(index) {
      this.at = index;
      const target = this.targets[index];
      const title = document.createElement("b");
      title.textContent = target.title;
      const lines = target.lines.map(([method, text]) => {
        const line = document.createElement("span"), name = document.createElement("i"), value = document.createElement("output");
        name.style.fontStyle = "normal";
        name.textContent = method.title;
        value.textContent = text;
        line.append(swatch(method), name, value);
        return line;
      });
      this.tip.replaceChildren(title, ...lines);
      this.tip.hidden = false;
      this.svg.querySelector(".cursor")?.remove();
      if (this.data.kind === "lines") this.svg.append(make("line", { class: "cursor", x1: target.x, x2: target.x, y1: this.top, y2: this.bottom }));
      else this.svg.append(make("circle", { class: "cursor", cx: target.x, cy: target.y, r: 10, fill: "none" }));
      const ratio = this.svg.getBoundingClientRect().width / this.width;
      const room = this.canvas.clientWidth, wide = this.tip.offsetWidth;
      const left = target.x * ratio + 14 + wide < room ? target.x * ratio + 14 : Math.max(0, target.x * ratio - 14 - wide);
      this.tip.style.left = `${this.canvas.offsetLeft + left}px`;
      this.tip.style.top = `${this.canvas.offsetTop + Math.max(0, Math.min(target.y * ratio - 20, this.canvas.clientHeight - this.tip.offsetHeight))}px`;
    }
    hide() {
      this.at = -1;
      this.tip.hidden = true;
      this.svg?.querySelector(".cursor")?.remove();
    }
  }

  function frame(width, height) { return make("svg", { viewBox: `0 0 ${width} ${height}`, width, height }); }
  function axisX(svg, values, position, top, bottom, label, width, left) {
    const group = make("g", { class: "axis" });
    for (const value of values) {
      group.append(make("line", { class: "grid", x1: position(value), x2: position(value), y1: top, y2: bottom }));
      group.append(make("text", { x: position(value), y: bottom + 16, "text-anchor": "middle" }, number(value)));
    }
    group.append(make("text", { x: (left + width) / 2, y: bottom + 33, "text-anchor": "middle" }, label));
    svg.append(group);
  }
  function axisY(svg, values, position, left, right, label) {
    const group = make("g", { class: "axis" });
    for (const value of values) {
      group.append(make("line", { class: "grid", x1: left, x2: right, y1: position(value), y2: position(value) }));
      group.append(make("text", { x: left - 6, y: position(value) + 4, "text-anchor": "end" }, number(value)));
    }
    group.append(make("text", { x: 0, y: 11 }, label));
    svg.append(group);
  }

  function drawDots(chart, view) {
    const methods = chart.methods(), width = chart.width, stacked = width < 560;
    const rowHeight = stacked ? 44 : 26, left = stacked ? 12 : Math.min(290, width * 0.4), right = 14, top = 6;
    const rows = view.rows.filter((row) => methods.some((m) => row.values[m.label] != null));
    const bottom = top + rowHeight * rows.length;
    const svg = frame(width, bottom + 40), targets = [];
    const values = rows.flatMap((row) => methods.map((m) => row.values[m.label]).filter((v) => v != null));
    if (!values.length) return { svg, targets };
    const change = chart.data.unit === "points";
    const [low, high] = chart.data.range || (change ? aroundZero(values) : padded(values, 0.05));
    const x = scale(low, high, left, width - right);
    axisX(svg, ticks(low, high, width / 90), x, top, bottom, chart.data.x, width - right, left);
    if (change) svg.append(make("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: bottom }));
    rows.forEach((row, index) => {
      const y = top + rowHeight * (index + (stacked ? 0.72 : 0.5));
      svg.append(make("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }));
      svg.append(stacked
        ? make("text", { x: left, y: y - 15 }, row.title)
        : fitted(make("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, row.title), row.title, left - 14));
      for (const method of methods) {
        const value = row.values[method.label];
        if (value == null) continue;
        svg.append(mark(method, x(value), y));
        targets.push({ x: x(value), y, title: row.title, lines: [[method, `${change && value > 0 ? "+" : ""}${value.toFixed(2)} ${chart.data.unit}`]] });
      }
    });
    return { svg, targets };
  }

  function fitted(text, whole, room) {  // about 6.4 pixels a letter
    const letters = Math.floor(room / 6.4);
    if (whole.length > letters) { text.textContent = `${whole.slice(0, letters - 1)}…`; text.append(make("title", {}, whole)); }
    return text;
  }

  function drawLines(chart, view) {
    const methods = chart.methods().filter((m) => view.lines[m.label]?.length);
    const width = chart.width, height = Math.max(240, Math.min(360, width * 0.55));
    const left = 38, right = 14, top = 22, bottom = height - 40, log = chart.data.scale === "log";
    const svg = frame(width, height), targets = [];
    const all = methods.flatMap((m) => view.lines[m.label].filter((p) => p[1] != null));
    if (!all.length) return { svg, targets };
    Object.assign(chart, { top, bottom });
    const xs = [...new Set(all.map((p) => p[0]))].sort((a, b) => a - b);
    const [low, high] = padded(all.map((p) => p[1]), 0.06);
    const x = scale(xs[0], xs[xs.length - 1], left + 8, width - right, log), y = scale(low, high, bottom, top);
    const marked = log ? xs.filter((v, i) => i === 0 || i === xs.length - 1 || x(v) - x(xs[i - 1]) > 26) : ticks(xs[0], xs[xs.length - 1], width / 80);
    axisX(svg, marked, x, top, bottom, chart.data.x, width - right, left);
    axisY(svg, ticks(low, high, height / 55), y, left, width - right, chart.data.y);
    for (const method of methods) {
      const points = view.lines[method.label].filter((p) => p[1] != null);
      const corner = (p, i) => (method.step && i ? `${x(p[0]).toFixed(1)},${y(points[i - 1][1]).toFixed(1)} ` : "");
      const path = points.map((p, i) => `${corner(p, i)}${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ");
      if (method.line !== false) svg.append(make("polyline", { points: path, fill: "none", stroke: colour(method), "stroke-width": method.width, "stroke-linejoin": "round", "stroke-dasharray": method.dash.map((d) => d * 1.6).join(" ") }));
      const every = method.line === false ? 1 : Math.max(1, Math.floor(points.length / 6));
      points.forEach((p, i) => { if (method.marker && i % every === 0) svg.append(mark(method, x(p[0]), y(p[1]), 4)); });
    }
    for (const value of xs) {
      const points = methods.map((m) => [m, view.lines[m.label].find((p) => p[0] === value)]).filter(([, p]) => p && p[1] != null);
      points.sort((a, b) => b[1][1] - a[1][1]);
      const lines = points.map(([m, p]) => [m, `${p[1].toFixed(1)} %`]);
      targets.push({ x: x(value), y: top + 10, title: `${chart.data.x}: ${number(value)}`, lines });
    }
    return { svg, targets };
  }

  function drawPoints(chart, view) {
    const methods = chart.methods().filter((m) => view.points[m.label]);
    const width = chart.width, height = Math.max(260, Math.min(380, width * 0.6));
    const left = 38, right = 20, top = 22, bottom = height - 40;
    const svg = frame(width, height), targets = [];
    if (!methods.length) return { svg, targets };
    const costs = methods.map((m) => view.points[m.label][0]);
    const [low, high] = padded(methods.map((m) => view.points[m.label][1]), 0.08);
    const cheap = Math.min(...costs) / 1.5, dear = Math.max(...costs) * 2;
    const x = scale(cheap, dear, left + 8, width - right, true), y = scale(low, high, bottom, top);
    axisX(svg, logTicks(cheap, dear, width / 60), x, top, bottom, view.x, width - right, left);
    axisY(svg, ticks(low, high, height / 55), y, left, width - right, chart.data.y);
    const front = view.front.filter((label) => methods.some((m) => m.label === label)).map((label) => view.points[label]);
    svg.append(make("polyline", { class: "front", points: front.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ") }));
    const taken = methods.map((m) => { const [cost, value] = view.points[m.label]; return [x(cost) - 6, y(value) - 6, x(cost) + 6, y(value) + 6]; });
    for (let i = 1; i < front.length; i++) {  // names keep clear of the line
      for (let s = 0; s <= 1; s += 0.04) {
        const at = [0, 1].map((k) => (k ? y : x)(front[i - 1][k]) * (1 - s) + (k ? y : x)(front[i][k]) * s);
        taken.push([at[0], at[1], at[0] + 1, at[1] + 1]);
      }
    }
    const ordered = [...methods].sort((a, b) => view.front.includes(b.label) - view.front.includes(a.label));
    for (const method of ordered) {
      const [cost, value] = view.points[method.label];
      svg.append(mark(method, x(cost), y(value), 5));
      const wide = method.title.length * (view.front.includes(method.label) ? 7.6 : 6.6);  // bold or not
      const positions = [[9, 4, "start"], [-9, 4, "end"], [0, -9, "middle"], [0, 18, "middle"]];
      for (const [dx, dy, anchor] of positions) {
        const from = x(cost) + dx - { start: 0, end: wide, middle: wide / 2 }[anchor];
        const box = [from, y(value) + dy - 11, from + wide, y(value) + dy + 3];
        if (box[0] < left || box[2] > width - 2 || box[1] < top - 10 || taken.some((t) => t[0] < box[2] && box[0] < t[2] && t[1] < box[3] && box[1] < t[3])) continue;
        taken.push(box);
        svg.append(make("text", { x: x(cost) + dx, y: y(value) + dy, "text-anchor": anchor, "font-weight": view.front.includes(method.label) ? 650 : 400 }, method.title));
        break;
      }
      targets.push({ x: x(cost), y: y(value), title: `${number(cost)} ${view.x}`, lines: [[method, `${value.toFixed(2)} %`]] });
    }
    targets.sort((a, b) => a.x - b.x);
    return { svg, targets };
  }

  // ---- Tables ----
  function sortBy(table, heading) {
    const row = heading.parentElement, index = [...row.children].indexOf(heading);
    const numeric = heading.hasAttribute("data-column");
    const was = heading.getAttribute("aria-sort");
    const order = was === "none" ? (numeric ? "descending" : "ascending") : was === "descending" ? "ascending" : "descending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (line) => { const cell = line.children[index]; return numeric ? (cell.dataset.value === undefined ? null : Number(cell.dataset.value)) : cell.textContent.toLowerCase(); };
    const lines = [...table.tBodies[0].rows];
    lines.sort((a, b) => {
      const first = key(a), second = key(b);
      if (first === null || second === null) return (first === null) - (second === null);
      return sign * (numeric ? first - second : first.localeCompare(second, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...lines);
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const heading of table.querySelectorAll("th[aria-sort]")) heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
  }

  function filterColumns(element, text) {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const block of element.querySelectorAll(".block.columns")) {
      const table = block.querySelector("table");
      const visible = new Set();
      for (const heading of table.querySelectorAll("th[data-column]")) {
        if (wanted.every((word) => heading.dataset.words.includes(word))) visible.add(heading.dataset.column);
      }
      block.hidden = !visible.size;
      for (const cell of table.querySelectorAll("[data-column]")) cell.hidden = !visible.has(cell.dataset.column);
      for (const heading of table.querySelectorAll("th[data-first]")) {
        const first = Number(heading.dataset.first), span = Number(heading.dataset.span);
        const shown = Array.from({ length: span }, (_, i) => String(first + i)).filter((column) => visible.has(column)).length;
        heading.hidden = !shown;
        if (shown) heading.colSpan = shown;
      }
    }
  }

  // ---- Set up the sections ----
  function redraw() {
    for (const chart of charts) chart.draw();
    for (const element of document.querySelectorAll("[data-swatch]")) {
      const section = sections[element.closest("[data-section]").dataset.section];
      const method = section.methods.find((m) => m.label === element.dataset.swatch);
      if (method) element.replaceChildren(swatch(method));
    }
  }
  for (const element of document.querySelectorAll("section[data-section]")) {
    const section = sections[element.dataset.section];
    section.off = new Set();
    const update = () => {
      for (const chip of element.querySelectorAll(".chip[data-method]")) chip.setAttribute("aria-pressed", String(!section.off.has(chip.dataset.method)));
      for (const row of element.querySelectorAll("tr[data-method]")) row.hidden = section.off.has(row.dataset.method);
      for (const chart of charts) if (chart.section === section) chart.draw();
    };
    for (const chip of element.querySelectorAll(".chip[data-method]")) {
      chip.addEventListener("click", () => {
        if (!section.off.delete(chip.dataset.method)) section.off.add(chip.dataset.method);
        update();
      });
    }
    element.querySelector(".chip.all")?.addEventListener("click", () => { section.off.clear(); update(); });
    element.querySelector(".chip.nothing")?.addEventListener("click", () => { section.off = new Set(section.methods.map((m) => m.label)); update(); });
    const filter = element.querySelector("input[type=search]");
    filter?.addEventListener("input", () => filterColumns(element, filter.value));
    for (const controls of element.querySelectorAll(".controls")) controls.hidden = false;
    element.querySelectorAll("figure.chart").forEach((figure) => charts.push(new Chart(figure, section, section.charts[figure.dataset.chart])));
  }

  addEventListener("pointerdown", (event) => { for (const chart of charts) if (!chart.svg?.contains(event.target)) chart.hide(); });

  // ---- Fade the end of what can be scrolled ----
  function cue(element) { element.classList.toggle("cut", element.scrollLeft + element.clientWidth < element.scrollWidth - 1); }
  const resized = new ResizeObserver((entries) => { for (const entry of entries) cue(entry.target.closest(".scroll, .chips")); });
  for (const element of document.querySelectorAll(".scroll, .chips")) {
    element.addEventListener("scroll", () => cue(element), { passive: true });
    for (const part of [element, element.firstElementChild]) resized.observe(part);
  }

  const dialog = document.querySelector("dialog");
  for (const button of document.querySelectorAll(".gallery button")) {
    button.addEventListener("click", () => {
      const picture = dialog.querySelector("img"), small = button.querySelector("img");
      picture.src = small.src;
      picture.alt = small.alt;
      dialog.showModal();
    });
  }
  dialog?.addEventListener("click", (event) => { if (event.target === dialog || event.target.tagName === "IMG") dialog.close(); });

  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code");
      try { await navigator.clipboard.writeText(text.textContent); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(text); button.textContent = "Selected"; }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
  addEventListener("beforeprint", () => { printing = true; redraw(); for (const part of document.querySelectorAll("details")) part.open = true; });
  addEventListener("afterprint", () => { printing = false; redraw(); });
  applyTheme();
})();
