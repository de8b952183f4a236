// Clocks: each pair of an encoding is a hand, and position turns it.
//
// A hand's angle is position * inv_freq modulo a turn, in float64 as the library sends it: from the top,
// clockwise, so that the tip lies at (sin, cos) of the angle, across and up. Nothing asks the server
// while the hands move. Under `prefers-reduced-motion` nothing glides: positions are stepped through,
// twice a second.

const SHARED = Symbol.for("posenc.clock");
// The clocks that preview.js may show at another stop of a slider, and the names of those that it does.
const PREVIEW = (globalThis[Symbol.for("posenc.preview")] ??= { pictures: new Map(), ahead: new Set() });
const SPEEDS = [1, 4, 16, 64, 256, 1024]; // positions per second
const TURN = 2 * Math.PI;
const OUTER = 90; // radius of the fastest pair's ring, in a picture 236 wide, wider where text is larger
const LANE = 2.4; // from one wave to the next below it, where a wave goes from -1 to 1
const STILL = 500; // milliseconds between steps where motion is not wanted
const NAMESPACE = "http://www.w3.org/2000/svg";

// ---- Data ------------------------------------------------------------------------------------

const angleOf = (hand, position) => (position * hand.frequency) % TURN;

/** A number whose power of ten stands as in the page's sentences: 1e-7 as 1 × 10⁻⁷. */
function inPowers(text) {
  const [mantissa, power] = text.replace("e+", "e").split("e");
  if (power === undefined) return text;
  const raised = [...power].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("");
  return `${mantissa}\u00a0×\u00a010${raised}`; // no line ends inside a number
}

/** A number in a few significant digits, large ones whole. */
function brief(value) {
  if (value === null) return "∞"; // no finite number travels as JSON
  if (value >= 1000) return Math.round(value).toLocaleString("en-US");
  return value >= 1e-4 ? String(Number(value.toPrecision(3))) : inPowers(value.toExponential(1));
}

const degrees = (angle) => `${((angle / TURN) * 360).toFixed(1)}°`;
const whole = (value) => value.toLocaleString("en-US");

// ---- Markup ----------------------------------------------------------------------------------

function make(tag, name, parent, text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

function draw(tag, name, parent, attributes = {}) {
  const element = document.createElementNS(NAMESPACE, tag);
  element.setAttribute("class", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const tip = (radius, angle) => [radius * Math.sin(angle), -radius * Math.cos(angle)];

/** The arc that a hand covers within the training length, a whole ring from a full turn on. */
function seenPath(radius, turns) {
  const angle = Math.min(turns, 1) * TURN;
  const middle = tip(radius, angle / 2).join(" ");
  const end = tip(radius, Math.min(angle, TURN * 0.999999)).join(" ");
  const arc = `A ${radius} ${radius} 0 0 1`;
  return `M 0 ${-radius} ${arc} ${middle} ${arc} ${end}`;
}

/** Sine and cosine of every pair by position, one pair under the other, and a line where the hands are. */
class WavesView {
  constructor({ hands, waves, trained }, parent) {
    const bytes = Uint8Array.from(atob(waves), (letter) => letter.charCodeAt(0));
    const values = new Float32Array(bytes.buffer);
    const count = values.length / (2 * hands.length);
    this.last = Math.max(count - 1, 1);
    const figure = make("div", "waves", parent);
    this.plot = make("div", "plot", figure);
    const lanes = draw("svg", "", this.plot, {
      viewBox: `0 0 ${this.last} ${LANE * hands.length}`, preserveAspectRatio: "none",
      "aria-hidden": true,
    });
    hands.forEach(({ pair }, n) => {
      const middle = LANE * (n + 0.5);
      draw("path", "zero", lanes, { d: `M 0 ${middle} H ${this.last}` });
      ["sine", "cosine"].forEach((name, which) => {
        const from = (2 * n + which) * count;
        const points = Array.from(
          values.subarray(from, from + count), (value, x) => `${x} ${(middle - value).toFixed(3)}`,
        );
        draw("path", name, lanes, { d: `M ${points.join(" L ")}` });
      });
      const label = make("span", "pair", this.plot, `pair ${pair}`);
      label.style.top = `${(100 * (n + 0.5)) / hands.length}%`;
    });
    if (trained < count) this.rule("trained").style.left = this.place(trained);
    this.cursor = this.rule("now");
    const axis = make("div", "axis", figure);
    make("span", "", axis, "0");
    make("span", "", axis, "sin solid, cos dotted");
    make("span", "", axis, whole(this.last));
  }

  rule(name) {
    return make("span", `rule ${name}`, this.plot);
  }

  place(position) {
    return `${(100 * position) / this.last}%`;
  }

  turn(position) {
    this.cursor.hidden = position > this.last;
    this.cursor.style.left = this.place(position);
  }
}

/** One clock: picture, waves if there are any, and table, made anew when the hands change.
 *
 * shifted: whether its title says its position. text: the height of text in its dial. */
class FaceView {
  constructor(face, parent, shifted, text) {
    this.face = face;
    this.shifted = shifted;
    const figure = make("figure", "face", parent);
    figure.style.setProperty("--scheme", face.color);
    const title = make("div", "title", figure);
    make("span", "swatch", title);
    this.name = make("span", "", title, face.title);
    make("div", "subtitle", figure, face.subtitle);
    const pictures = make("div", "pictures", figure);
    this.picture = draw("svg", "dial", pictures, { role: "img" });
    this.drawDial(text);
    if (face.waves) this.waves = new WavesView(face, pictures);
    this.makeTable(face.waves ? figure : pictures);
  }

  /** text: its height, which the discs at the ends of hands hold. */
  drawDial(text) {
    const { hands } = this.face;
    const [right, bottom] = [OUTER + 1.9 * text, OUTER + 1.4 * text];
    const [wide, high] = [right + 1.2 * text, bottom + 0.6 * text];
    this.picture.setAttribute("viewBox", `${-wide} ${-high} ${2 * wide} ${2 * high}`);
    this.picture.style.fontSize = `${text}px`;
    const disc = Math.min(text, 12.5);
    const inner = Math.max(57 - 3 * text, 17);
    const step = hands.length > 1 ? Math.min((OUTER - inner) / (hands.length - 1), 2 * disc + 1) : 0;
    for (const [x, y, angle] of [[0, -bottom, 0], [right, 0, 90], [0, bottom, 180], [-right, 0, 270]])
      draw("text", "quarter", this.picture, { x, y }).textContent = `${angle}°`;
    const radii = hands.map((_, n) => OUTER - n * step);
    hands.forEach(({ turns }, n) => {
      draw("circle", "ring", this.picture, { r: radii[n] });
      draw("path", "seen", this.picture, { d: seenPath(radii[n], turns) });
    });
    this.arms = hands.map((hand, n) => {
      const group = draw("g", "arm", this.picture, { "data-pair": hand.pair });
      const line = draw("line", "hand", group, { x1: 0, y1: 0 });
      const circle = draw("circle", "tip", group, { r: disc });
      const label = draw("text", "number", group);
      label.textContent = hand.pair;
      return { hand, group, line, disc: circle, label, radius: radii[n] };
    });
    draw("circle", "hub", this.picture, { r: 3 });
  }

  makeTable(figure) {
    const table = make("table", "", figure);
    const head = make("tr", "", make("thead", "", table));
    for (const text of ["pair", "period, positions", "turns in training", "angle now"])
      make("th", "", head, text).scope = "col";
    const body = make("tbody", "", table);
    this.cells = this.face.hands.map(({ pair, period, turns }) => {
      const line = make("tr", "", body);
      make("th", "", line, String(pair)).scope = "row";
      make("td", "period", line, brief(period));
      make("td", "turns", line, brief(turns));
      return make("td", "angle", line);
    });
  }

  /** Turn the hands to a position, which lies between two whole ones only while they move. */
  turn(slider, spoken) {
    const position = slider + this.face.offset;
    this.waves?.turn(position);
    for (const { hand, group, line, disc, label, radius } of this.arms) {
      const angle = angleOf(hand, position);
      const [x, y] = tip(radius, angle);
      group.dataset.angle = angle;
      for (const [element, a, b] of [[line, "x2", "y2"], [disc, "cx", "cy"], [label, "x", "y"]]) {
        element.setAttribute(a, x);
        element.setAttribute(b, y);
      }
    }
    const at = Math.floor(position);
    const read = this.face.hands.map((hand) => degrees(angleOf(hand, at)));
    this.cells.forEach((cell, n) => write(cell, read[n]));
    if (this.shifted) write(this.name, `${this.face.title} at position ${whole(at)}`);
    if (!spoken) return;
    const hands = this.face.hands.map(({ pair }, n) => `pair ${pair} at ${read[n]}`);
    const text = `${this.face.title} at position ${whole(at)}: ${hands.join(", ")}`;
    this.picture.setAttribute("aria-label", text);
  }
}

// ---- The row ---------------------------------------------------------------------------------

class Clock {
  constructor(parent, style) {
    parent.querySelector(".clock")?.remove();
    make("style", "", parent, style);
    this.root = make("div", "clock", parent);
    this.root.setAttribute("role", "group");
    this.makeControls(make("div", "controls", this.root));
    this.faces = make("div", "faces", this.root);
    this.playing = false;
    this.paints = 0;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.step = this.step.bind(this);
  }

  makeControls(parent) {
    this.button = make("button", "play", parent);
    this.button.type = "button";
    this.button.addEventListener("click", () => this.play(!this.playing));
    const speed = make("label", "", parent);
    make("span", "", speed, "Positions per second");
    this.speed = make("select", "speed", speed);
    for (const value of SPEEDS) make("option", "", this.speed, whole(value)).value = value;
    this.speed.value = SPEEDS[1];
    const track = make("div", "track", parent);
    this.slider = make("input", "slider", track);
    this.slider.type = "range";
    this.slider.min = 0;
    this.slider.setAttribute("aria-label", "Position");
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.mark = make("span", "mark", track);
    this.markText = make("span", "mark-text", track);
    this.position = make("div", "position", parent);
    this.saves = make("button", "save", parent, "Save SVG");
    this.saves.type = "button";
    this.saves.addEventListener("click", () => saveSvg(this));
    for (const element of [this.button, this.speed, this.slider, this.saves]) {
      // Streamlit takes single letters as its own shortcuts.
      element.addEventListener("keydown", (event) => event.stopPropagation());
    }
  }

  show(row) {
    Object.assign(this, { last: row.last, trained: row.trained });
    this.name = row.name ?? this.name ?? "clocks"; // what is shown ahead of a slider has none
    this.root.setAttribute("aria-label", row.text);
    this.slider.max = row.last;
    const fraction = Math.min(row.trained / row.last, 1);
    for (const part of [this.mark, this.markText]) {
      part.hidden = row.trained > row.last;
      part.style.setProperty("--at", fraction);
    }
    write(this.markText, `training length ${whole(row.trained)}`);
    // Read before anything is written: the browser else works out all styles once per clock.
    const text = parseFloat(getComputedStyle(this.faces).getPropertyValue("--dial-text")) || 9;
    this.faces.replaceChildren();
    this.faces.classList.toggle("two", row.two);
    const shifted = row.faces.some(({ offset }) => offset); // the slider's position is not that of every clock
    this.views = row.faces.map((face) => new FaceView(face, this.faces, shifted, text));
    this.at = Math.min(this.at ?? row.first, row.last);
    this.play(this.playing && this.at < this.last);
    this.root.dataset.paints = ++this.paints;
  }

  /** A preview as `show` takes it: a clock's travels whole. */
  expanded(preview) {
    return preview;
  }

  seek(position) {
    this.at = position;
    this.before = undefined; // the clock goes on from here
    this.drawHands(true);
  }

  play(playing) {
    this.playing = playing;
    this.root.dataset.playing = playing;
    write(this.button, playing ? "Pause" : "Play");
    if (playing && this.at >= this.last) this.at = 0;
    if (!playing) this.at = Math.floor(this.at);
    this.before = undefined;
    this.drawHands(!playing);
    if (playing && !this.asked) this.next();
  }

  next() {
    this.asked = true;
    // A frame where motion is welcome, a step now and then where it is not.
    if (this.still.matches) setTimeout(this.step, STILL, performance.now() + STILL);
    else requestAnimationFrame(this.step);
  }

  step(now) {
    this.asked = false;
    if (!this.playing || !this.root.isConnected) return;
    const speed = Number(this.speed.value);
    if (this.still.matches) {
      this.at = Math.floor(this.at) + Math.max(1, Math.round((speed * STILL) / 1000));
    } else if (this.before !== undefined) {
      this.at += ((now - this.before) / 1000) * speed;
    }
    this.before = now;
    if (this.at >= this.last) {
      this.at = this.last;
      this.play(false);
      return;
    }
    this.drawHands(false);
    this.next();
  }

  drawHands(spoken) {
    const at = Math.floor(this.at);
    for (const view of this.views ?? []) view.turn(this.at, spoken);
    this.root.dataset.position = at;
    this.slider.value = at;
    const past = at >= this.trained ? ", past the training length" : "";
    const text = `Position ${whole(at)}${past}`;
    write(this.position, text);
    this.slider.setAttribute("aria-valuetext", text);
  }
}

// ---- Entry -----------------------------------------------------------------------------------

const clocks = new WeakMap(); // shadow root -> Clock: a rerun with the same key finds its clock again

function hand({ parentElement, data }, style) {
  if (!data) return;
  let clock = clocks.get(parentElement);
  if (!clock) clocks.set(parentElement, (clock = new Clock(parentElement, style)));
  clock.sent = data;
  PREVIEW.pictures.set(data.name, clock);
  // A row in a new place, as where A is pinned meanwhile, has nothing to show ahead yet.
  if (!clock.paints || !PREVIEW.ahead.has(data.name)) clock.show(data);
}

/** Called with the style sheet when this code arrives; clocks that came first are waiting. */
export default function ({ data }) {
  const shared = (globalThis[SHARED] ??= { waiting: new Map() });
  shared.draw = (component) => hand(component, data.style);
  for (const component of shared.waiting.values()) shared.draw(component);
  shared.waiting.clear();
}
