// Numbers and ticks: what is written along an axis, on the colour bar and under a panel.

/** A number whose power of ten stands as in the page's sentences: 1e-7 as 1 × 10⁻⁷. */
function inPowers(text) {
  const [mantissa, power] = text.replace("e+", "e").split("e");
  if (power === undefined) return text;
  const raised = [...power].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("");
  return `${mantissa}\u00a0×\u00a010${raised}`; // no line ends inside a number
}

/** The shortest decimal of 6 to 9 digits that names this float32 and no other. */
function exact(value) {
  if (value !== value) return "no value";
  for (let digits = 6; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(text) === value) return inPowers(text);
  }
  return inPowers(value.toPrecision(9));
}

const brief = (value) => inPowers(String(Number(value.toPrecision(3))));

/** The smallest of 1, 2, 5, 10, 20, ... that is at least `least`. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9));
}

/** Ticks of an axis drawn `pixels` long, as [fraction, text], at least `room` pixels apart. */
function axisTicks(axis, pixels, room) {
  const least = Math.max((room * axis.count) / pixels, 1);
  const shown = axis.ticks ?? roundTicks(axis, least); // names are few, and each is written
  return shown.map(([index, text]) => [(index + 0.5) / axis.count, shortened(text)]);
}

const LONGEST_NAME = 10; // letters of a name along an axis; a read-out has all of it

/** A name as it is written along an axis. */
function shortened(text) {
  const letters = [...text];
  return letters.length <= LONGEST_NAME ? text : `${letters.slice(0, LONGEST_NAME - 1).join("")}…`;
}

/** What a position is called: its name where the axis has names, else its number. */
const nameOf = ({ start, ticks }, position) =>
  ticks?.find(([index]) => index === position - start)?.[1] ?? String(position);

function roundTicks({ count, start }, least) {
  const step = roundStep(least);
  const shown = [];
  for (let at = Math.ceil(start / step) * step; at < start + count; at += step) {
    shown.push([at - start, String(at)]);
  }
  return shown;
}

/** Ticks of the colour bar, as [fraction, text]: both ends, and round numbers well between. */
function legendTicks({ low, high }) {
  const step = roundStep((high - low) / 4);
  const inner = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) {
    const fraction = (n * step - low) / (high - low);
    if (fraction > 0.15 && fraction < 0.85) inner.push([fraction, brief(n * step)]);
  }
  return [[0, brief(low)], ...inner, [1, brief(high)]];
}

function range({ extent: { low, high } }) {
  return low <= high ? `from ${brief(low)} to ${brief(high)}` : "no values";
}

const within = (position, { start, count }) =>
  Math.min(Math.max(position, start), start + count - 1);

function span(name, axis) {
  const { count, start, label } = axis;
  return `${count} ${name} (${label} ${nameOf(axis, start)} to ${nameOf(axis, start + count - 1)})`;
}

function longestTick({ count, start, ticks }) {
  if (ticks) return Math.max(0, ...ticks.map(([, text]) => shortened(text).length));
  return Math.max(String(start).length, String(start + count - 1).length);
}

/** `size` in CSS pixels, trimmed so that every cell covers as many device pixels as its neighbour,
 *  unless that would cost more than an eighth of the size. */
function wholeCells(size, count) {
  const device = Math.floor(size * devicePixelRatio + 1e-6); // a trimmed size comes back whole
  const whole = Math.floor(device / count) * count;
  return (whole > device * 0.875 ? whole : device) / devicePixelRatio;
}
