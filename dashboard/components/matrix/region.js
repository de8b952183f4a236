// Which cells are shown: a region { i, j } of query and key positions that all panels of a row
// share, each of them an interval { start, count }; null for all cells. A panel shows the part of
// the region that lies in its own matrix, so panels of different sizes stay comparable.

const LEAST_CELLS = 8; // across: one cell is then at least 20 CSS pixels of a 200 pixel panel

const endOf = ({ start, count }) => start + count;
const contains = (outer, inner) =>
  inner.start >= outer.start && endOf(inner) <= endOf(outer);

/** The smallest interval around all of `intervals`. */
function around(intervals) {
  const start = Math.min(...intervals.map((each) => each.start));
  return { start, count: Math.max(...intervals.map(endOf)) - start };
}

/** The region around all cells of `panels`. */
function extentOf(panels) {
  return {
    i: around(panels.map((panel) => panel.rows)),
    j: around(panels.map((panel) => panel.columns)),
  };
}

/** The part of `axis` inside `interval`, as an axis of its own that `skip`s the cells before it. */
function partOf(axis, interval) {
  const start = Math.max(axis.start, interval.start);
  const count = Math.min(endOf(axis), endOf(interval)) - start;
  if (count <= 0) return { ...axis, ...interval, ticks: axis.ticks && [], skip: 0, blank: true };
  const skip = start - axis.start;
  const ticks = axis.ticks
    ?.map(([index, text]) => [index - skip, text])
    .filter(([index]) => index >= 0 && index < count);
  return { ...axis, start, count, ticks, skip, blank: false };
}

/** What a panel shows of a region: its rows, its columns, and whether none of its cells is there. */
function shownOf({ rows, columns }, region) {
  const down = partOf(rows, region?.i ?? rows);
  const right = partOf(columns, region?.j ?? columns);
  return { rows: down, columns: right, blank: down.blank || right.blank };
}

/** `interval` moved and grown so that it holds LEAST_CELLS or more and lies inside `axis`. */
function fitted(interval, axis) {
  const count = Math.min(Math.max(interval.count, LEAST_CELLS), axis.count);
  const start = Math.round(interval.start + (interval.count - count) / 2);
  return { start: Math.min(Math.max(start, axis.start), endOf(axis) - count), count };
}

/** `interval` made `factor` times as long around `position`. */
function scaled(interval, factor, position, axis) {
  const count = Math.max(1, Math.round(interval.count * factor));
  return fitted({ start: Math.floor(position + 0.5 - count / 2), count }, axis);
}

/** `interval` moved by as little as brings `position` into it. */
function following({ start, count }, position) {
  return { start: Math.min(Math.max(start, position - count + 1), position), count };
}

/** The region from one cell to another, both included. */
function spanning(one, other) {
  const from = (a, b) => ({ start: Math.min(a, b), count: Math.abs(a - b) + 1 });
  return { i: from(one.i, other.i), j: from(one.j, other.j) };
}
