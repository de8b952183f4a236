// The picture follows the finger: while a slider moves, matrices, clocks and lines show the stop it is at.
//
// Streamlit tells the server of a slider when it is released. Until then the pictures come from
// previews.py, for some stops at once, asked for when the pointer or the focus comes to the slider. They
// are those that the page draws at these stops, so nothing changes when the page follows. What has not
// caught up turns pale where the server takes longer than usual. A slider tells its stop as text,
// `aria-valuetext`: by mouse, touch and keys alike.
//
// Matrices and clocks enter themselves in `pictures`, and show what the server sends unless `ahead` names
// them. Charts are Streamlit's (charts.js).

const shared = (globalThis[Symbol.for("posenc.preview")] ??= { pictures: new Map(), ahead: new Set() });
const NEAR = 4; // stops on each side that are asked for before the slider moves
const FAR = 12; // and once it does
const AT_ONCE = 8; // stops of one request
const REST = 150; // milliseconds that a page has to be drawn before it asks for what may be next
const STYLE = `
:root.ahead [data-testid=stMain] :is(
  .stMarkdown, .stVegaLiteChart:not(.follows), .stDataFrame, .stTable, .stMetric, .stImage
) { opacity: 0.4; transition: opacity 0.1s 0.3s; }`;

let page = null; // of the last run: where to ask, and every slider that is followed
let shown = null; // what the pictures in `ahead` show: a slider, its stop as text, and its query
let loading = false;
const known = new Map(); // by slider: the query of its pictures, and the pictures by stop

/** The stop of a slider as text, null where it is not drawn. */
const stopOf = (name) =>
  document.querySelector(`.st-key-${name} [aria-valuetext]`)?.getAttribute("aria-valuetext") ?? null;

/** The pictures of a slider by stop, as far as they are here; null for a stop that was refused. Where
 *  anything but the slider has changed they are others. */
function picturesOf(name) {
  const { query } = page.dials[name];
  if (known.get(name)?.query !== query) known.set(name, { query, stops: new Map() });
  return known.get(name).stops;
}

// ---- Pictures --------------------------------------------------------------------------------

/** Follow the slider that is not where the server drew it. */
function follow() {
  const moved = Object.keys(page.dials).filter(
    (name) => ![null, page.dials[name].drawn].includes(stopOf(name)),
  );
  if (!moved.length) return settle();
  const [name] = moved;
  // Of two sliders that moved, the server alone knows the picture.
  const pictures = moved.length === 1 ? picturesOf(name).get(stopOf(name)) : null;
  goAhead(name, pictures);
  // A key makes the server draw the page at once: pictures for later would keep it from that.
  if (dragged() || (!pictures && followsKeys())) ask(name);
}

/** Show the pictures of a slider's stop; what has none stays as it is, and pale. */
function goAhead(name, pictures) {
  document.documentElement.classList.add("ahead");
  if (pictures) shown = { name, stop: stopOf(name), query: page.dials[name].query };
  for (const [key, view] of shared.pictures) {
    const picture = pictures?.get(key);
    view.root.classList.toggle("behind", !picture);
    if (!picture) continue;
    shared.ahead.add(key);
    view.show(picture());
  }
  if (pictures && dragged()) followCharts(pictures);
}

/** Show what the server drew. */
function settle() {
  document.documentElement.classList.remove("ahead");
  // Where that is what is shown, the server's own may still be on its way.
  const dial = page?.dials[shown?.name];
  const arrived = dial?.drawn === shown?.stop && dial?.query === shown?.query;
  for (const [key, view] of shared.pictures) {
    view.root.classList.remove("behind");
    if (shared.ahead.delete(key) && !arrived) view.show(view.sent);
    if (!view.root.isConnected) shared.pictures.delete(key);
  }
  settleCharts(arrived);
  if (dial && followsKeys()) setTimeout(askAgain, REST, shown.name); // the page may have no such slider
}

// ---- Asking the server -----------------------------------------------------------------------

/** The stops nearest to that of the slider whose pictures are not here. */
function wanted(name) {
  const { stops, drawn } = page.dials[name];
  const at = stops.indexOf(stopOf(name));
  const reach = stopOf(name) === drawn ? NEAR : FAR;
  const distance = (stop) => Math.abs(stops.indexOf(stop) - at);
  const here = picturesOf(name);
  return stops
    .filter((stop) => stop !== drawn && !here.has(stop) && distance(stop) <= reach)
    .sort((one, other) => distance(one) - distance(other))
    .slice(0, AT_ONCE);
}

/** Whether pictures follow keys: matrices and clocks do, charts wait for the server. */
const followsKeys = () => shared.pictures.size > 0;

/** Ask for pictures around a stop once more, if the page still has this slider. */
const askAgain = (name) => {
  if (page?.dials[name]) ask(name);
};

/** Ask for pictures around the stop of a slider, one request after the other. */
async function ask(name) {
  const stops = loading ? [] : wanted(name);
  if (!stops.length) return;
  loading = true;
  const { query, drawn } = page.dials[name];
  const here = picturesOf(name);
  // What does not differ from what the server drew does not travel.
  const sent = new Map([...shared.pictures].map(([key, view]) => [key, view.sent]));
  const place = [name, drawn, stops.join(";")].map(encodeURIComponent).join("/");
  try {
    const answer = await fetch(`${page.path}/${place}${query && `?${query}`}`);
    if (answer.ok) take(here, new Uint8Array(await answer.arrayBuffer()), sent);
    else stops.forEach((stop) => here.set(stop, null)); // is not asked for again
  } catch {
    // Without a network the page follows once it is there again.
  }
  loading = false;
  if (page?.dials[name] && stopOf(name) !== page.dials[name].drawn) follow();
}

/** Enter the pictures of an answer (layout: previews.py). */
function take(here, bytes, sent) {
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const { stops, counts } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let offset = 4 + length;
  const values = counts.map((count) => {
    offset += 4 * count;
    return new Float32Array(bytes.buffer, offset - 4 * count, count);
  });
  for (const [stop, pictures] of Object.entries(stops)) {
    // A matrix that appeared after the question has nothing that it could be expanded from; of a chart come
    // its columns, or null where they are as the server drew them.
    const usable = Object.entries(pictures).filter(
      ([key, picture]) => sent.has(key) || picture === null || picture.columns,
    );
    const made = usable.map(([key, picture]) => [
      key,
      sent.has(key)
        ? () => shared.pictures.get(key).expanded(picture, values, sent.get(key))
        : () => picture && rowsOf(picture.columns),
    ]);
    here.set(stop, new Map(made));
  }
}

// ---- Entry -----------------------------------------------------------------------------------

/** The sliders that hold one of these elements. */
const slidersOf = (elements) =>
  Object.keys(page?.dials ?? {}).filter((name) =>
    elements.some((element) => element.closest?.(`.st-key-${name}`)),
  );

function start() {
  shared.started = true;
  const style = new CSSStyleSheet();
  style.replaceSync(STYLE);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, style];
  for (const event of ["pointerover", "pointerdown"]) {
    document.addEventListener(event, ({ target }) => slidersOf([target]).forEach(ask));
  }
  document.addEventListener("focusin", ({ target }) => {
    if (followsKeys()) slidersOf([target]).forEach(ask);
  });
  new MutationObserver((changes) => {
    if (slidersOf(changes.map(({ target }) => target)).length) follow();
  }).observe(document.body, { subtree: true, attributeFilter: ["aria-valuetext"] });
}

export default ({ data }) => {
  if (!shared.started) start();
  page = data;
  follow(); // the slider may be past what this run drew
  return () => {
    if (page !== data) return; // of a run that another one overtook
    page = null;
    settle();
  };
};
