"""The bytes of a row of matrices: decoded by a plain independent reader, bit for bit."""

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dashboard.components.matrix.colours import KINDS, shades
from dashboard.components.matrix.payload import Panel, Row, Scale, encode
from dashboard.components.matrix.values import Curve, Full, Triangle, minus, smallest
from posenc.errors import SchemeArgumentError

SCALE = Scale(-1.0, 1.0, "diverging", "cosine similarity")
# Values whose bits a careless path would change: signed zero, denormal, largest, neighbours of 1.
AWKWARD = [-0.0, 0.0, 1e-45, -1e-39, 3.4028235e38, 1.0, 0.99999994, 1.0000001, 0.1, np.pi, np.nan]


def send(
    *panels: Panel, height: int | None = None, text: str = "four schemes", title: str = ""
) -> bytes:
    row = Row(
        panels=panels, key="similarity", title=title, scale=SCALE, height=height,
        text_alternative=text,
    )  # fmt: skip
    return encode(row)


# Where the value of a cell is, of a matrix of so many rows and columns.
PLACE: dict[str, Callable[[int, int, int, int], int]] = {
    "curve": lambda i, j, rows, columns: j - i + rows - 1,  # key - query
    "triangle": lambda i, j, rows, columns: sum(range(max(i, j) + 1)) + min(i, j),
    "full": lambda i, j, rows, columns: i * columns + j,
}


def read(data: bytes) -> tuple[dict[str, Any], list[list[list[float]]]]:
    """Decode with struct and plain loops, from the layout in words alone."""
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length].decode("utf-8"))
    at = 4 + length
    assert at % 4 == 0
    matrices = []
    for panel in header["panels"]:
        rows, columns = panel["rows"]["count"], panel["columns"]["count"]
        values = struct.unpack(f"<{panel['count']}f", data[at : at + 4 * panel["count"]])
        at += 4 * panel["count"]
        size = {"curve": 2 * rows - 1, "triangle": sum(range(rows + 1)), "full": rows * columns}
        values += (math.nan,) * (size[panel["kind"]] - panel["count"])  # blanks at the end
        place = PLACE[panel["kind"]]
        cells = [[place(i, j, rows, columns) for j in range(columns)] for i in range(rows)]
        matrices.append([[values[cell] for cell in row] for row in cells])
    assert at == len(data)
    return header, matrices


def bits(matrix: object) -> np.ndarray:
    return np.asarray(matrix, np.float32).view(np.uint32)


def awkward(*shape: int) -> torch.Tensor:
    values = np.resize(np.array(AWKWARD, np.float32), shape)
    return torch.from_numpy(values.copy())


def toeplitz(curve: torch.Tensor) -> torch.Tensor:
    n = (len(curve) + 1) // 2
    return torch.tensor([[curve[j - i + n - 1] for j in range(n)] for i in range(n)])


def symmetric(length: int) -> torch.Tensor:
    lower = awkward(length, length).tril()
    return torch.where(torch.ones(length, length).tril() > 0, lower, lower.T)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_every_form_decodes_to_its_matrix_bit_for_bit(length: int) -> None:
    curve, triangle, full = awkward(2 * length - 1), symmetric(length), awkward(length, length + 3)
    sent = Curve.from_tensor(curve), smallest(triangle), Full.from_tensor(full)
    _, matrices = read(send(*(Panel(title="", values=values) for values in sent)))
    expected = (toeplitz(curve), triangle, full)
    for values, matrix, exact in zip(sent, matrices, expected, strict=True):
        assert np.array_equal(bits(matrix), bits(exact))
        assert np.array_equal(bits(smallest(exact).dense()), bits(exact))
        assert length < 7 or isinstance(smallest(exact), type(values))
    expected[1][-1, 0] = torch.nextafter(expected[1][-1, 0], torch.tensor(9.0))
    assert length == 1 or isinstance(smallest(expected[1]), Full)  # one bit from symmetric


def test_offset_is_key_minus_query() -> None:
    values = Curve.from_tensor(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
    _, (matrix,) = read(send(Panel(title="", values=values)))
    assert matrix == [[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]


def test_blanks_at_the_end_of_a_table_are_not_sent() -> None:
    known = torch.full((256, 256), torch.nan)
    known[:128, :128] = symmetric(128)
    shorter = send(Panel(title="", values=smallest(known)))
    assert len(shorter) <= 4 * 128 * 129 / 2 + 400
    _, (matrix,) = read(shorter)
    assert np.array_equal(bits(matrix), bits(known))
    nothing = torch.full((3, 4), torch.nan)
    header, (matrix,) = read(send(Panel(title="", values=Full(nothing.numpy()))))
    assert header["panels"][0]["count"] == 0
    assert np.isnan(matrix).all()


def test_other_dtypes_and_a_transposed_view_arrive_rounded_to_float32() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        matrix = torch.linspace(-1, 1, 15, dtype=dtype).reshape(3, 5).T.requires_grad_()
        _, (sent,) = read(send(Panel(title="", values=Full.from_tensor(matrix))))
        assert sent == matrix.float().tolist()


@pytest.mark.parametrize(
    "forms", [(Curve, Curve), (Triangle, Triangle), (Full, Full), (Curve, Triangle)]
)
def test_difference_is_of_each_entry(forms: tuple[Any, Any]) -> None:
    draw = np.random.default_rng(0)
    shapes: dict[Any, Any] = {Curve: 11, Triangle: 21, Full: (6, 6)}
    one, other = (
        form(draw.normal(size=shapes[form]).astype(np.float32), *([] if form is Full else [6]))
        for form in forms
    )
    found = minus(one, other)
    assert isinstance(found, forms[0] if forms[0] is forms[1] else Full)
    assert np.allclose(found.dense(), one.dense() - other.dense(), atol=1e-7)
    with pytest.raises(SchemeArgumentError, match=r"\(6, 6\) and \(5, 5\)"):
        minus(one, Full(np.zeros((5, 5), np.float32)))


def test_scale_around_zero_reaches_the_largest_magnitude() -> None:
    blank = np.array([[np.nan, -3.5], [np.inf, 2.0]], np.float32)
    scale = Scale.around_zero([Full(np.ones((2, 2), np.float32)), Full(blank)], "B minus A")
    assert scale == Scale(-3.5, 3.5, "diverging", "B minus A")
    for nothing in (np.zeros((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)):
        assert Scale.around_zero([Full(nothing)], "x") == Scale(-1.0, 1.0, "diverging", "x")


def test_header_holds_all_text_around_a_panel() -> None:
    said: dict[str, Any] = {
        "title": '<b>"Größe" & co</b>', "subtitle": "width 64 = 512/8", "color": "#0072b2",
        "boundary": 101,
    }  # fmt: skip
    panel = Panel(
        **said, values=Full.from_tensor(awkward(2, 3)), row_start=100, column_start=-2,
        column_label="dimension", column_ticks=[(0, "sin 0"), (2, "sin 1")],
    )  # fmt: skip
    header, _ = read(send(panel, height=240, text="one → two", title="Similarity"))
    (told,) = header.pop("panels")
    assert header == {
        "name": "similarity", "title": "Similarity", "text": "one → two", "height": 240, "together": 1,
        "scale": {"low": -1.0, "high": 1.0, "kind": "diverging", "unit": "cosine similarity"},
    }  # fmt: skip
    assert told.items() >= said.items()
    assert told["rows"] == {"count": 2, "start": 100, "label": "query position", "ticks": None}
    ticks = [[0, "sin 0"], [2, "sin 1"]]
    assert told["columns"] == {"count": 3, "start": -2, "label": "dimension", "ticks": ticks}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scale(1.0, 1.0), "low < high"),
        (lambda: Scale(0.0, float("nan")), "finite"),
        (lambda: Scale(0.0, float("inf")), "finite"),
        (lambda: Scale(0.0, 1.0, kind="rainbow"), "sequential or diverging"),  # type: ignore[arg-type]
    ],
)
def test_wrong_input_is_refused_with_one_sentence(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SchemeArgumentError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def luminance(kind: str) -> np.ndarray:
    """Return the relative luminance of every shade (WCAG 2.2): what is left of it without colour."""
    parts = shades(kind) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("kind", KINDS)
def test_lightness_alone_orders_the_shades_of_a_ramp(kind: str) -> None:
    steps = np.diff(luminance(kind))
    middle = len(steps) // 2 if kind == "diverging" else len(steps)
    assert (steps[:middle] >= 0).all()
    assert (steps[middle:] <= 0).all()


def test_ends_of_the_diverging_scale_differ_in_greyscale() -> None:
    low, high = luminance("diverging")[[0, -1]] + 0.05
    assert high / low > 4
