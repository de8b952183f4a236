// The payload, decoded: one Float32Array per panel, and where an entry lies in it.

/** How many values each kind has. */
const SIZE = {
  curve: ({ rows }) => 2 * rows.count - 1,
  triangle: ({ rows }) => (rows.count * (rows.count + 1)) / 2,
  full: ({ rows, columns }) => rows.count * columns.count,
};

/** Split the payload into its header and one Float32Array per panel (layout: payload.py). */
function decode(bytes) {
  // A copy aligns the values: the message may start at any byte. Every browser's machine is
  // little-endian, as the payload is.
  const buffer = bytes.slice().buffer;
  const length = new DataView(buffer).getUint32(0, true);
  const row = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  row.panels = row.panels.map((panel) => {
    offset += 4 * panel.count;
    return filled(panel, new Float32Array(buffer, offset - 4 * panel.count, panel.count));
  });
  return row;
}

/** A panel of the header with its values, of which these words travelled. */
function filled(panel, words) {
  if (panel.kind === "waves") return { ...panel, kind: "full", values: waves(words, panel) };
  const values = new Float32Array(SIZE[panel.kind](panel)).fill(NaN); // blanks at the end did not travel
  values.set(words);
  return { ...panel, values };
}

/** A table of sines and cosines (values.py): radians per row of each column, and whether it is a sine. */
function waves(words, { rows, columns }) {
  const { count } = columns;
  const numbers = new Float64Array(words.slice().buffer); // aligned
  const values = new Float32Array(rows.count * count);
  for (let c = 0; c < count; c++) {
    const wave = numbers[count + c] ? Math.sin : Math.cos;
    for (let r = 0; r < rows.count; r++) values[r * count + c] = wave(r * numbers[c]);
  }
  return values;
}

/** Where entry (r, c), counted from 0, lies in each kind's values. */
const INDEX = {
  curve: (panel, r, c) => c - r + panel.rows.count - 1,
  triangle: (panel, r, c) => (r < c ? (c * (c + 1)) / 2 + r : (r * (r + 1)) / 2 + c),
  full: (panel, r, c) => r * panel.columns.count + c,
};

const entry = (panel, r, c) => panel.values[INDEX[panel.kind](panel, r, c)];

/** Smallest and largest number of `values` (low > high where all are blank), and any blanks. */
function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  let blank = false;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
    if (value !== value) blank = true;
  }
  return { low, high, blank };
}

/** Whether two arrays have the same bits, blanks too. */
function equal(one, other) {
  if (one.length !== other.length) return false;
  const [a, b] = [one, other].map(({ buffer, byteOffset, length }) => new Uint32Array(buffer, byteOffset, length));
  return a.every((bits, n) => bits === b[n]);
}

/** Copy a window of a matrix, rows from `top` and columns from `left`, out of per-value `pixels`
 *  into `image`, row by row. Reads like INDEX, many entries at a time. */
const COPY = {
  curve(pixels, image, panel, { top, left, height, width }) {
    for (let r = 0; r < height; r++) {
      const first = left - (top + r) + panel.rows.count - 1;
      image.set(pixels.subarray(first, first + width), r * width);
    }
  },
  triangle(pixels, image, panel, { top, left, height, width }) {
    for (let r = top, n = 0; r < top + height; r++) {
      const own = (r * (r + 1)) / 2; // columns up to the diagonal lie in a run
      for (let c = left; c < left + width; c++, n++) {
        image[n] = pixels[c <= r ? own + c : (c * (c + 1)) / 2 + r];
      }
    }
  },
  full(pixels, image, panel, { top, left, height, width }) {
    for (let r = 0; r < height; r++) {
      const first = (top + r) * panel.columns.count + left;
      image.set(pixels.subarray(first, first + width), r * width);
    }
  },
};
