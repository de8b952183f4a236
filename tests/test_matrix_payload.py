"""The bytes of a row of matrices: decoded by a plain independent reader, bit for bit."""

import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from streamlit.testing.v1 import AppTest

from dashboard.matrix import CODE_COMPONENT, ROW_COMPONENT
from dashboard.matrix.payload import Panel, Row, Scale, encode
from dashboard.matrix.values import Curve, Full, Triangle, minus, smallest
from posenc.errors import SchemeArgumentError
from posenc.limits import MAX_DRAWN_CELLS

SCALE = Scale(-1.0, 1.0, "diverging", "cosine similarity")
# Values whose bits a careless path would change: signed zero, denormal, largest, neighbours of 1.
AWKWARD = [-0.0, 0.0, 1e-45, -1e-39, 3.4028235e38, 1.0, 0.99999994, 1.0000001, 0.1, np.pi, np.nan]


def send(*panels: Panel, height: int | None = None, text: str = "four schemes") -> bytes:
    row = Row(panels=panels, key="similarity", scale=SCALE, height=height, text_alternative=text)
    return encode(row)


def read(data: bytes) -> tuple[dict, list[list[list[float]]]]:
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
        matrix = []
        for i in range(rows):
            for_query = []
            for j in range(columns):
                if panel["kind"] == "curve":
                    offset = j - i  # key minus query
                    for_query.append(values[offset + rows - 1])
                elif panel["kind"] == "triangle":
                    low, high = min(i, j), max(i, j)
                    for_query.append(values[sum(range(high + 1)) + low])
                else:
                    for_query.append(values[i * columns + j])
            matrix.append(for_query)
        matrices.append(matrix)
    assert at == len(data)
    return header, matrices


def bits(matrix: object) -> np.ndarray:
    return np.asarray(matrix, np.float32).view(np.uint32)


def awkward(*shape: int) -> torch.Tensor:
    values = np.resize(np.array(AWKWARD, np.float32), shape)
    return torch.from_numpy(values.copy())


def toeplitz(curve: torch.Tensor) -> torch.Tensor:
    length = (len(curve) + 1) // 2
    rows = [[curve[j - i + length - 1] for j in range(length)] for i in range(length)]
    return torch.tensor(rows)


def symmetric(length: int) -> torch.Tensor:
    lower = awkward(length, length).tril()
    return torch.where(torch.ones(length, length).tril() > 0, lower, lower.T)


@pytest.mark.parametrize("length", [1, 2, 7, 24])
def test_every_form_decodes_to_its_matrix_bit_for_bit(length: int) -> None:
    curve, full = awkward(2 * length - 1), awkward(length, length + 3)
    _, matrices = read(
        send(
            Panel(title="curve", values=Curve.from_tensor(curve)),
            Panel(title="triangle", values=Triangle.from_matrix(symmetric(length))),
            Panel(title="full", values=Full.from_tensor(full)),
        )
    )
    for sent, expected in zip(matrices, [toeplitz(curve), symmetric(length), full], strict=True):
        assert np.array_equal(bits(sent), bits(expected))


@pytest.mark.parametrize(
    "values",
    [Curve.from_tensor(awkward(13)), Triangle.from_matrix(symmetric(7)), Full(awkward(3, 5))],
    ids=["curve", "triangle", "full"],
)
def test_dense_is_what_the_reader_decodes(values: Curve | Triangle | Full) -> None:
    _, (sent,) = read(send(Panel(title="", values=values)))
    assert np.array_equal(bits(sent), bits(values.dense()))


def test_offset_is_key_minus_query() -> None:
    values = Curve.from_tensor(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
    _, (matrix,) = read(send(Panel(title="", values=values)))
    assert matrix == [[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]


def test_four_panels_of_256_take_at_most_150_kilobytes() -> None:
    curves = [Panel(title="x", values=Curve(np.ones(511, np.float32), 256)) for _ in range(3)]
    triangle = Panel(title="x", values=Triangle(np.ones(256 * 257 // 2, np.float32), 256))
    assert len(send(*curves, triangle)) <= 150_000


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


def test_float64_is_rounded_once_to_the_nearest_float32() -> None:
    matrix = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    _, (sent,) = read(send(Panel(title="", values=Full.from_tensor(matrix))))
    plain = [[struct.unpack("<f", struct.pack("<f", value))[0] for value in row] for row in matrix]
    assert sent == plain


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_dtypes_arrive_unchanged(dtype: torch.dtype) -> None:
    matrix = torch.linspace(-1, 1, 15, dtype=dtype).reshape(3, 5).requires_grad_()
    _, (sent,) = read(send(Panel(title="", values=Full.from_tensor(matrix))))
    assert torch.equal(torch.tensor(sent), matrix.detach().float())


def test_a_transposed_view_is_sent_in_its_own_order() -> None:
    matrix = torch.arange(12.0).reshape(3, 4).T
    _, (sent,) = read(send(Panel(title="", values=Full.from_tensor(matrix))))
    assert sent == matrix.tolist()


def test_later_changes_of_the_source_do_not_reach_the_panel() -> None:
    source = torch.zeros(2, 2)
    values = Full.from_tensor(source)
    source += 1
    assert not values.values.any()
    with pytest.raises(ValueError, match="read-only"):
        values.values[0, 0] = 1


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_smallest_loses_no_bit_of_any_matrix(matrix: np.ndarray) -> None:
    values = smallest(torch.from_numpy(matrix))
    assert np.array_equal(bits(values.dense()), bits(matrix))


@given(arrays.arrays(np.float32, st.integers(1, 9).map(lambda length: 2 * length - 1)))
def test_smallest_sends_a_stationary_matrix_as_its_curve(curve: np.ndarray) -> None:
    values = smallest(torch.from_numpy(Curve.from_tensor(torch.from_numpy(curve)).dense()))
    assert isinstance(values, Curve)
    assert np.array_equal(bits(values.values), bits(curve))


def test_smallest_sends_a_symmetric_matrix_as_its_triangle_and_others_in_full() -> None:
    assert isinstance(smallest(symmetric(6)), Triangle)
    one_bit_off = symmetric(6)
    one_bit_off[4, 1] = torch.nextafter(one_bit_off[1, 4], torch.tensor(9.0))
    assert isinstance(smallest(one_bit_off), Full)
    assert isinstance(smallest(awkward(3, 4)), Full)


def test_a_table_in_low_precision_is_not_taken_for_stationary() -> None:
    angles = torch.arange(32.0)[:, None] * 0.37 ** torch.arange(4.0)
    table = torch.cat([angles.sin(), angles.cos()], 1).bfloat16().double()
    assert isinstance(smallest(table @ table.T), Triangle | Full)


def random(kind: str, seed: int, length: int = 6) -> Curve | Triangle | Full:
    numbers = np.random.default_rng(seed).normal(size=length * length).astype(np.float32)
    numbers[3] = np.nan
    if kind == "curve":
        return Curve(numbers[: 2 * length - 1], length)
    if kind == "triangle":
        return Triangle(numbers[: length * (length + 1) // 2], length)
    return Full(numbers.reshape(length, length))


@pytest.mark.parametrize("before", ["curve", "triangle", "full"])
@pytest.mark.parametrize("after", ["curve", "triangle", "full"])
def test_a_difference_is_each_entry_s_difference_rounded_once(after: str, before: str) -> None:
    one, other = random(after, 1), random(before, 2)
    found = minus(one, other)
    assert isinstance(found, type(one) if after == before else Full)
    for i in range(6):
        for j in range(6):
            exact = float(one.dense()[i, j]) - float(other.dense()[i, j])
            assert bits(found.dense()[i, j]) == bits(np.float32(exact)) or exact != exact
            assert (exact != exact) == bool(np.isnan(found.dense()[i, j]))
    assert not np.nan_to_num(minus(one, one).dense()).any()


def test_a_difference_needs_two_matrices_of_one_shape() -> None:
    with pytest.raises(SchemeArgumentError, match=r"\(6, 6\) and \(5, 5\)"):
        minus(random("full", 1), random("full", 1, length=5))


def test_a_scale_around_zero_reaches_the_largest_magnitude_drawn() -> None:
    blank = np.array([[np.nan, -3.5], [np.inf, 2.0]], np.float32)
    scale = Scale.around_zero([Full(np.ones((2, 2), np.float32)), Full(blank)], "B minus A")
    assert scale == Scale(-3.5, 3.5, "diverging", "B minus A")
    for nothing in (np.zeros((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)):
        assert Scale.around_zero([Full(nothing)], "x") == Scale(-1.0, 1.0, "diverging", "x")


def test_header_holds_everything_written_around_a_panel() -> None:
    panel = Panel(
        title='<b>"Größe" & co</b>',
        subtitle="width 64 = 512/8",
        values=Full(awkward(2, 3)),
        row_start=100,
        column_start=-2,
        boundary=101,
        column_label="dimension",
        column_ticks=[(0, "sin 0"), (2, "sin 1")],
        color="#0072b2",
    )
    header, _ = read(send(panel, height=240, text="one → two"))
    assert header == {
        "name": "similarity",
        "text": "one → two",
        "height": 240,
        "together": 1,
        "scale": {"low": -1.0, "high": 1.0, "kind": "diverging", "unit": "cosine similarity"},
        "panels": [
            {
                "title": '<b>"Größe" & co</b>',
                "subtitle": "width 64 = 512/8",
                "color": "#0072b2",
                "kind": "full",
                "count": 6,
                "boundary": 101,
                "rows": {"count": 2, "start": 100, "label": "query position", "ticks": None},
                "columns": {
                    "count": 3,
                    "start": -2,
                    "label": "dimension",
                    "ticks": [[0, "sin 0"], [2, "sin 1"]],
                },
            }
        ],
    }


ONE = Full(np.zeros((1, 1), np.float32))
LONG = MAX_DRAWN_CELLS + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Curve.from_tensor(torch.ones(4)), "odd number of values"),
        (lambda: Curve(np.ones(5, np.float32), 4), r"shape \(7,\), got \(5,\)"),
        (lambda: Curve.from_tensor(torch.ones(2 * LONG - 1)), f"to {MAX_DRAWN_CELLS}"),
        (lambda: Triangle(np.ones(5, np.float32), 3), r"shape \(6,\), got \(5,\)"),
        (lambda: Triangle.from_matrix(torch.tensor([[1.0, 2], [3, 1]])), "symmetric"),
        (lambda: Triangle.from_matrix(torch.ones(2, 3)), "symmetric"),
        (lambda: Full(np.ones(3, np.float32)), "two axes"),
        (lambda: Full(np.ones((0, 3), np.float32)), "from 1 to"),
        (lambda: Full(np.ones((1, LONG), np.float32)), f"to {MAX_DRAWN_CELLS}"),
        (lambda: Scale(1.0, 1.0), "low < high"),
        (lambda: Scale(0.0, float("nan")), "finite"),
        (lambda: Scale(0.0, float("inf")), "finite"),
        (lambda: Scale(0.0, 1.0, kind="rainbow"), "sequential or diverging"),
        (lambda: Panel(title="", values=ONE, column_ticks=[(1, "x")]), "lie in 0 to 0"),
        (lambda: Panel(title="", values=ONE, color="red"), "#rrggbb"),
        (lambda: send(), "at least one panel"),
        (lambda: send(Panel(title="", values=ONE), height=10), "height"),
    ],
)
def test_wrong_input_is_refused_with_one_plain_sentence(make, message: str) -> None:
    with pytest.raises(SchemeArgumentError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def matrix_app() -> None:
    import streamlit as st
    import torch

    from dashboard.matrix import Full, Panel, Scale, matrix_row

    side = st.slider("Side", 1, 9, 3)
    matrix_row(
        [Panel(title="ones", values=Full.from_tensor(torch.ones(side, side)))],
        key="row",
        scale=Scale(0.0, 1.0),
        text_alternative="ones",
    )


def test_a_rerun_sends_new_values_and_the_same_code() -> None:
    # Streamlit replaces an unchanged message from 10 kB on by a reference to the one before.
    app = AppTest.from_function(matrix_app).run()
    first = {each.proto.component_name: each.proto for each in app.get("bidi_component")}
    app.slider[0].set_value(5).run()
    second = {each.proto.component_name: each.proto for each in app.get("bidi_component")}
    assert not app.exception
    assert [len(read(row[ROW_COMPONENT].bytes)[1][0]) for row in (first, second)] == [3, 5]
    assert first[ROW_COMPONENT].id == second[ROW_COMPONENT].id
    code = first[CODE_COMPONENT].SerializeToString(deterministic=True)
    assert code == second[CODE_COMPONENT].SerializeToString(deterministic=True)
    assert len(code) >= 10_000
    assert len(second[ROW_COMPONENT].js_content) < 400
