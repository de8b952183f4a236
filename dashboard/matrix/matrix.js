// Draws a row of matrices, one canvas each, under one colour scale and one crosshair.
//
// Only the cells live on the canvas, one pixel per cell, and the browser enlarges them to whole
// squares at any pixel density. All else (ticks, lines, text) is ordinary markup styled by the
// page's own colours, so a change of theme needs no code and repaints nothing.
//
// Positions (i, j) are query and key; a panel's `start` says which position its first cell is.

const SHARED = Symbol.for("posenc.matrix");
const SHADES = 255; // odd, so that the middle of a diverging scale is exactly its neutral colour
const MIN_PANEL = 200; // CSS pixels: below this a panel moves to the next line
const MAX_PLOT = 480;
const GAP = 20;

// ---- Data ------------------------------------------------------------------------------------

/** Split the payload into its header and one Float32Array per panel (layout: payload.py). */
function decode(bytes) {
  // A copy aligns the values: the message may start at any byte. Every browser's machine is
  // little-endian, as the payload is.
  const buffer = bytes.slice().buffer;
  const length = new DataView(buffer).getUint32(0, true);
  const row = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  for (const panel of row.panels) {
    panel.values = new Float32Array(buffer, offset, panel.count);
    offset += 4 * panel.count;
  }
  return row;
}

/** Where entry (r, c), counted from 0, lies in each kind's values. */
const INDEX = {
  curve: (panel, r, c) => c - r + panel.rows.count - 1,
  triangle: (panel, r, c) => (r < c ? (c * (c + 1)) / 2 + r : (r * (r + 1)) / 2 + c),
  full: (panel, r, c) => r * panel.columns.count + c,
};

const entry = (panel, r, c) => panel.values[INDEX[panel.kind](panel, r, c)];

/** Smallest and largest number of `values` (low > high where all are blank), and any blanks. */
function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  let blank = false;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
    if (value !== value) blank = true;
  }
  return { low, high, blank };
}

// ---- Colour ----------------------------------------------------------------------------------

// Stops in OKLCh (lightness, chroma, hue in degrees). Lightness rises along each ramp and the
// steps between shades are equal in OKLab, so equal differences of value look equal, and the
// order survives every kind of colour blindness.
const SEQUENTIAL = [
  [0.22, 0.09, 290],
  [0.42, 0.115, 262],
  [0.6, 0.095, 210],
  [0.76, 0.13, 155],
  [0.93, 0.17, 108],
];
const BLUE = [
  [0.42, 0.14, 258],
  [0.7, 0.11, 245],
  [0.95, 0, 245],
];
const ORANGE = [
  [0.42, 0.11, 42],
  [0.7, 0.14, 58],
  [0.95, 0, 58],
];

function oklab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** The colour between stops at `t` in [0, stops - 1], linear in lightness, chroma and hue. */
function between(stops, t) {
  const k = Math.min(Math.floor(t), stops.length - 2);
  return oklab(stops[k].map((from, axis) => from + (t - k) * (stops[k + 1][axis] - from)));
}

/** `count` OKLab colours along `stops`, equally far from each other. */
function ramp(stops, count) {
  const fine = 1000;
  const last = stops.length - 1;
  const path = Array.from({ length: fine + 1 }, (_, n) => between(stops, (n / fine) * last));
  const walked = [0];
  for (let n = 1; n <= fine; n++) {
    const step = path[n].map((value, axis) => value - path[n - 1][axis]);
    walked.push(walked[n - 1] + Math.hypot(...step));
  }
  let n = 0;
  return Array.from({ length: count }, (_, shade) => {
    const target = (shade / (count - 1)) * walked[fine];
    while (n < fine && walked[n] < target) n++;
    return path[n];
  });
}

/** One OKLab colour as a canvas pixel (Ottosson 2020, then the sRGB transfer curve). */
function pixel([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const [red, green, blue] = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const clipped = Math.min(Math.max(linear, 0), 1);
    const coded = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(255 * coded);
  });
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function diverging() {
  const half = (SHADES + 1) / 2;
  return [...ramp(BLUE, half), ...ramp(ORANGE, half).reverse().slice(1)];
}

const SHADE_TABLES = {
  sequential: Uint32Array.from(ramp(SEQUENTIAL, SHADES), pixel),
  diverging: Uint32Array.from(diverging(), pixel),
};

/** The pixels of `values`; a blank stays 0, transparent, and shows the hatching behind. */
function shade(values, { low, high, kind }) {
  const table = SHADE_TABLES[kind];
  const pixels = new Uint32Array(values.length);
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    if (value !== value) continue;
    const t = Math.min(Math.max((value - low) / (high - low), 0), 1);
    pixels[n] = table[Math.round(t * (SHADES - 1))];
  }
  return pixels;
}

/** Expand shaded values to the whole matrix, the same way as INDEX reads them. */
const EXPAND = {
  curve(pixels, image, rows) {
    for (let r = 0; r < rows; r++) {
      image.set(pixels.subarray(rows - 1 - r, 2 * rows - 1 - r), r * rows);
    }
  },
  triangle(pixels, image, rows) {
    for (let r = 0, n = 0; r < rows; r++) {
      for (let c = 0; c <= r; c++, n++) image[r * rows + c] = image[c * rows + r] = pixels[n];
    }
  },
  full: (pixels, image) => image.set(pixels),
};

function paint(canvas, panel, scale) {
  const [rows, columns] = [panel.rows.count, panel.columns.count];
  // Setting a size clears the canvas, even to the same size: that would flicker.
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== rows) canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  EXPAND[panel.kind](shade(panel.values, scale), new Uint32Array(image.data.buffer), rows);
  context.putImageData(image, 0, 0);
}

function paintLegend(canvas, kind) {
  canvas.width = SHADES;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(SHADES, 1);
  new Uint32Array(image.data.buffer).set(SHADE_TABLES[kind]);
  context.putImageData(image, 0, 0);
}

// ---- Numbers and ticks -----------------------------------------------------------------------

/** The shortest decimal of 6 to 9 digits that names this float32 and no other. */
function exact(value) {
  if (value !== value) return "no value";
  for (let digits = 6; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(text) === value) return text;
  }
  return value.toPrecision(9);
}

const brief = (value) => String(Number(value.toPrecision(3)));

/** The smallest of 1, 2, 5, 10, 20, ... that is at least `least`. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9));
}

/** Ticks of an axis drawn `pixels` long, as [fraction, text], at least `room` pixels apart. */
function axisTicks(axis, pixels, room) {
  const least = Math.max((room * axis.count) / pixels, 1);
  const shown = axis.ticks ? spaced(axis.ticks, least) : roundTicks(axis, least);
  return shown.map(([index, text]) => [(index + 0.5) / axis.count, text]);
}

function roundTicks({ count, start }, least) {
  const step = roundStep(least);
  const shown = [];
  for (let at = Math.ceil(start / step) * step; at < start + count; at += step) {
    shown.push([at - start, String(at)]);
  }
  return shown;
}

function spaced(ticks, least) {
  const shown = [];
  for (const tick of [...ticks].sort((one, other) => one[0] - other[0])) {
    if (!shown.length || tick[0] - shown.at(-1)[0] >= least) shown.push(tick);
  }
  return shown;
}

/** Ticks of the colour bar, as [fraction, text]: both ends, and round numbers well between. */
function legendTicks({ low, high }) {
  const step = roundStep((high - low) / 4);
  const inner = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) {
    const fraction = (n * step - low) / (high - low);
    if (fraction > 0.15 && fraction < 0.85) inner.push([fraction, brief(n * step)]);
  }
  return [[0, brief(low)], ...inner, [1, brief(high)]];
}

// ---- Markup ----------------------------------------------------------------------------------

function make(tag, className, parent) {
  const element = document.createElement(tag);
  element.className = className;
  parent.append(element);
  return element;
}

/** Writing only what changed keeps selections and spares the browser a layout. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Place `texts`, as [fraction, text], along `axis`, reusing the elements that are there. */
function placeTicks(axis, texts) {
  while (axis.children.length > texts.length) axis.lastChild.remove();
  texts.forEach(([fraction, text], n) => {
    const tick = axis.children[n] ?? make("span", "tick", axis);
    tick.style.setProperty("--at", fraction);
    write(tick, text);
  });
}

function makePanel(parent) {
  const figure = make("figure", "panel", parent);
  const caption = make("figcaption", "title", figure);
  const swatch = make("span", "swatch", caption);
  const title = make("span", "", caption);
  const subtitle = make("div", "subtitle", figure);
  const rowLabel = make("div", "label row-label", figure);
  const plot = make("div", "plot", figure);
  const canvas = make("canvas", "", plot);
  const rowTicks = make("div", "ticks rows", plot);
  const columnTicks = make("div", "ticks columns", plot);
  const boundaries = [make("div", "boundary column", plot), make("div", "boundary row", plot)];
  const marks = ["cross column", "cross row", "cell"].map((name) => make("div", name, plot));
  const columnLabel = make("div", "label column-label", figure);
  const readout = make("div", "readout", figure);

  canvas.setAttribute("role", "img");
  plot.tabIndex = 0;
  // "application" lets the arrow keys through to the crosshair in screen readers.
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "matrix");
  const seen = [rowTicks, columnTicks, rowLabel, columnLabel, readout, ...boundaries, ...marks];
  for (const element of seen) element.setAttribute("aria-hidden", "true");
  return {
    figure, swatch, title, subtitle, rowLabel, plot, canvas,
    rowTicks, columnTicks, boundaries, marks, columnLabel, readout,
  };
}

function makeLegend(root) {
  const legend = make("div", "legend", root);
  const keys = make("div", "keys", legend);
  const scale = make("div", "scale", keys);
  const unit = make("span", "unit", scale);
  const bar = make("div", "bar", scale);
  const colours = make("canvas", "", bar);
  colours.setAttribute("aria-hidden", "true");
  const ticks = make("div", "ticks columns", bar);
  const blank = make("span", "key", keys);
  make("span", "hatch", blank);
  blank.append("no value");
  const boundary = make("span", "key", keys);
  make("span", "dash", boundary);
  const boundaryText = make("span", "", boundary);
  const hints = make("div", "hints", legend);
  const free = make("span", "hint free", hints);
  const pinned = make("span", "hint pinned", hints);
  write(free, "Point, tap or use the arrow keys to read a cell; a click pins it");
  write(pinned, "Pinned: click again or press Escape to release");
  return { unit, colours, ticks, blank, boundary, boundaryText };
}

// ---- One row of matrices ---------------------------------------------------------------------

class Row {
  constructor(parent, style) {
    // Left over from older code of this module, after an update of a running app.
    parent.querySelector(".matrix-row")?.remove();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    parent.adoptedStyleSheets = [sheet];

    this.root = make("section", "matrix-row", parent);
    this.root.setAttribute("role", "group");
    this.grid = make("div", "panels", this.root);
    this.legend = makeLegend(this.root);
    this.live = make("div", "live", this.root);
    this.live.setAttribute("role", "status");
    this.live.setAttribute("aria-live", "polite");
    this.views = []; // one bundle of elements per panel, kept over reruns
    this.panels = []; // as decoded
    this.at = null; // the crosshair as positions { i, j }, or null
    this.last = null; // where it was, for the next visit by keyboard
    this.pinned = false;
    this.pointed = false; // whether the pointer, not a key, moved the crosshair last
    this.paints = 0;
    new ResizeObserver(() => this.layout()).observe(this.root);
  }

  /** Show a new payload in the elements that are there; the crosshair stays where it was. */
  show(row) {
    ({ panels: this.panels, scale: this.scale, height: this.height } = row);
    while (this.views.length > this.panels.length) this.views.pop().figure.remove();
    while (this.views.length < this.panels.length) this.addPanel();
    this.panels.forEach((panel, n) => this.fill(this.views[n], panel));
    this.fillLegend();
    this.layout();
    this.drawCrosshair();
    this.root.setAttribute("aria-label", row.text);
    this.root.dataset.panels = this.panels.length;
    this.root.dataset.paints = ++this.paints;
  }

  addPanel() {
    const view = makePanel(this.grid);
    const index = this.views.push(view) - 1;
    const on = (type, handler) => view.plot.addEventListener(type, handler);
    on("pointermove", (event) => this.point(event, index));
    on("pointerleave", (event) => this.leave(event));
    on("click", (event) => this.click(event, index));
    on("keydown", (event) => this.key(event, index));
    on("blur", (event) => this.blur(event));
  }

  fill(view, panel) {
    const { rows, columns } = panel;
    panel.extent = extent(panel.values);
    paint(view.canvas, panel, this.scale);
    view.plot.style.setProperty("--rows", rows.count);
    view.plot.style.setProperty("--columns", columns.count);
    write(view.title, panel.title);
    write(view.subtitle, panel.subtitle);
    write(view.rowLabel, `↓ ${rows.label}`);
    write(view.columnLabel, `${columns.label} →`);
    view.swatch.hidden = !panel.color;
    view.swatch.style.backgroundColor = panel.color ?? "";
    view.boundaries.forEach((line, n) => {
      const axis = n ? rows : columns;
      const fraction = (panel.boundary - axis.start) / axis.count;
      const unbounded = panel.boundary === null || (!n && panel.features);
      line.hidden = unbounded || fraction <= 0 || fraction >= 1;
      line.style.setProperty("--at", fraction);
    });
    const name = [panel.title, span("rows", rows), span("columns", columns), this.scale.unit];
    view.canvas.setAttribute("aria-label", `${name.join(", ")} ${range(panel)}`);
    const help = "arrow keys move the crosshair, Enter pins it";
    view.plot.setAttribute("aria-label", `${panel.title}: ${help}`);
  }

  fillLegend() {
    const { unit, colours, ticks, blank, boundary, boundaryText } = this.legend;
    const { low, high, kind } = this.scale;
    if (this.legend.kind !== kind) paintLegend(colours, kind);
    this.legend.kind = kind;
    write(unit, this.scale.unit);
    const texts = legendTicks(this.scale);
    const extents = this.panels.map((panel) => panel.extent);
    // An end that stands for everything beyond it says so.
    const [first, last] = [texts[0], texts.at(-1)];
    if (extents.some((each) => each.low < Math.fround(low))) first[1] = `≤ ${first[1]}`;
    if (extents.some((each) => each.high > Math.fround(high))) last[1] = `≥ ${last[1]}`;
    placeTicks(ticks, texts);
    blank.hidden = !extents.some((each) => each.blank);
    const lengths = this.panels.map((panel) => panel.boundary).filter((length) => length !== null);
    const length = new Set(lengths).size === 1 ? lengths[0] : "";
    boundary.hidden = !this.views.some((view) => view.boundaries.some((line) => !line.hidden));
    write(boundaryText, `training length ${length}`);
  }

  /** Fit columns, plots and ticks to the width at hand. */
  layout() {
    const width = this.root.clientWidth;
    if (!width || !this.panels.length) return; // inside a hidden tab: the observer calls again
    const most = Math.max(1, Math.floor((width + GAP) / (MIN_PANEL + GAP)));
    // Even lines: four panels where three fit are two lines of two, not three and one.
    const across = Math.ceil(this.panels.length / Math.ceil(this.panels.length / most));
    const gutter = 14 + 7 * Math.max(...this.panels.map(({ rows }) => longestTick(rows)));
    const room = (width - GAP * (across - 1)) / across - gutter;
    this.panels.forEach((panel, n) => this.layoutPanel(panel, this.views[n], room));
    const plots = this.views.map((view) => view.width);
    this.grid.style.setProperty("--across", across);
    this.grid.style.setProperty("--gutter", `${gutter}px`);
    this.grid.style.setProperty("--panel", `${gutter + Math.max(...plots)}px`);
  }

  layoutPanel({ rows, columns }, view, room) {
    const width = wholeCells(Math.min(room, MAX_PLOT), columns.count);
    const height = wholeCells(this.height ?? Math.min(room, MAX_PLOT), rows.count);
    view.width = width;
    view.figure.style.setProperty("--plot", `${width}px`);
    view.plot.style.height = `${height}px`;
    // More cells than pixels: averaging shows what picking single cells would hide.
    const dense = Math.max(columns.count / width, rows.count / height) > devicePixelRatio;
    view.canvas.classList.toggle("dense", dense);
    placeTicks(view.columnTicks, axisTicks(columns, width, 18 + 7 * longestTick(columns)));
    placeTicks(view.rowTicks, axisTicks(rows, height, 26));
  }

  // ---- Crosshair ----

  /** The positions under the pointer, in the panel numbered `index`. */
  cellUnder(event, index) {
    const { rows, columns } = this.panels[index];
    const box = this.views[index].canvas.getBoundingClientRect();
    const down = Math.floor(((event.clientY - box.top) / box.height) * rows.count);
    const right = Math.floor(((event.clientX - box.left) / box.width) * columns.count);
    return { i: within(rows.start + down, rows), j: within(columns.start + right, columns) };
  }

  moveTo(at) {
    this.at = at;
    if (at) this.last = at;
    this.drawCrosshair();
  }

  pin(pinned) {
    this.pinned = pinned;
    this.root.classList.toggle("pinned", pinned);
  }

  drawCrosshair() {
    this.panels.forEach((panel, n) => this.drawCrosshairIn(panel, this.views[n]));
  }

  drawCrosshairIn(panel, view) {
    const cell = this.at && this.cellOf(panel, this.at);
    for (const mark of view.marks) mark.hidden = !cell;
    if (cell) {
      view.plot.style.setProperty("--row", (cell.r + 0.5) / panel.rows.count);
      view.plot.style.setProperty("--column", (cell.c + 0.5) / panel.columns.count);
    }
    view.readout.classList.toggle("idle", !this.at);
    write(view.readout, this.at ? this.read(panel, this.at) : range(panel));
  }

  /** The 0-based cell of positions { i, j }, or null where this panel has none. */
  cellOf({ rows, columns }, { i, j }) {
    const [r, c] = [i - rows.start, j - columns.start];
    return r >= 0 && r < rows.count && c >= 0 && c < columns.count ? { r, c } : null;
  }

  valueText(panel, at) {
    const cell = this.cellOf(panel, at);
    return cell ? exact(entry(panel, cell.r, cell.c)) : "not drawn";
  }

  read(panel, at) {
    const text = this.valueText(panel, at);
    return `(${at.i}, ${at.j})${Number.isNaN(Number(text)) ? ":" : " ="} ${text}`;
  }

  /** Say the values aloud: only after a key, else every move of the mouse would speak. */
  announce(index) {
    const { rows, columns } = this.panels[index];
    const values = this.panels.map((panel) => `${panel.title} ${this.valueText(panel, this.at)}`);
    const place = `${rows.label} ${this.at.i}, ${columns.label} ${this.at.j}`;
    write(this.live, `${place}: ${values.join("; ")}`);
  }

  // ---- Input ----

  point(event, index) {
    if (this.pinned) return;
    this.pointed = true;
    this.moveTo(this.cellUnder(event, index));
  }

  leave(event) {
    // A finger that lifts also leaves; what it pointed at stays readable. And a page that scrolls
    // from under a resting mouse must not take away what the keys have reached.
    if (this.pointed && !this.pinned && event.pointerType !== "touch") this.moveTo(null);
  }

  click(event, index) {
    const at = this.cellUnder(event, index);
    const same = this.at && this.at.i === at.i && this.at.j === at.j;
    // A finger cannot hover, so a tap elsewhere moves the pin instead of releasing it.
    this.pin(event.pointerType === "touch" ? !(this.pinned && same) : !this.pinned);
    this.moveTo(event.pointerType === "touch" && !this.pinned ? null : at);
  }

  blur(event) {
    if (!this.pinned && !this.root.contains(event.relatedTarget)) this.moveTo(null);
  }

  key(event, index) {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Escape") {
      this.pin(false);
      this.moveTo(null);
    } else if (event.key === "Enter" || event.key === " ") {
      this.pin(!this.pinned);
      this.moveTo(this.at ?? this.resting(index));
    } else {
      const at = this.stepped(event, index);
      if (!at) return;
      this.pointed = false;
      this.moveTo(at);
      this.announce(index);
    }
    // The page must not scroll, nor Streamlit take the key as a shortcut.
    event.preventDefault();
    event.stopPropagation();
  }

  /** Where this key moves the crosshair, or null for a key that is not ours. */
  stepped(event, index) {
    const { rows, columns } = this.panels[index];
    const from = this.at ?? this.resting(index);
    const step = event.shiftKey ? 10 : 1;
    const all = columns.count;
    const down = { ArrowUp: -step, ArrowDown: step }[event.key] ?? 0;
    const right =
      { ArrowLeft: -step, ArrowRight: step, Home: -all, End: all }[event.key] ?? 0;
    if (!down && !right) return null;
    return { i: within(from.i + down, rows), j: within(from.j + right, columns) };
  }

  /** Where a crosshair starts that no pointer has placed: where it was, else the middle. */
  resting(index) {
    const panel = this.panels[index];
    if (this.last && this.cellOf(panel, this.last)) return this.last;
    const middle = ({ start, count }) => start + Math.floor(count / 2);
    return { i: middle(panel.rows), j: middle(panel.columns) };
  }
}

function range({ extent: { low, high } }) {
  return low <= high ? `from ${brief(low)} to ${brief(high)}` : "no values";
}

const within = (position, { start, count }) =>
  Math.min(Math.max(position, start), start + count - 1);

function span(name, { count, start, label }) {
  return `${count} ${name} (${label} ${start} to ${start + count - 1})`;
}

function longestTick({ count, start, ticks }) {
  if (ticks) return Math.max(0, ...ticks.map(([, text]) => text.length));
  return Math.max(String(start).length, String(start + count - 1).length);
}

/** `size` in CSS pixels, trimmed so that every cell covers as many device pixels as its neighbour,
 *  unless that would cost more than an eighth of the size. */
function wholeCells(size, count) {
  const device = Math.floor(size * devicePixelRatio);
  const whole = Math.floor(device / count) * count;
  return (whole > device * 0.875 ? whole : device) / devicePixelRatio;
}

// ---- Entry -----------------------------------------------------------------------------------

const rows = new WeakMap(); // shadow root -> Row: a rerun with the same key finds its row again

function draw({ parentElement, data }, style) {
  if (!data) return;
  let row = rows.get(parentElement);
  if (!row) rows.set(parentElement, (row = new Row(parentElement, style)));
  row.show(decode(data));
}

/** Called with the style sheet when this code arrives; rows that came first are waiting.
 *  Nothing is cleaned up: listeners and observer hold only this row's own elements, and Streamlit
 *  also runs the cleanup of a call that a newer one overtook, which must not stop the newer. */
export default function ({ data }) {
  const shared = (globalThis[SHARED] ??= { waiting: new Map() });
  shared.draw = (component) => draw(component, data.style);
  for (const component of shared.waiting.values()) shared.draw(component);
  shared.waiting.clear();
}
