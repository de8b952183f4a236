// The elements of a row: panels, legend and tools. Text is written, never parsed as markup.

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
  const selection = make("div", "selection", plot);
  const marks = ["cross column", "cross row", "cell"].map((name) => make("div", name, plot));
  const columnLabel = make("div", "label column-label", figure);
  const readout = make("div", "readout", figure);

  canvas.setAttribute("role", "img");
  plot.tabIndex = 0;
  // "application" lets the arrow keys through to the crosshair in screen readers.
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "matrix");
  const text = [rowTicks, columnTicks, rowLabel, columnLabel, readout];
  const seen = [...text, selection, ...boundaries, ...marks];
  for (const element of seen) element.setAttribute("aria-hidden", "true");
  return {
    figure, swatch, title, subtitle, rowLabel, plot, canvas,
    rowTicks, columnTicks, boundaries, selection, marks, columnLabel, readout,
  };
}

function makeLegend(root) {
  const legend = make("div", "legend", root);
  const scale = make("div", "scale", legend);
  const unit = make("span", "unit", scale);
  const bar = make("div", "bar", scale);
  const colours = make("canvas", "", bar);
  colours.setAttribute("aria-hidden", "true");
  const ticks = make("div", "ticks columns", bar);
  const blank = make("span", "key", legend);
  make("span", "hatch", blank);
  blank.append("no value");
  const boundary = make("span", "key", legend);
  make("span", "dash", boundary);
  const boundaryText = make("span", "", boundary);
  return { legend, unit, colours, ticks, blank, boundary, boundaryText };
}

function makeHints(root) {
  const hints = make("div", "hints", root);
  const free = make("span", "hint free", hints);
  const pinned = make("span", "hint pinned", hints);
  const lost = make("span", "hint lost", hints);
  const [read, release] = matchMedia("(pointer: coarse)").matches
    ? ["Tap a cell to read and pin it", "Pinned: tap the cell again to release"]
    : ["Point or use the arrow keys to read a cell; click to pin it, drag to zoom",
       "Pinned: click again or press Escape to release"];
  write(free, read);
  write(pinned, release);
  write(lost, "The zoomed region is no longer there: all cells are shown");
  return { lost };
}

/** Zoom and export as buttons: the way of a finger, and of anyone who finds them first. */
function makeTools(root) {
  const tools = make("div", "tools", root);
  const button = (text, name) => {
    const element = make("button", "tool", tools);
    element.type = "button";
    element.setAttribute("aria-label", name);
    element.title = name;
    write(element, text);
    return element;
  };
  return {
    nearer: button("+", "Zoom in"),
    farther: button("−", "Zoom out"),
    all: button("Show all", "Show all cells"),
    png: button("Save PNG", "Save PNG of this row"),
  };
}
