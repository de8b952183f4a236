// What the browser does around every page:
// - One step of history per page, however often its address changes. A page that is opened begins at its top.
// - Darker tags of lists: Streamlit writes white on the primary colour, which is too light in the dark.
// - No sidebar without controls and, as on a desk, without the menu: Streamlit leaves it open on the way from
//   a page that has some.
// - Less room over the title, and beside a page in a window of a projector or a small laptop; cards, formulas
//   and the charts of At a glance by the width.
// - Buttons and sliders of a narrow window stand together; a table that goes on beyond its edge has a shadow.
// - A chart with a width of its own fits a narrow window; there code has smaller letters, and fewer lines
//   where there is much of it. Names of A and B leave the matrices below them level. The title of a
//   chart is for the saved picture; on the page a heading says the same.
// - The address of a page that was just chosen.
// - Light or dark, chosen on one page, for all: Streamlit keeps it for the path at which the app was opened.
// - Page Up and Page Down, which the remote control of a projector sends, press Back and Next of Learn, also
//   where a slider or a field would take them. These are as high as the numbers of the steps beside them.
// No rule asks with :has() what a chart or the whole page holds: the browser would ask again at each mark of
// a chart that moves.
const STYLE = `
[data-testid=stMultiSelectTagsContainer] > span > span { background: #0b62a8 !important; }
[data-testid=stSidebar]:not(:has([data-testid=stSidebarUserContent] [data-testid=stElementContainer])):not(
  :has([data-testid=stSidebarNavLink])) {
  &, & ~ * [data-testid=stExpandSidebarButton] { display: none; }
}
@media (min-width: 1000px) and (max-width: 1400px) {
  [data-testid=stMainBlockContainer] { padding-inline: 1.5rem !important; }
}
/* All in a row, two in less than 900 pixels, one on a phone: never three and one. */
:is(.st-key-cards, .st-key-curves, .st-key-formula_cards, .st-key-claim_cards) {
  grid-template-columns: repeat(auto-fit, minmax(clamp(215px, (900px - 100%) * 999, 45%), 1fr)) !important;
}
.st-key-claim_cards :is([data-testid=stCaptionContainer], [data-testid=stTable]) { margin-top: 0.75rem; } /* else they hang on what is above */
[data-testid=stMainBlockContainer] { padding-top: 3.75rem; }
[data-testid=stMain] h1 { padding-block: 0.25rem; }
[class*=st-key-setting_] { min-height: 3em; }
/* No button alone in a line of its own, and the sliders of Learn beside each other. */
@media (max-width: 900px) {
  [data-testid=stMain] [role=radiogroup] > button { padding-inline: 0.65rem; }
  [data-testid=stHorizontalBlock]:has(> [class*=st-key-preset_]) { gap: 0.4rem; }
  [data-testid=stLayoutWrapper]:has(> [data-testid=stHorizontalBlock] > .st-key-words) { flex-basis: 100% !important; }
  /* A chart that is made narrower has a lower title, of which no more may be cut. */
  [class*=st-key-chart_projection_] .stVegaLiteChart svg:has(.role-title) {
    margin-top: calc(-1 * min(var(--chart-title, 35px), 8.6%));
  }
}
@media (max-width: 640px) {
  [data-testid=stCode] code { font-size: 0.75rem !important; }
  [class*=st-key-claim_code] [data-testid=stCode] { max-height: 14rem; overflow: auto; }
  [class*=st-key-setting_] { min-height: 0; }
  .st-key-reorder [role=radiogroup] { max-width: 17rem; } /* two and two */
  /* An edge with a shadow, where columns of a table lie beyond it. */
  [data-testid=stTable] > div {
    --ground: light-dark(#ffffff, #10161d);
    background:
      linear-gradient(to left, var(--ground) 50%, transparent) right / 4rem 100% no-repeat local,
      linear-gradient(to left, rgb(128 128 128 / 0.4), transparent) right / 1.25rem 100% no-repeat scroll;
  }
  [data-testid=stMain] :is(.stDataFrame) { margin-top: 2rem; } /* its tools stand over it */
  :is(.st-key-back_step, .st-key-next_step) kbd { display: none; } /* keys that a phone has not */
}
:is(.st-key-back_step, .st-key-next_step) button { min-height: 2rem; padding-block: 0; }
.stVegaLiteChart, .stVegaLiteChart svg { max-width: 100%; height: auto; }
.stVegaLiteChart { overflow: clip; }
.stVegaLiteChart svg.marks { margin-top: calc(-1 * var(--chart-title, 35px)); }
:root:not(.slow-run) [data-stale] { opacity: 1 !important; transition: none !important; }`;
const SLOW = 500; // milliseconds
const patched = Symbol.for("posenc.history");

function watchRuns(app) {
  let timer;
  new MutationObserver(() => {
    clearTimeout(timer);
    const slow = (on) => document.documentElement.classList.toggle("slow-run", on);
    if (app.dataset.testScriptState === "running") timer = setTimeout(slow, SLOW, true);
    else slow(false);
  }).observe(app, { attributeFilter: ["data-test-script-state"] });
}

function turnStep(event) {
  const name = { PageUp: "back", PageDown: "next" }[event.key];
  const target = name && document.querySelector(`.st-key-${name}_step button`);
  if (!target) return;
  event.preventDefault();
  event.stopPropagation(); // from Streamlit's shortcut too, which the button shows
  target.click();
}

// PATHS, of all pages from the root of the app, stand before this script.
function keepTheme() {
  const current = PATHS.find((path) => path && location.pathname.replace(/\/$/, "").endsWith(`/${path}`));
  const root = current ? location.pathname.replace(/[^/]+\/?$/, "") : location.pathname;
  const set = Storage.prototype.setItem;
  Storage.prototype.setItem = function (key, value) {
    set.call(this, key, value);
    const version = /^stActiveTheme-.*(-v\d+)$/.exec(key)?.[1];
    if (version) for (const path of PATHS) set.call(this, `stActiveTheme-${root}${path}${version}`, value);
  };
}

// Streamlit closes a menu that covers the page on phones alone, not in a narrow window.
function closeMenu() {
  const menu = document.querySelector("[data-testid=stSidebar]");
  if (menu?.getBoundingClientRect().left >= 0) {
    menu.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
  }
}

// Of a page that was just chosen Streamlit pushes the path, at times a moment later than this. The query is
// written once it is there: earlier, it would be that of the page before, and Back would lead to the wrong one.
let written = "null", at = location.pathname;
function write(query, tries) {
  if (location.pathname === at && tries) return setTimeout(write, 20, query, tries - 1);
  at = location.pathname;
  history.replaceState(history.state, "", at + (query && `?${query}`));
}

export default ({ data }) => {
  const chosen = JSON.stringify(data ?? null);
  if (data && chosen !== written) write(data.query, history[patched] ? 50 : 0);
  else if (!data) at = location.pathname;
  written = chosen;
  if (history[patched]) return;
  history[patched] = true;
  const style = new CSSStyleSheet();
  style.replaceSync(STYLE);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, style];
  document.addEventListener("keydown", turnStep, true);
  keepTheme();
  listenForReaders();
  watchRuns(document.querySelector("[data-testid=stApp]"));
  const push = history.pushState.bind(history);
  history.pushState = (state, unused, url) => {
    const same = new URL(url ?? location.href, location.href).pathname === location.pathname;
    if (same) history.replaceState(state, unused, url);
    else {
      push(state, unused, url);
      document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0); // a new page begins at its top
      if (innerWidth < 768) closeMenu();
    }
  };
};
