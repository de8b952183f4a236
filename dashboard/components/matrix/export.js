// A row as a PNG: what the page shows, drawn again at twice its size or more, in its own colours.
//
// Every place is read from the page, where the browser has laid out and wrapped the text, so the
// picture looks like the screen. Hints and buttons stay out; a pinned cell and its values stay in. The row's
// title, which the page has in its headings, stands above. Rows that are compared are one picture, whose
// parts stand where they do on the page, each under its own heading.

const MARGIN = 16; // CSS pixels around the picture
const TITLE = { size: 16, height: 28 }; // CSS pixels
const MOST_PIXELS = 64e6; // what browsers can be trusted to hold in one canvas

/** Draw the row, and those compared with it, and hand them to the browser as the file posenc-<name>.png. */
async function savePng(row) {
  const rows = row.beside.map((name) => PREVIEW.pictures.get(name)).filter((one) => one?.root.isConnected);
  const canvas = drawPicture(rows.includes(row) ? rows : [row]);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) {
    write(row.live, "This browser could not make the picture");
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `posenc-${(row.beside[0] ?? row.name).replace(/[^\w-]+/g, "-")}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  write(row.live, `Saved ${link.download}`);
}

function drawPicture(rows) {
  const [{ root, title, heading }] = rows;
  const several = rows.length > 1;
  const names = [title, several ? "" : heading].filter(Boolean).join(", ");
  const pen = new Pen(root, rows.flatMap(partsOf), exportScale(rows), names, several);
  for (const row of rows) {
    row.panels.forEach((panel, n) => drawPanel(pen, panel, row.views[n], row.at));
    drawLegend(pen, row.legend);
    for (const part of partsOf(row)) pen.texts(part);
    if (several) pen.heading(row.heading, row.views[0].figure);
  }
  return pen.canvas;
}

function partsOf({ views, legend }) {
  return [...views.map((view) => view.figure), legend.legend];
}

/** Picture pixels per CSS pixel: 2 or more, whole cells stay whole, every cell gets a pixel. */
function exportScale(rows) {
  const step = devicePixelRatio * Math.ceil(2 / devicePixelRatio);
  const crowded = rows.flatMap(({ views, panels }) =>
    views.map(({ canvas }, n) => {
      const { rows, columns } = panels[n].shown;
      const { width, height } = canvas.getBoundingClientRect();
      return Math.max(columns.count / width, rows.count / height);
    }),
  );
  const { left, right, top, bottom } = boxAround(rows.map(({ root }) => root));
  const most = Math.sqrt(MOST_PIXELS / ((right - left) * (bottom - top)));
  const steps = Math.min(Math.ceil(Math.max(...crowded, 1) / step), Math.floor(most / step));
  return step * Math.max(steps, 1);
}

/** The rectangle of the page that holds all of some elements. */
function boxAround(elements) {
  const boxes = elements.map((element) => element.getBoundingClientRect());
  const [first, last] = [Math.min, Math.max].map((pick) => (side) => pick(...boxes.map((box) => box[side])));
  return { left: first("left"), right: last("right"), top: first("top"), bottom: last("bottom") };
}

function drawPanel(pen, panel, view, at) {
  const plot = pen.box(view.canvas);
  pen.hatch(plot);
  if (!panel.shown.blank) {
    const { width, height } = view.canvas;
    pen.image(view.canvas, plot, width > plot.width || height > plot.height);
  }
  const [down, across] = view.boundaries;
  if (!down.hidden) pen.dashes(pen.box(down), true);
  if (!across.hidden) pen.dashes(pen.box(across), false);
  const cell = at && cellOf(panel.shown, at);
  if (cell) {
    const { rows, columns } = panel.shown;
    pen.ring(pen.box(view.marks[2]));
    pen.cross(plot, (cell.c + 0.5) / columns.count, (cell.r + 0.5) / rows.count, view.marks[2]);
  }
  pen.outline(plot);
  for (const tick of view.columnTicks.children) {
    const { x, width } = pen.box(tick);
    pen.hairline(x + width / 2, plot.y + plot.height + pen.scale, 1, 5);
  }
  for (const tick of view.rowTicks.children) {
    const { y, height } = pen.box(tick);
    pen.hairline(plot.x - 6 * pen.scale, y + height / 2, 5, 1);
  }
  if (!view.swatch.hidden) pen.fill(pen.box(view.swatch), view.swatch.style.backgroundColor);
}

function drawLegend(pen, { colours, ticks, blank, boundary }) {
  const bar = pen.box(colours);
  pen.image(colours, bar, true);
  pen.outline(bar);
  for (const tick of ticks.children) {
    const { x, width } = pen.box(tick);
    pen.hairline(x + width / 2, bar.y + bar.height + pen.scale, 1, 5);
  }
  if (!blank.hidden) {
    const sample = pen.box(blank.firstChild);
    pen.hatch(sample);
    pen.outline(sample);
  }
  if (!boundary.hidden && boundary.style.visibility !== "hidden") {
    const sample = pen.box(boundary.firstChild);
    pen.dashes(sample, false);
    pen.outline(sample);
  }
}

/** Draws on a canvas of its own what stands at a place of the page. */
class Pen {
  /** `parts` are the elements that the picture holds; `scale` its pixels per CSS pixel; `title` may be "".
   *  `headed`: whether the parts have headings under it. */
  constructor(root, parts, scale, title, headed) {
    const style = getComputedStyle(root);
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    const font = `600 ${TITLE.size * scale}px ${style.fontFamily}`;
    this.font = this.context.font = font;
    const titleWidth = this.context.measureText(title).width / scale;
    const box = boxAround(parts);
    const left = box.left - MARGIN;
    const top = box.top - MARGIN - TITLE.height * ((title ? 1 : 0) + (headed ? 1 : 0));
    this.origin = { left, top };
    this.scale = scale;
    const right = Math.max(box.right, left + MARGIN + titleWidth) + MARGIN;
    const bottom = box.bottom + MARGIN;
    this.canvas.width = Math.round((right - left) * scale);
    this.canvas.height = Math.round((bottom - top) * scale);
    this.text = style.color;
    const paper = style.getPropertyValue("--st-background-color");
    this.fill({ x: 0, y: 0, width: this.canvas.width, height: this.canvas.height }, paper);
    Object.assign(this.context, { font, fillStyle: this.text });
    this.context.fillText(title, MARGIN * scale, (MARGIN + TITLE.size) * scale);
  }

  /** A heading in the font of the title, over an element and no wider. */
  heading(text, element) {
    const { x, y, width } = this.box(element);
    Object.assign(this.context, { font: this.font, fillStyle: this.text, textBaseline: "alphabetic" });
    this.context.fillText(text, x, y - (TITLE.height - TITLE.size) * this.scale, width);
  }

  /** The place of an element, or of a rectangle of the page, in whole picture pixels. */
  box(element) {
    const { left, top, width, height } = element.getBoundingClientRect?.() ?? element;
    return {
      x: Math.round((left - this.origin.left) * this.scale),
      y: Math.round((top - this.origin.top) * this.scale),
      width: Math.round(width * this.scale),
      height: Math.round(height * this.scale),
    };
  }

  fill({ x, y, width, height }, colour, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  image(source, { x, y, width, height }, smooth) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(source, x, y, width, height);
  }

  /** A line of the theme's hair colour, `width` by `height` CSS pixels. */
  hairline(x, y, width, height) {
    const [w, h] = [width * this.scale, height * this.scale];
    const middle = (at, size) => Math.round(size === this.scale ? at - size / 2 : at);
    this.fill({ x: middle(x, w), y: middle(y, h), width: w, height: h }, this.text, 0.35);
  }

  outline({ x, y, width, height }) {
    const line = this.scale;
    const [outer, tall] = [width + 2 * line, height + 2 * line];
    this.fill({ x: x - line, y: y - line, width: outer, height: line }, this.text, 0.35);
    this.fill({ x: x - line, y: y + height, width: outer, height: line }, this.text, 0.35);
    this.fill({ x: x - line, y, width: line, height: tall - 2 * line }, this.text, 0.35);
    this.fill({ x: x + width, y, width: line, height: tall - 2 * line }, this.text, 0.35);
  }

  /** Diagonal stripes, as behind cells without a value. */
  hatch(box) {
    const { context, scale } = this;
    this.fill(box, this.text, 0.07);
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.globalAlpha = 0.16; // over the 7 % below, together about the page's 22 %
    context.strokeStyle = this.text;
    context.lineWidth = 1.5 * scale;
    const gap = 6 * scale * Math.SQRT2;
    context.beginPath();
    for (let x = box.x - box.height; x < box.x + box.width; x += gap) {
      context.moveTo(x, box.y);
      context.lineTo(x + box.height, box.y + box.height);
    }
    context.stroke();
    context.restore();
  }

  /** The training length: white and black in turn. */
  dashes(box, upright) {
    const step = 4 * this.scale;
    const length = upright ? box.height : box.width;
    for (let at = 0; at < length; at += step) {
      const size = Math.min(step, length - at);
      const piece = upright
        ? { ...box, y: box.y + at, height: size }
        : { ...box, x: box.x + at, width: size };
      this.fill(piece, (at / step) % 2 ? "#000" : "#fff");
    }
  }

  ring({ x, y, width, height }) {
    const { context, scale } = this;
    for (const [colour, size] of [["#000", 3.5], ["#fff", 1.5]]) {
      context.beginPath();
      context.roundRect(x + scale, y + scale, width - 2 * scale, height - 2 * scale, 4 * scale);
      context.lineWidth = size * scale;
      context.strokeStyle = colour;
      context.stroke();
    }
  }

  /** The crosshair through a cell, open around the ring that marks it. */
  cross(plot, across, down, ring) {
    const { context, scale } = this;
    const { x, y, width, height } = this.box(ring);
    context.save();
    const open = new Path2D();
    open.rect(plot.x, plot.y, plot.width, plot.height);
    open.rect(x, y, width, height);
    context.clip(open, "evenodd");
    const [column, line] = [plot.x + across * plot.width, plot.y + down * plot.height];
    for (const [colour, size, alpha] of [["#000", 3, 0.45], ["#fff", 1, 1]]) {
      const wide = size * scale;
      this.fill({ ...plot, x: Math.round(column - wide / 2), width: wide }, colour, alpha);
      this.fill({ ...plot, y: Math.round(line - wide / 2), height: wide }, colour, alpha);
    }
    context.restore();
  }

  /** Every text of an element, line by line as the page has wrapped it. */
  texts(element) {
    const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode()) {
      const node = nodes.currentNode;
      const style = getComputedStyle(node.parentElement);
      if (style.visibility === "hidden") continue;
      if (node.parentElement.matches(".upright > .tick")) {
        this.upright(node.data, node.parentElement, style);
        continue;
      }
      for (const line of linesOf(node)) this.line(line, style);
    }
  }

  /** A text that is read from below. */
  upright(text, element, style) {
    const { context } = this;
    const { x, y, width, height } = this.box(element);
    this.use(style);
    context.save();
    context.textBaseline = "middle";
    context.translate(x + width / 2, y + height);
    context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0);
    context.restore();
  }

  /** Write in the font and the colour of a style. */
  use(style) {
    const { context, scale } = this;
    const size = parseFloat(style.fontSize) * scale;
    context.font = `${style.fontStyle} ${style.fontWeight} ${size}px ${style.fontFamily}`;
    context.fillStyle = style.color;
  }

  line({ text, left, top }, style) {
    const { context, scale, origin } = this;
    this.use(style);
    context.textBaseline = "alphabetic";
    const { fontBoundingBoxAscent } = context.measureText(text);
    const y = (top - origin.top) * scale + fontBoundingBoxAscent;
    context.fillText(text, Math.round((left - origin.left) * scale), Math.round(y));
  }
}

/** The lines of a text node with their places on the page; none where it is not shown. */
function linesOf(node) {
  const range = document.createRange();
  const lines = [];
  for (const word of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].trimEnd().length);
    const [box] = range.getClientRects();
    if (!box) continue;
    const last = lines.at(-1);
    if (last && Math.abs(last.top - box.top) < 2) last.text += word[0];
    else lines.push({ text: word[0], left: box.left, top: box.top });
  }
  return lines;
}
