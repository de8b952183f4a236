// Values become colours: two ramps of equal steps, and the pixels of cells and colour bar.

const SHADES = 255; // odd, so that the middle of a diverging scale is exactly its neutral colour

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
