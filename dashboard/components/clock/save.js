// Clocks as an SVG file: what the page shows, with its colours and letters written into it.
//
// Every place is read from the page, where the browser has laid out and wrapped the text. Styles of a page
// do not travel with a file, so each shape takes along those that it has.

const EDGE = 16; // pixels around the picture
const TITLE_ROOM = 28; // pixels above it
const KEPT_STYLES = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "vector-effect",
  "text-anchor", "dominant-baseline", "font-family", "font-size", "font-weight",
];
const COLOURS = new Set(["fill", "stroke"]);

/** Hand the clocks to the browser as the file posenc-<name>.svg. */
function saveSvg(clock) {
  const text = new XMLSerializer().serializeToString(pictureOf(clock));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = `posenc-${clock.name.replace(/[^\w-]+/g, "-")}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function pictureOf({ root, faces, position, markText }) {
  const area = faces.getBoundingClientRect();
  const [wide, high] = [area.width + 2 * EDGE, area.height + 2 * EDGE + TITLE_ROOM];
  const picture = document.createElementNS(NAMESPACE, "svg");
  for (const [name, value] of Object.entries({ width: wide, height: high, viewBox: `0 0 ${wide} ${high}` }))
    picture.setAttribute(name, value);
  const ground = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#ffffff";
  shape("rect", picture, { width: wide, height: high, fill: plainColour(ground) });
  const place = { x: EDGE - area.left, y: EDGE + TITLE_ROOM - area.top };
  const title = [position.textContent, markText.textContent].filter(Boolean).join("; ");
  letters(title, picture, { x: EDGE, y: EDGE + 8 }, getComputedStyle(position));
  for (const element of faces.querySelectorAll("*")) {
    if (element instanceof SVGElement) {
      if (!element.ownerSVGElement) drawing(element, picture, place);
    } else if (!element.hidden) {
      block(element, picture, place);
    }
  }
  return picture;
}

function shape(tag, parent, attributes) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

/** A drawing of the page at its place, each of its shapes with the styles that it has there. */
function drawing(source, parent, place) {
  const copy = source.cloneNode(true);
  const box = source.getBoundingClientRect();
  const frame = { x: box.left + place.x, y: box.top + place.y, width: box.width, height: box.height };
  for (const [name, value] of Object.entries(frame)) copy.setAttribute(name, value);
  copy.style.overflow = "visible";
  const shapes = [source, ...source.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, n) => {
    const styles = getComputedStyle(shapes[n]);
    element.removeAttribute("class");
    for (const name of KEPT_STYLES) {
      const value = styles.getPropertyValue(name);
      if (value) element.style.setProperty(name, COLOURS.has(name) ? plainColour(value) : value);
    }
  });
  parent.append(copy);
}

/** The ground, the edges and the words of an element that is no drawing. */
function block(element, parent, place) {
  const styles = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const at = { x: box.left + place.x, y: box.top + place.y };
  if (element.matches(".swatch"))
    shape("rect", parent, { ...at, width: box.width, height: box.height, rx: 2, fill: plainColour(styles.backgroundColor) });
  if (element.matches(".rule"))
    shape("line", parent, {
      x1: at.x, x2: at.x, y1: at.y, y2: at.y + box.height, opacity: styles.opacity,
      stroke: plainColour(styles.borderLeftColor), "stroke-width": parseFloat(styles.borderLeftWidth),
      "stroke-dasharray": styles.borderLeftStyle === "dashed" ? "3 3" : "none",
    });
  if (element.matches("th, td"))
    shape("line", parent, {
      x1: at.x, x2: at.x + box.width, y1: at.y + box.height, y2: at.y + box.height,
      stroke: plainColour(styles.borderBottomColor),
    });
  for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) words(node, styles, parent, place);
}

/** The words of a text node, a piece for each line into which the browser has broken them. */
function words(node, styles, parent, place) {
  const lines = new Map(); // top -> the words of a line, from its left end
  const range = document.createRange();
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    const line = lines.get(Math.round(box.top));
    if (line) line.text += ` ${word}`;
    else lines.set(Math.round(box.top), { text: word, x: box.left + place.x, y: (box.top + box.bottom) / 2 + place.y });
  }
  for (const { text, x, y } of lines.values()) letters(text, parent, { x, y }, styles);
}

function letters(text, parent, at, styles) {
  const look = {
    "dominant-baseline": "central", fill: plainColour(styles.color), "font-family": `${styles.fontFamily}, sans-serif`,
    "font-size": styles.fontSize, "font-weight": styles.fontWeight,
  };
  shape("text", parent, { ...at, ...look }).textContent = text;
}

/** A colour as every program reads it: mixed ones are written by browsers alone. */
function plainColour(colour) {
  if (!/color\(|color-mix|oklab|lab\(/.test(colour)) return colour;
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
  return `rgba(${red}, ${green}, ${blue}, ${alpha / 255})`;
}
