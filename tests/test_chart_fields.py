"""Every chart is poured what its specification names: a field without a column is drawn as nothing."""

import json
from typing import Any

import pytest

from tests.pages import PAGES, charts, drawn, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PINNED = {"a": "schemes~rope,sinusoidal~base~500~length~64"}


def named(node: Any, made: set[str]) -> set[str]:
    """The fields that a specification reads, but those that it makes itself."""
    if isinstance(node, list):
        return set().union(*(named(one, made) for one in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    made |= {str(one["as"]) for one in node.get("transform", ()) if isinstance(one.get("as"), str)}
    own = {node["field"]} if isinstance(node.get("field"), str) else set()
    return own.union(*(named(one, made) for one in node.values()))


@pytest.mark.parametrize("link", [{}, PINNED], ids=["alone", "pinned"])
@pytest.mark.parametrize("page", [*PAGES, "extrapolation, measured"])
def test_every_field_of_a_chart_is_a_column_of_its_frame(page: str, link: dict[str, str]) -> None:
    path, _, half = page.partition(", ")
    at = drawn(visit(path, link | ({"half": half} if half else {})))
    elements = at.get("vega_lite_chart")
    for element, frame in zip(elements, charts(at), strict=True):
        made: set[str] = set()
        asked = named(json.loads(element.proto.spec), made)
        assert asked - made <= {*frame.columns}
    assert elements or path in ("claims", "train", "context_planner")
