// Draws a row of matrices, one canvas each, under one colour scale, one crosshair and one zoom.
//
// Only the cells live on the canvas, one pixel per cell, and the browser enlarges them to whole
// squares at any pixel density. All else (ticks, lines, text) is ordinary markup styled by the
// page's own colours, so a change of theme needs no code and repaints nothing.
//
// Positions (i, j) are query and key; a panel's `start` says which position its first cell is.
//
// This file comes last of those that __init__.py joins to one module; the others are data.js
// (payload), colour.js (shades and pixels), axes.js (ticks and numbers), region.js (zoom),
// markup.js (elements), legend.js, layout.js (sizes), export.js (PNG), input.js (pointer and keys)
// and row.js (all panels).

const SHARED = Symbol.for("posenc.matrix");
// The rows that preview.js may show at another stop of a slider, and the names of those that it does.
const PREVIEW = (globalThis[Symbol.for("posenc.preview")] ??= { pictures: new Map(), ahead: new Set() });

const rows = new WeakMap(); // shadow root -> Row: a rerun with the same key finds its row again

function draw({ parentElement, data, setTriggerValue }, style) {
  if (!data) return;
  let row = rows.get(parentElement);
  if (!row) rows.set(parentElement, (row = new Row(parentElement, style)));
  row.send = (cell) => setTriggerValue("cell", cell);
  row.sent = decode(data);
  PREVIEW.pictures.set(row.sent.name, row);
  // A row in a new place, as where A is pinned meanwhile, has nothing to show ahead yet.
  if (!row.paints || !PREVIEW.ahead.has(row.sent.name)) row.show(row.sent);
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
