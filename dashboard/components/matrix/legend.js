// The legend of a row: its colour bar, and what a blank and the dashed line mean.

function fillLegend(legend, scale, panels) {
  const { low, high, kind } = scale;
  if (legend.kind !== kind) paintLegend(legend.colours, kind);
  legend.kind = kind;
  write(legend.unit, scale.unit);
  const texts = legendTicks(scale);
  const extents = panels.map((panel) => panel.extent);
  // An end that stands for everything beyond it says so.
  const [first, last] = [texts[0], texts.at(-1)];
  if (extents.some((each) => each.low < Math.fround(low))) first[1] = `≤ ${first[1]}`;
  if (extents.some((each) => each.high > Math.fround(high))) last[1] = `≥ ${last[1]}`;
  placeTicks(legend.ticks, texts);
  legend.blank.hidden = !extents.some((each) => each.blank);
  const crossed = (panel) =>
    [panel.rows, panel.columns].some((axis) => boundaryOn(axis, panel.boundary) !== null);
  const lengths = panels.map((panel) => panel.boundary).filter((length) => length !== null);
  const length = new Set(lengths).size === 1 ? lengths[0] : "";
  legend.boundary.hidden = !panels.some(crossed);
  write(legend.boundaryText, `training length ${length}`);
}
