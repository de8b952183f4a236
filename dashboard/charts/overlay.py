"""A chart of two settings: the specification of one, its marks told apart by setting; tables likewise.

A chart knows nothing of A and B. Here lines of B become solid and those of A dashed, whatever strokes
schemes have, so that a few points of each have the shape of its scheme; bars stand beside each other;
points and areas of A are pale; tooltips say whose value it is. Frame: the rows of B, then those of A, with
a column `setting`, and `marker` where lines have points.
"""

import copy
import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from dashboard.charts.theme import LEGEND_COLUMNS, LEGEND_LINE, Spec, shapes_of

SETTINGS = ("A", "B")
SETTINGS_LEGEND = 50  # pixels that the legend of A and B takes under a plot
LONG_NAME = 20  # letters of a setting's name, of which two do not fit beside each other
SMALL = 200  # pixels: a lower chart stands in a narrow place, where no two names fit
LINE = 25  # pixels that a second line of the legend takes
MARKERS = 5  # of each line
_FIELD = {"field": "setting", "type": "nominal"}
# The legend of schemes where points have shapes: of colours and of shapes alike, so that Vega shows one.
_SHAPES = {
    "title": None, "orient": "top", "symbolOpacity": 1, "symbolSize": 60,
    "columns": LEGEND_COLUMNS,
}  # fmt: skip


def both(b: pd.DataFrame, a: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of B with those of A under them, and a column that tells them apart."""
    parts = [frame.assign(setting=name) for name, frame in (("B", b), ("A", a)) if len(frame)]
    return pd.concat(parts, ignore_index=True) if parts else b.assign(setting="B")


def compared(b: pd.DataFrame, a: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of B, each followed by A's of the same name (the first column) and the change.

    A change is B minus A, of numbers only; rows of words alone have none.
    """
    if b.empty or a.empty:
        return pd.concat([b.assign(setting="B"), a.assign(setting="A")], ignore_index=True)
    name = str(b.columns[0])
    if b[name].duplicated().any() or a[name].duplicated().any():
        raise ValueError(f"rows are compared by {name}, which must name each of them once.")
    numbers = [column for column in b if column in a and b[column].dtype.kind in "fi"]
    of_b, of_a = b.set_index(name), a.set_index(name)
    shared = of_b.index.intersection(of_a.index, sort=False)
    parts = {"B": of_b, "A": of_a}
    if numbers:
        parts["B - A"] = of_b.loc[shared, numbers] - of_a.loc[shared, numbers]
    rows = pd.concat(parts, names=["setting"]).reset_index()
    order = rows[name].map({key: n for n, key in enumerate(rows[name].unique())})
    rows = rows.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    return rows[[name, "setting", *(column for column in b if column != name)]]


def marked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of lines with `marker`: true at a few rows of each line, evenly spread.

    Those of a scheme stand at other places than those of the next, so that lines that are close share none.
    """
    if not {"scheme", "setting"} <= {*frame} or frame.empty:
        return frame
    schemes = pd.factorize(frame["scheme"])[0]
    lines = schemes * len(SETTINGS) + (frame["setting"] == SETTINGS[0]).to_numpy()
    marker = np.zeros(len(frame), bool)
    for line in np.unique(lines):
        rows = np.flatnonzero(lines == line)
        share = (schemes[rows[0]] + 1) / (schemes.max() + 2)
        marker[rows[((np.arange(MARKERS) + share) / MARKERS * len(rows)).astype(int)]] = True
    return frame.assign(marker=marker)


def of_both(spec: Spec, names: Mapping[str, str]) -> Spec:
    """Return the specification for both settings. names: what the legend calls A and B."""
    in_lines = spec["height"] < SMALL or max(map(len, names.values())) > LONG_NAME
    text = f"datum.label == 'A' ? {json.dumps(names['A'])} : {json.dumps(names['B'])}"
    legend = {
        "title": None, "orient": "bottom", "labelExpr": text, "labelLimit": 240,
        "columns": 1 if in_lines else 2,
    }  # fmt: skip
    spec = copy.deepcopy(spec)
    layers = spec.get("layer", [spec])
    points = [points for layer in layers if (points := _points(layer))]
    for layer in (*layers, *points) if points else ():
        for channel in ("color", "shape"):
            if layer["encoding"].get(channel, {}).get("field") == "scheme":
                layer["encoding"][channel]["legend"] = _SHAPES
    for layer in layers:
        _tell_apart(layer, legend)
        if "label_y" in json.dumps(layer):  # at the ends of two lines of a scheme one name has room
            layer["transform"] = [*layer.get("transform", ()), {"filter": "datum.setting != 'A'"}]
    if "layer" in spec:
        spec["layer"] = [*layers, *points]
    spec["height"] += SETTINGS_LEGEND + (LINE if in_lines else 0)
    return spec


def _tell_apart(layer: Spec, legend: Spec) -> None:
    """Tell the marks of a layer apart by setting, in place."""
    if not _draws_rows(layer):
        return
    encoding, kind = layer["encoding"], layer["mark"]["type"]
    domain = {"domain": [*SETTINGS]}
    match kind:
        case "line":
            dashes = domain | {"range": [[5, 4], [1, 0]]}
            encoding["strokeDash"] = _FIELD | {"scale": dashes, "legend": legend | LEGEND_LINE}
        case "area":
            encoding["detail"] = _FIELD
            layer["mark"]["fillOpacity"] = 0.55
        case "bar" | "point" | "circle":
            pale = domain | {"range": [0.45, 1.0]}
            shown = {**legend, "symbolType": "circle", "symbolFillColor": "gray"}
            encoding["opacity"] = _FIELD | {"scale": pale, "legend": shown}
            if kind == "bar":
                encoding["xOffset"] = _FIELD
    pivot = next((step for step in layer.get("transform", ()) if "pivot" in step), None)
    if pivot is not None:
        _read_both(layer, pivot)
    elif isinstance(encoding.get("tooltip"), list):
        encoding["tooltip"].insert(1, _FIELD | {"title": "setting"})


def _points(layer: Spec) -> Spec | None:
    """Return the points that a layer of lines gets, None where it has some or shows no schemes.

    Their shapes stand in the legend (`_SHAPES`): strokes tell A and B apart, not schemes.
    """
    mark, colour = layer["mark"], layer["encoding"].get("color", {})
    if mark["type"] != "line" or mark.get("point") or colour.get("field") != "scheme":
        return None
    labels = colour["scale"]["domain"]
    shapes = {"domain": labels, "range": shapes_of(labels)}
    encoding = {name: layer["encoding"][name] for name in ("x", "y", "color", "opacity")}
    return {
        "transform": [{"filter": "datum.marker"}],
        "mark": {"type": "point", "filled": True, "size": 45, "aria": False, "tooltip": None},
        "encoding": copy.deepcopy(encoding | {"shape": colour | {"scale": shapes}}),
    }


def _draws_rows(layer: Spec) -> bool:
    """Whether a layer draws the rows of a setting; a rule at the training length draws one for all."""
    channels = layer["encoding"].values()
    return not any(isinstance(one, dict) and one.get("aggregate") for one in channels)


def _read_both(layer: Spec, pivot: Spec) -> None:
    """Make a readout list every line twice, for B and for A, in place."""
    place, *rows = layer["encoding"]["tooltip"]
    texts = {step["as"]: step["calculate"] for step in layer["transform"] if "as" in step}
    line = f"datum.{pivot['pivot']} + ', ' + datum.setting"
    layer["transform"] = [{"calculate": line, "as": "line"}, pivot | {"pivot": "line"}]
    layer["encoding"]["tooltip"] = [place]
    for row in rows:
        name = row["title"]
        for setting in SETTINGS:
            of_setting = f"{name}, {setting}"
            text = texts[name].replace(json.dumps(name), json.dumps(of_setting))
            layer["transform"].append({"calculate": text, "as": of_setting})
            layer["encoding"]["tooltip"].append(
                {"field": of_setting.replace(".", "\\."), "title": of_setting, "type": "nominal"}
            )
