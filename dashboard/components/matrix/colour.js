// Values become colours: the shades of colours.py as pixels, those of cells and of the colour bar.

// SHADE_BYTES, written before this file by __init__.py: by kind of scale, the bytes of red, green and
// blue of every shade from low to high, in hexadecimal.
const SHADE_TABLES = Object.fromEntries(
  Object.entries(SHADE_BYTES).map(([kind, text]) => [kind, Uint32Array.from(shadesOf(text))]),
);
const SHADES = SHADE_TABLES.sequential.length;

function shadesOf(text) {
  return text.match(/.{6}/g).map((rgb) => {
    const [red, green, blue] = rgb.match(/../g).map((byte) => parseInt(byte, 16));
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

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

/** Paint the cells that a panel shows, one pixel each; none of them leaves the canvas blank. */
function paint(canvas, panel, scale) {
  const { rows, columns, blank } = panel.shown;
  const [height, width] = blank ? [1, 1] : [rows.count, columns.count];
  // Setting a size clears the canvas, even to the same size: that would flicker.
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  if (!blank) {
    const cells = { top: rows.skip, left: columns.skip, height, width };
    const pixels = new Uint32Array(image.data.buffer);
    COPY[panel.kind](shade(panel.values, scale), pixels, panel, cells);
  }
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
