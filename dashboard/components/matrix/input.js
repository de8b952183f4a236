// What pointer and keys do: point, pin, drag to zoom, walk by arrow keys, press the tools.

const DRAG = 5; // CSS pixels: less is a click with an unsteady hand

class Input {
  constructor(row) {
    this.row = row;
    this.pointed = false; // whether the pointer, not a key, moved the crosshair last
    this.drag = null; // a button is down: where, in which panel, and how far it got
    this.dragged = false; // a drag has just ended, and the click that ends it means nothing
    const { nearer, farther, all, png } = row.tools;
    this.onPress(nearer, () => row.canZoomIn() && row.zoomBy(1 / 2));
    this.onPress(farther, () => row.zoomBy(2));
    this.onPress(all, () => row.zoomTo(null));
    png.addEventListener("click", () => savePng(row));
    row.root.addEventListener("focusout", (event) => this.blur(event));
  }

  listen(plot, index) {
    const on = (type, handler) => plot.addEventListener(type, handler);
    on("pointerdown", (event) => this.down(event, index));
    on("pointermove", (event) => this.move(event, index));
    on("pointerup", (event) => this.up(event, index));
    on("pointercancel", () => this.stopDrag());
    on("pointerleave", (event) => this.leave(event));
    on("click", (event) => this.click(event, index));
    on("keydown", (event) => this.key(event, index));
    on("focus", () => this.activate(index));
  }

  onPress(button, action) {
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      action();
      this.row.announceZoom();
    });
  }

  activate(index) {
    this.row.active = index;
    this.row.drawTools();
  }

  /** The positions under the pointer, in the panel numbered `index`. */
  cellUnder(event, index) {
    const { rows, columns } = this.row.panels[index].shown;
    const box = this.row.views[index].canvas.getBoundingClientRect();
    const down = Math.floor(((event.clientY - box.top) / box.height) * rows.count);
    const right = Math.floor(((event.clientX - box.left) / box.width) * columns.count);
    return { i: within(rows.start + down, rows), j: within(columns.start + right, columns) };
  }

  // ---- Pointer ----

  down(event, index) {
    this.dragged = false;
    this.activate(index);
    // A finger scrolls the page and must go on doing so: it zooms by the buttons.
    if (event.button !== 0 || event.pointerType === "touch") return;
    if (this.row.panels[index].shown.blank) return;
    this.drag = {
      index, x: event.clientX, y: event.clientY, from: this.cellUnder(event, index),
      region: this.row.region, pans: event.shiftKey && this.row.region !== null, moved: false,
    };
  }

  move(event, index) {
    if (this.drag && !(event.buttons & 1)) this.stopDrag(); // let go outside the window
    if (this.drag) return this.dragTo(event);
    if (this.row.pinned) return;
    this.pointed = true;
    this.row.moveTo(this.cellUnder(event, index));
  }

  dragTo(event) {
    const { drag, row } = this;
    const far = Math.hypot(event.clientX - drag.x, event.clientY - drag.y);
    if (!drag.moved && far < DRAG) return;
    if (!drag.moved) row.views[drag.index].plot.setPointerCapture(event.pointerId);
    drag.moved = true;
    if (drag.pans) this.panTo(event);
    else row.select(spanning(drag.from, this.cellUnder(event, drag.index)));
    if (row.pinned) return;
    this.pointed = true;
    row.moveTo(this.cellUnder(event, drag.index));
  }

  /** Move the region with the hand: the cell that was taken hold of stays under the pointer. */
  panTo(event) {
    const { drag, row } = this;
    const box = row.views[drag.index].canvas.getBoundingClientRect();
    const { rows, columns } = row.panels[drag.index].shown;
    const all = extentOf(row.panels);
    const moved = (interval, pixels, size, count, axis) =>
      fitted({ ...interval, start: interval.start - Math.round((pixels / size) * count) }, axis);
    row.zoomTo({
      i: moved(drag.region.i, event.clientY - drag.y, box.height, rows.count, all.i),
      j: moved(drag.region.j, event.clientX - drag.x, box.width, columns.count, all.j),
    });
  }

  up(event, index) {
    const { drag, row } = this;
    if (!drag) return;
    this.stopDrag();
    if (!drag.moved) return;
    this.dragged = true;
    if (drag.pans) return;
    const { i, j } = spanning(drag.from, this.cellUnder(event, index));
    const { rows, columns } = row.panels[index];
    row.zoomTo({ i: fitted(i, rows), j: fitted(j, columns) });
    row.announceZoom();
    // The pointer now lies on another cell than before.
    if (!row.pinned) row.moveTo(this.cellUnder(event, index));
  }

  stopDrag() {
    this.drag = null;
    this.row.select(null);
  }

  leave(event) {
    // A finger that lifts also leaves; what it pointed at stays readable. And a page that scrolls
    // from under a resting mouse must not take away what the keys have reached.
    const touched = event.pointerType === "touch";
    if (this.pointed && !this.row.pinned && !this.drag?.moved && !touched) this.row.moveTo(null);
  }

  click(event, index) {
    if (this.dragged) {
      this.dragged = false;
      return;
    }
    const { row } = this;
    const at = this.cellUnder(event, index);
    const same = row.at && row.at.i === at.i && row.at.j === at.j;
    // A finger cannot hover, so a tap elsewhere moves the pin instead of releasing it.
    row.pin(event.pointerType === "touch" ? !(row.pinned && same) : !row.pinned);
    row.moveTo(event.pointerType === "touch" && !row.pinned ? null : at);
    row.sendCell();
  }

  blur(event) {
    const { row } = this;
    if (!row.pinned && !row.root.contains(event.relatedTarget)) row.moveTo(null);
  }

  // ---- Keys ----

  key(event, index) {
    // With one of these a key is the browser's, such as its own zoom.
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const { row } = this;
    const zoom = { "+": 1 / 2, "=": 1 / 2, "-": 2, _: 2, 0: Infinity }[event.key];
    if (event.key === "Escape") {
      if (this.drag) this.cancelDrag();
      else {
        row.pin(false);
        row.moveTo(null);
      }
    } else if (event.key === "Enter" || event.key === " ") {
      row.pin(!row.pinned);
      row.moveTo(row.at ?? row.resting(index));
      row.sendCell();
    } else if (zoom) {
      this.zoomByKey(zoom, index);
    } else {
      const at = this.stepped(event, index);
      if (!at) return;
      this.pointed = false;
      row.follow(at);
      row.moveTo(at);
      row.announce(index);
    }
    // The page must not scroll, nor Streamlit take the key as a shortcut.
    event.preventDefault();
    event.stopPropagation();
  }

  zoomByKey(factor, index) {
    const { row } = this;
    this.pointed = false;
    if (factor === Infinity) row.zoomTo(null);
    else {
      if (!row.at) row.moveTo(row.resting(index)); // shows what the zoom is around
      if (factor > 1 || row.canZoomIn(index)) row.zoomBy(factor, index);
    }
    row.announceZoom();
  }

  /** Give up a drag: a rectangle is forgotten, a moved region returns. */
  cancelDrag() {
    const { pans, moved, region } = this.drag;
    this.stopDrag();
    this.dragged = moved;
    if (pans) this.row.zoomTo(region);
  }

  /** Where this key moves the crosshair, or null for a key that is not ours. */
  stepped(event, index) {
    const { rows, columns } = this.row.panels[index];
    const from = this.row.at ?? this.row.resting(index);
    const step = event.shiftKey ? 10 : 1;
    const all = columns.count;
    const down = { ArrowUp: -step, ArrowDown: step }[event.key] ?? 0;
    const right =
      { ArrowLeft: -step, ArrowRight: step, Home: -all, End: all }[event.key] ?? 0;
    if (!down && !right) return null;
    return { i: within(from.i + down, rows), j: within(from.j + right, columns) };
  }
}
