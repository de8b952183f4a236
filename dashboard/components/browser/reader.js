// What a screen reader hears of a page, where Streamlit says too much, or nothing.
// - Icons stand beside words, which say the same. A slider has its name once.
// - Help of a text is named by the text. A grid is named by the drawer, or else by the heading, above it.
// - A table that is wider than its place can be scrolled from the keyboard.
// - The headline is told anew once a run has ended and nothing has changed for a second, not at every
//   stop of a slider.
const QUIET = 1000; // milliseconds
const NAME = 80; // letters of a text that stand for it
const short = (text) => (text.length > NAME ? `${text.slice(0, NAME)}…` : text);

function nameOfGrid(grid) {
  const drawer = grid.closest("details")?.querySelector("summary [data-testid=stMarkdownContainer]");
  const above = [...document.querySelectorAll("[data-testid=stMain] :is(h1, h2)")].filter(
    (heading) => heading.compareDocumentPosition(grid) & Node.DOCUMENT_POSITION_FOLLOWING);
  return (drawer ?? above.at(-1))?.textContent ?? "";
}

function nameAll() {
  const set = (one, name, value) => one.getAttribute(name) === value || one.setAttribute(name, value);
  for (const icon of document.querySelectorAll("[data-testid=stMarkdownContainer] span[role=img][aria-label$=' icon']")) {
    set(icon, "aria-hidden", "true");
  }
  for (const slider of document.querySelectorAll("input[type=range][aria-label][aria-labelledby]")) {
    slider.removeAttribute("aria-labelledby");
  }
  for (const help of document.querySelectorAll("button[aria-label=Help]")) {
    const text = help.closest("p, h1, h2")?.cloneNode(true);
    text?.querySelectorAll(".katex-html, annotation").forEach((twice) => twice.remove());
    if (text) set(help, "aria-label", `Help for ${short(text.textContent)}`);
  }
  for (const grid of document.querySelectorAll("[data-testid=stDataFrame] [role=grid]")) {
    set(grid, "aria-label", nameOfGrid(grid));
  }
  for (const table of document.querySelectorAll("[data-testid=stTable] table")) {
    const place = table.parentElement;
    if (place.scrollWidth > place.clientWidth) set(place, "tabindex", "0");
  }
}

function listenForReaders() {
  const told = document.body.appendChild(document.createElement("div"));
  told.className = "told-headline";
  told.setAttribute("aria-live", "polite");
  const headline = () => document.querySelector("[data-testid=stMain] strong")?.textContent ?? "";
  const state = () => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState;
  let last = null, heard = null, timer, waiting = false;
  const tell = () => {
    // A headline that has just changed is not heard before the next frame.
    if (state() === "running" || headline() !== heard) { timer = setTimeout(tell, QUIET); return; }
    // A page that opens is read by itself.
    if (last !== null && headline() !== last) told.textContent = headline();
    last = headline();
  };
  const look = () => {
    waiting = false;
    nameAll();
    if (headline() === heard) return;
    heard = headline();
    clearTimeout(timer);
    timer = setTimeout(tell, QUIET);
  };
  new MutationObserver(() => {
    if (!waiting) requestAnimationFrame(look);
    waiting = true;
  }).observe(document.querySelector("[data-testid=stApp]"), {
    subtree: true, childList: true, characterData: true });
  look();
}
