// Lines and dots of charts at another stop of a slider, while it is dragged.
//
// A chart is drawn by Streamlit, which offers no way to it. Vega notes what it draws on the elements of its
// SVG, and from there its view is reached. Where a later version does not, charts wait for the server.

const ARRIVING = 400; // milliseconds in which Streamlit draws what has arrived

const awaited = new Map(); // by chart: the rows that it shall show
const touched = new Map(); // by chart: its element and view, and the rows that the server sent
let drawing = false;

const dragged = () => Boolean(document.querySelector(".stSlider [data-dragging]"));

/** The view of a chart, if it can be reached. */
function viewOf(element) {
  for (const group of element.querySelectorAll("svg g")) {
    const item = group.__data__;
    const view = item?.context?.dataflow ?? item?.mark?.group?.context?.dataflow;
    if (view) return view;
  }
  return null;
}

/** The charts in the window by their keys, which `render` gives to what is around them. */
function chartsInWindow() {
  const found = new Map();
  for (const box of document.querySelectorAll("[data-testid=stMain] [class*=st-key-chart_]")) {
    const element = box.querySelector(".stVegaLiteChart");
    const { top, bottom } = element.getBoundingClientRect();
    const view = bottom > 0 && top < innerHeight ? viewOf(element) : null;
    if (view) found.set(box.className.match(/st-key-chart_(\S+)/)[1], { element, view });
  }
  return found;
}

/** Rows of columns, as Vega takes them. */
function rowsOf(columns) {
  const names = Object.keys(columns);
  const rows = columns[names[0]] ?? [];
  return rows.map((_, n) => Object.fromEntries(names.map((name) => [name, columns[name][n]])));
}

/** Let charts show the rows of a stop: the newest wins, one chart in a frame, after the matrices. */
function followCharts(pictures) {
  for (const [name, { element }] of chartsInWindow()) {
    if (!pictures.has(name)) continue;
    const rows = pictures.get(name)() ?? touched.get(name)?.sent; // null: those that the server drew
    if (rows) awaited.set(name, rows);
    else element.classList.add("follows");
  }
  if (!drawing) drawAwaited();
}

async function drawAwaited() {
  drawing = true;
  try {
    while (awaited.size) {
      await new Promise(requestAnimationFrame);
      const [[name, rows] = []] = awaited; // none where the slider was released meanwhile
      awaited.delete(name);
      const chart = chartsInWindow().get(name);
      if (chart) await pour(name, chart, rows);
    }
  } finally {
    drawing = false;
  }
}

/** Show rows in a chart, and note those that it had from the server. */
async function pour(name, { element, view }, rows) {
  if (touched.get(name)?.view !== view) {
    // Copied by name: a spread would keep the mark by which Vega knows a row.
    const sent = view.data("source").map((row) => Object.fromEntries(Object.entries(row)));
    const chart = { element, view, sent, ours: false };
    touched.set(name, chart);
    const heard = () => {
      if (chart.ours) return;
      view.removeDataListener("source", heard); // Streamlit has replaced the rows: they are the server's
      element.classList.remove("follows");
      if (touched.get(name) === chart) touched.delete(name);
    };
    view.addDataListener("source", heard);
  }
  const chart = touched.get(name);
  element.classList.add("follows");
  chart.ours = true;
  try {
    await view.data("source", rows).runAsync();
  } finally {
    chart.ours = false;
  }
}

/** Show the rows that the server sent. Where the page has followed, Streamlit is about to replace them; it
 *  passes over a chart of which it last sent the same, which then shows what we poured into it. */
function settleCharts(arrived) {
  awaited.clear();
  if (touched.size) setTimeout(restore, arrived ? ARRIVING : 0);
}

function restore() {
  if (document.documentElement.classList.contains("ahead")) return; // the slider has moved on
  for (const [name, chart] of touched) pour(name, chart, chart.sent);
  touched.clear();
  for (const element of document.querySelectorAll(".follows")) element.classList.remove("follows");
}
