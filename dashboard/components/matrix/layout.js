// Columns, plots and ticks of a row, fitted to the width at hand.

const MIN_PANEL = 200; // CSS pixels: below this a panel moves to the next line
const MAX_PLOT = 480;
const GAP = 20;
const NAME_HEIGHT = 1.5; // widths of a digit: the least room of one name beside others
const MIN_LEGEND = 66; // digits: below this, colour bar and tools do not fit on one line

/** Fit columns, plots and ticks of a row. */
function layOut({ root, grid, panels, views, height, together }) {
  const width = root.clientWidth;
  if (!width || !panels.length) return; // inside a hidden tab: the observer calls again
  const letter = letterWidth(views[0].rowTicks);
  root.classList.toggle("narrow", width < MIN_LEGEND * letter);
  const gutter = 14 + letter * Math.max(...panels.map(({ rows }) => longestTick(rows)));
  // A column is as wide as its name is high, which may stand upright.
  const names = Math.max(...panels.map(({ columns }) => columns.ticks?.length ?? 0));
  const least = Math.max(MIN_PANEL, gutter + NAME_HEIGHT * letter * names);
  const most = Math.max(1, Math.floor((width + GAP) / (least + GAP)));
  // Even lines: four panels where three fit are two lines of two, not three and one.
  const group = most < together ? 1 : together;
  const groups = Math.ceil(panels.length / group);
  const across = group * Math.ceil(groups / Math.ceil(groups / Math.floor(most / group)));
  const room = (width - GAP * (across - 1)) / across - gutter;
  const widths = panels.map((panel, n) => layOutPanel(panel, views[n], room, height, letter));
  grid.style.setProperty("--across", across);
  grid.style.setProperty("--gutter", `${gutter}px`);
  grid.style.setProperty("--panel", `${gutter + Math.max(...widths)}px`);
}

/** Returns the width that the whole matrix takes; a zoomed one never takes more. */
function layOutPanel(panel, view, room, asked, letter) {
  const most = Math.min(room, MAX_PLOT);
  // Columns that are features need not be as wide as rows are high.
  const fullWidth = wholeCells(panel.features ? room : most, panel.columns.count);
  const named = panel.rows.ticks ? NAME_HEIGHT * letter * panel.rows.count : 0;
  const fullHeight = wholeCells(Math.max(asked ?? most, named), panel.rows.count);
  const { rows, columns } = panel.shown;
  const width = wholeCells(fullWidth, columns.count);
  const height = wholeCells(fullHeight, rows.count);
  view.figure.style.setProperty("--plot", `${width}px`);
  view.plot.style.height = `${height}px`;
  // What is below stays where it is, but for the label of the axis.
  view.plot.style.marginBottom = `${fullHeight - height}px`;
  view.columnLabel.style.translate = `0 ${height - fullHeight}px`;
  // More cells than pixels: averaging shows what picking single cells would hide.
  const dense = Math.max(columns.count / width, rows.count / height) > devicePixelRatio;
  view.canvas.classList.toggle("dense", dense);
  const space = (columns.ticks ? 8 : 18) + letter * longestTick(columns);
  // Names of all columns that do not fit beside each other stand upright, where that helps.
  const beside = space * columns.count <= width;
  const fit = NAME_HEIGHT * letter * columns.count <= width;
  const upright = columns.ticks?.length === columns.count && !beside && fit;
  view.columnTicks.classList.toggle("upright", upright);
  const below = upright ? `${letter * longestTick(columns)}px` : "var(--picture-text, 0.75rem)";
  view.figure.style.setProperty("--names", below);
  placeTicks(view.columnTicks, axisTicks(columns, width, space));
  placeTicks(view.rowTicks, axisTicks(rows, height, Math.max(26, 2.6 * letter)));
  return fullWidth;
}

/** The width of a digit, in CSS pixels. */
function letterWidth(ticks) {
  return Math.max(7, 0.6 * parseFloat(getComputedStyle(ticks).fontSize));
}

/** How far along `axis` the training length lies, from 0 to 1; null where no line is drawn. */
function boundaryOn(axis, boundary) {
  if (boundary === null || axis.blank) return null;
  const fraction = (boundary - axis.start) / axis.count;
  return fraction > 0 && fraction < 1 ? fraction : null;
}

/** Call `changed` when an element's size changes, in CSS pixels or in those of the screen. */
function watchSize(element, changed) {
  const observer = new ResizeObserver(changed);
  // Moving a window to a denser screen changes no CSS pixel. Where that cannot be observed
  // (Safari), the next change of width puts the cells right.
  const dense = "devicePixelContentBoxSize" in ResizeObserverEntry.prototype;
  observer.observe(element, { box: dense ? "device-pixel-content-box" : "content-box" });
}
