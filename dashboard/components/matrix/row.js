// One row of matrices: its panels, the cells they show, and the crosshair they share.

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
    this.tools = makeTools(this.root);
    this.legend = makeLegend(this.root);
    this.hints = makeHints(this.root);
    this.live = make("div", "live", this.root);
    this.live.setAttribute("role", "status");
    this.live.setAttribute("aria-live", "polite");
    this.views = []; // one bundle of elements per panel, kept over reruns
    this.panels = []; // as decoded
    this.region = null; // what is zoomed to, or null
    this.selection = null; // the region that a drag would zoom to, or null
    this.at = null; // the crosshair as positions { i, j }, or null
    this.last = null; // where it was, for the next visit by keyboard
    this.active = 0; // the panel that was pointed at or focused last
    this.pinned = false;
    this.cell = null; // the pinned cell that the page knows, as text, where it wants to
    this.paints = 0;
    this.input = new Input(this);
    this.shape = ""; // what the layout was made for
    watchSize(this.root, () => layOut(this));
  }

  /** Show a new payload in the elements that are there; crosshair and zoom stay where they were. */
  show(row) {
    ({ panels: this.panels, scale: this.scale, height: this.height, name: this.name } = row);
    ({ together: this.together, title: this.title } = row);
    ({ heading: this.heading = "", beside: this.beside = [] } = row);
    const saved = this.beside.length ? "Save PNG of this comparison" : "Save PNG of this row";
    this.tools.png.title = saved;
    this.tools.png.setAttribute("aria-label", saved);
    while (this.views.length > this.panels.length) this.views.pop().figure.remove();
    while (this.views.length < this.panels.length) this.addPanel();
    this.active = Math.min(this.active, this.panels.length - 1);
    this.keepRegion();
    this.panels.forEach((panel, n) => this.fill(this.views[n], panel));
    fillLegend(this.legend, this.scale, this.panels);
    this.frame();
    this.takeCell(row.cell);
    this.root.setAttribute("aria-label", row.text);
    this.root.dataset.panels = this.panels.length;
    this.root.dataset.paints = ++this.paints;
  }

  /** A preview as `show` takes it: values by their place in `values`, or as they were sent where they
   *  have none. The panels are new each time, for `show` notes on them what it drew. */
  expanded(preview, values, sent) {
    const panels = preview.panels.map((panel, n) => {
      if (panel.at !== null) return filled(panel, values[panel.at]);
      return { ...panel, kind: sent.panels[n].kind, values: sent.panels[n].values };
    });
    return { ...preview, panels };
  }

  addPanel() {
    const view = makePanel(this.grid);
    const index = this.views.push(view) - 1;
    this.input.listen(view.plot, index);
  }

  /** What is written around a panel, whatever part of it is shown. Equal values are the same ones. */
  fill(view, panel) {
    const same = view.panel?.kind === panel.kind && equal(view.panel.values, panel.values);
    panel.values = same ? view.panel.values : panel.values;
    panel.extent = same ? view.panel.extent : extent(panel.values);
    view.panel = panel;
    write(view.title, panel.title);
    write(view.subtitle, panel.subtitle);
    write(view.rowLabel, `↓ ${panel.rows.label}`);
    write(view.columnLabel, `${panel.columns.label} →`);
    view.swatch.hidden = !panel.color;
    view.swatch.style.backgroundColor = panel.color ?? "";
    const help = "arrow keys move the crosshair, Enter pins it, + and - zoom, 0 shows all";
    view.plot.setAttribute("aria-label", `${panel.title}: ${help}`);
  }

  // ---- Zoom ----

  /** Zoom to a region of positions, or show all cells where it is null or holds them all. */
  zoomTo(region) {
    const all = extentOf(this.panels);
    const whole = !region || (contains(region.i, all.i) && contains(region.j, all.j));
    this.region = whole ? null : region;
    this.root.classList.remove("lost");
    this.frame();
  }

  /** Zoom in (`factor` below 1) or out around the crosshair, as seen from one panel. */
  zoomBy(factor, index = this.active) {
    const { shown, rows, columns } = this.panels[index];
    const middle = this.at ?? this.resting(index);
    const all = factor < 1 ? { i: rows, j: columns } : extentOf(this.panels);
    this.zoomTo({
      i: scaled(shown.rows, factor, middle.i, all.i),
      j: scaled(shown.columns, factor, middle.j, all.j),
    });
  }

  /** Whether zooming in by one more step shows any cell larger. */
  canZoomIn(index = this.active) {
    const { rows, columns, blank } = this.panels[index].shown;
    return !blank && Math.max(rows.count, columns.count) > LEAST_CELLS;
  }

  /** After new data: a region that is still there stays; any other gives way to all cells. */
  keepRegion() {
    if (!this.region) return;
    const { i, j } = this.region;
    const there = ({ rows, columns }) => contains(rows, i) && contains(columns, j);
    if (this.panels.some(there)) return;
    this.region = null;
    this.root.classList.add("lost");
    write(this.live, this.hints.lost.textContent);
  }

  /** Paint the cells of the region and everything that depends on which they are. */
  frame() {
    this.panels.forEach((panel, n) => {
      panel.shown = shownOf(panel, this.region);
      this.framePanel(panel, this.views[n]);
    });
    const lines = this.views.flatMap((view) => view.boundaries);
    const crossed = lines.some((line) => !line.hidden);
    this.legend.boundary.style.visibility = crossed ? "" : "hidden";
    const { i, j } = this.region ?? {};
    if (i) this.root.dataset.zoom = [i.start, i.count, j.start, j.count].join(" ");
    else delete this.root.dataset.zoom;
    this.drawTools();
    this.fit();
    this.drawCrosshair();
    this.drawSelection();
  }

  /** Lay out cells that have another shape. A row that reads its width makes the browser lay out the whole
   *  page at once; where the width changes, the observer tells. */
  fit() {
    const shapes = this.panels.map(({ rows, columns, features, shown }) => [rows, columns, features, shown]);
    const shape = JSON.stringify([shapes, this.height, this.together]);
    if (shape !== this.shape) layOut(this);
    this.shape = shape;
  }

  framePanel(panel, view) {
    const { rows, columns } = panel.shown;
    const cells = JSON.stringify([panel.shown, this.scale]);
    if (view.values !== panel.values || view.cells !== cells) paint(view.canvas, panel, this.scale);
    Object.assign(view, { values: panel.values, cells });
    view.plot.style.setProperty("--rows", rows.count);
    view.plot.style.setProperty("--columns", columns.count);
    view.boundaries.forEach((line, n) => {
      // Columns that are features have no training length.
      const boundary = !n && panel.features ? null : panel.boundary;
      const fraction = boundaryOn(n ? rows : columns, boundary);
      line.hidden = fraction === null;
      line.style.setProperty("--at", fraction);
    });
    const whole = [panel.title, span("rows", panel.rows), span("columns", panel.columns)];
    const part = this.region ? `, zoomed to ${span("rows", rows)}, ${span("columns", columns)}` : "";
    const name = `${whole.join(", ")}, ${this.scale.unit} ${range(panel)}${part}`;
    view.canvas.setAttribute("aria-label", name);
  }

  /** Buttons that would change nothing say so, and stay focusable. */
  drawTools() {
    const { nearer, farther, all } = this.tools;
    nearer.setAttribute("aria-disabled", !this.canZoomIn());
    farther.setAttribute("aria-disabled", !this.region);
    all.setAttribute("aria-disabled", !this.region);
  }

  // ---- Crosshair ----

  moveTo(at) {
    this.at = at;
    if (at) {
      this.last = at;
      this.root.classList.remove("lost");
    }
    this.drawCrosshair();
  }

  /** Bring a cell outside the region into it, as the arrow keys walk over its edge. */
  follow({ i, j }) {
    if (!this.region) return;
    const moved = { i: following(this.region.i, i), j: following(this.region.j, j) };
    if (moved.i.start !== this.region.i.start || moved.j.start !== this.region.j.start) {
      this.zoomTo(moved);
    }
  }

  pin(pinned) {
    this.pinned = pinned;
    this.root.classList.toggle("pinned", pinned);
  }

  /** Pin the cell that the page names, unless it is the one known already. */
  takeCell(cell) {
    if (!cell || String(cell) === this.cell) return;
    this.cell = String(cell);
    const [i, j] = cell;
    this.pin(i > 0 || j > 0);
    this.moveTo(this.pinned ? { i, j } : null);
  }

  /** Tell the page which cell a visitor pinned, where it wants to know. */
  sendCell() {
    if (this.cell === null || !this.pinned) return;
    const cell = [this.at.i, this.at.j];
    this.cell = String(cell);
    this.send(cell);
  }

  drawCrosshair() {
    this.panels.forEach((panel, n) => this.drawCrosshairIn(panel, this.views[n]));
  }

  drawCrosshairIn(panel, view) {
    const cell = this.at && cellOf(panel.shown, this.at);
    for (const mark of view.marks) mark.hidden = !cell;
    if (cell) {
      view.plot.style.setProperty("--row", (cell.r + 0.5) / panel.shown.rows.count);
      view.plot.style.setProperty("--column", (cell.c + 0.5) / panel.shown.columns.count);
    }
    view.readout.classList.toggle("idle", !this.at);
    write(view.readout, this.at ? this.read(panel, this.at) : range(panel));
  }

  /** The rectangle that a drag would zoom to, in every panel. */
  select(region) {
    this.selection = region;
    this.drawSelection();
  }

  drawSelection() {
    this.panels.forEach(({ shown }, n) => {
      const { selection } = this.views[n];
      const part = this.selection && !shown.blank && shownOf(shown, this.selection);
      selection.hidden = !part || part.blank;
      if (selection.hidden) return;
      const side = (axis, whole) => [axis.skip / whole.count, axis.count / whole.count];
      const [top, height] = side(part.rows, shown.rows);
      const [left, width] = side(part.columns, shown.columns);
      for (const [name, fraction] of Object.entries({ top, left, height, width })) {
        selection.style[name] = `${100 * fraction}%`;
      }
    });
  }

  // ---- Values ----

  valueText(panel, at) {
    const cell = cellOf(panel, at);
    if (!cell) return "not drawn";
    const value = entry(panel, cell.r, cell.c);
    return panel.rows.ticks && value === value ? brief(value) : exact(value);
  }

  placeText({ rows, columns }, { i, j }) {
    return `${rows.label} ${nameOf(rows, i)}, ${columns.label} ${nameOf(columns, j)}`;
  }

  read(panel, at) {
    const cell = cellOf(panel, at);
    const value = cell ? entry(panel, cell.r, cell.c) : NaN;
    const known = value === value;
    if (this.cell !== null) {
      const text = known ? brief(value) : "no value";
      return `query ${at.i}, key ${at.j}, distance ${Math.abs(at.i - at.j)}: ${text}`;
    }
    if (panel.rows.ticks) return `${this.placeText(panel, at)}: ${this.valueText(panel, at)}`;
    return `(${at.i}, ${at.j})${known ? " =" : ":"} ${this.valueText(panel, at)}`;
  }

  /** Say the values aloud: only after a key, else every move of the mouse would speak. */
  announce(index) {
    const values = this.panels.map((panel) => `${panel.title} ${this.valueText(panel, this.at)}`);
    write(this.live, `${this.placeText(this.panels[index], this.at)}: ${values.join("; ")}`);
  }

  announceZoom() {
    const { rows, columns } = this.panels[this.active].shown;
    const part = `${span("rows", rows)}, ${span("columns", columns)}`;
    write(this.live, this.region ? `Zoomed to ${part}` : "All cells are shown");
  }

  /** Where a crosshair starts that no pointer has placed: where it was, else the middle. */
  resting(index) {
    const { shown } = this.panels[index];
    if (this.last && cellOf(shown, this.last)) return this.last;
    const middle = ({ start, count }) => start + Math.floor(count / 2);
    const panel = shown.blank ? this.panels[index] : shown;
    return { i: middle(panel.rows), j: middle(panel.columns) };
  }
}

/** The 0-based cell of positions { i, j }, or null where these axes have none. */
function cellOf({ rows, columns, blank }, { i, j }) {
  const [r, c] = [i - rows.start, j - columns.start];
  const inside = r >= 0 && r < rows.count && c >= 0 && c < columns.count;
  return inside && !blank ? { r, c } : null;
}
