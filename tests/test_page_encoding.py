"""The Encoding page: every matrix, wave, hand, wavelength and sum against loops that share no code."""

import csv
import io
import json
import math
import struct
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from mpmath import mp, mpf

from dashboard import encoding as page_encoding
from dashboard.clock import Face
from dashboard.clock.payload import encode
from dashboard.encoding_choice import PLACES, EncodingChoice
from dashboard.scripts.encoding import script
from posenc import Setting
from posenc.errors import SchemeArgumentError
from tests import independent
from tests.pages import (
    DEFAULT,
    KINDS,
    LABELS,
    captions,
    charts,
    drawn,
    headline,
    of,
    opened,
    rows_of_matrices,
    table,
    visit,
)
from tests.script_runner import run

# A visitor's pages, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

SMALL: dict[str, dict[str, Any]] = {
    "four heads": {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24},
    "three heads": {"dim": 48, "heads": 3, "length": 33, "train_length": 50, "seed": 7,
                    "alibi_head": 2},
    "equal width": {"dim": 64, "heads": 4, "base": 500.0, "length": 30, "train_length": 11,
                    "equal_width": True},
    "bfloat16": {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24,
                 "precision": "bfloat16"},
    "smallest": {"dim": 2, "heads": 1, "length": 2, "train_length": 1, "base": 2.0},
}  # fmt: skip


def completed(label: str, full: int, pairs: int) -> str:
    """How the headline says that so many pairs complete a turn."""
    if pairs == 1:
        return f"{label}'s only pair completes {'a' if full else 'no'} turn"
    return f"{full:,} of {label}'s {pairs:,} pairs complete{'s' * (full == 1)} a turn"


@pytest.fixture(params=SMALL)
def small(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The numbers of one small setting."""
    return DEFAULT | {"learned_source": "random"} | SMALL[request.param]


def open_small(small: dict[str, Any], *numbers: str, **more: str) -> Any:
    """Open the page with every scheme, the settings given and `more` in the link, and its numbers."""
    link = {name: str(value).lower() for name, value in small.items() if name != "learned_source"}
    state = {"schemes": list(KINDS), "learned_source": small["learned_source"]}
    return drawn(visit("encoding", link | more, **state, **opened(*numbers)))


def rope_width(small: dict[str, Any]) -> int:
    width: int = small["dim"] if small["equal_width"] else small["dim"] // small["heads"]
    return width


def rounded(values: np.ndarray, small: dict[str, Any]) -> np.ndarray:
    if small["precision"] == "float32":
        return values
    held = torch.from_numpy(values).to(getattr(torch, small["precision"]))
    return held.double().numpy()


def expected_matrix(kind: str, small: dict[str, Any]) -> np.ndarray:
    """What the scheme's paper puts in, entry by entry."""
    n = small["length"]
    if kind == "sinusoidal":
        exact = independent.sinusoidal(range(n), small["dim"], small["base"]).numpy()
    elif kind == "rope":
        # Its rotary table holds the cosine first.
        paper = independent.sinusoidal(range(n), rope_width(small), small["base"]).numpy()
        exact = paper.reshape(n, -1, 2)[:, :, ::-1].reshape(n, -1)
    else:
        slopes = independent.alibi_slopes(small["heads"])
        exact = np.array([[[-s * abs(j - i) for j in range(n)] for i in range(n)] for s in slopes])
        head = small["alibi_head"]
        exact = rounded(exact, small)
        return exact.mean(axis=0) if head == 0 else exact[head - 1]
    return rounded(np.ascontiguousarray(exact), small)


# The matrices -------------------------------------------------------------------------------------


def test_every_drawn_cell_is_the_paper_s_number(small: dict[str, Any]) -> None:
    rows = rows_of_matrices(open_small(small))
    shown: dict[str, np.ndarray] = {}
    for _, found in rows[:3]:
        shown |= found
    assert set(shown) == {"Learned", "Sinusoidal", "RoPE", "ALiBi"}
    for kind in ("sinusoidal", "rope", "alibi"):
        assert np.array_equal(
            shown[LABELS[kind]], expected_matrix(kind, small).astype(np.float32)
        ) or np.allclose(shown[LABELS[kind]], expected_matrix(kind, small), rtol=1e-6, atol=1e-7)
    generator = torch.Generator().manual_seed(small["seed"])
    table = 0.02 * torch.randn(256, small["dim"], generator=generator)
    known = min(small["train_length"], small["length"])
    exact = rounded(table[:known].double().numpy(), small)
    assert np.allclose(shown["Learned"][:known], exact, rtol=1e-6)
    assert np.isnan(shown["Learned"][known:]).all()


def test_no_colour_scale_spans_two_units(small: dict[str, Any]) -> None:
    units = []
    for header, found in rows_of_matrices(open_small(small))[:3]:
        units.append(header["scale"]["unit"])
        values = np.concatenate([one.ravel() for one in found.values()])
        values = values[np.isfinite(values)]
        low, high = header["scale"]["low"], header["scale"]["high"]
        within = (values >= np.float32(low)) & (values <= np.float32(high))
        assert within.mean() >= 0.998
    assert units == ["entry of a vector", "cosine or sine", "logit"]


def test_the_training_length_marks_positions_and_no_feature() -> None:
    at = drawn(visit("encoding", {"length": "40", "train_length": "24"}))
    panels = {
        panel["title"]: panel
        for header, _ in rows_of_matrices(at)[:3]
        for panel in header["panels"]
    }
    assert {panel["boundary"] for panel in panels.values()} == {24}
    assert {title for title, panel in panels.items() if panel.get("features")} == {
        "Learned", "Sinusoidal", "RoPE"
    }  # fmt: skip
    assert panels["RoPE"]["columns"]["label"] == "dimension: cos 0, sin 0, cos 1, ..."
    half = drawn(visit("encoding", {"rope.layout": "half", "sinusoidal.layout": "half"}))
    titles = {
        panel["title"]: panel
        for header, _ in rows_of_matrices(half)[:3]
        for panel in header["panels"]
    }
    assert titles["RoPE"]["columns"]["label"] == "dimension: cos 0, cos 1, cos 2, ..."
    assert titles["Sinusoidal"]["columns"]["label"] == "dimension: sin 0, sin 1, sin 2, ..."


def test_what_is_too_large_to_draw_is_cut_and_told() -> None:
    at = drawn(visit("encoding", {"length": "1024", "dim": "1024"}))
    panels = [panel for header, _ in rows_of_matrices(at)[:3] for panel in header["panels"]]
    assert max(panel[axis]["count"] for panel in panels for axis in ("rows", "columns")) == 512
    said = {panel["title"]: panel["subtitle"] for panel in panels}
    assert said["Sinusoidal"].endswith(
        "the first 512 of 1,024 positions; the first 512 of 1,024 dimensions"
    )
    assert said["RoPE"].endswith("the first 512 of 1,024 positions")
    at = drawn(visit("encoding", {"length": "2048", "dim": "512"}))
    assert "Waves are drawn over the first 1,024 of 2,048 positions." in captions(at)


def test_nope_has_a_sentence_in_the_place_of_a_matrix() -> None:
    at = drawn(visit("encoding", schemes=["none"]))
    assert rows_of_matrices(at) == []
    assert any("NoPE puts no numbers in" in box.value for box in at.info)
    assert "NoPE puts nothing in" in headline(at)
    assert charts(at) == []


# Waves, wavelengths, headline ---------------------------------------------------------------------


def test_waves_are_sine_and_cosine_of_the_chosen_pairs(small: dict[str, Any]) -> None:
    at = open_small(small, "waves", pair="5")
    waves = table(at, "waves")
    for kind, width in (("sinusoidal", small["dim"]), ("rope", rope_width(small))):
        own, pairs = of(waves, kind), width // 2
        chosen = {round(share * (pairs - 1)) for share in (0.0, 0.3, 0.6, 1.0)} | {
            min(5, pairs - 1)
        }
        assert set(own["pair"]) == chosen
        for (m, wave), one in own.groupby(["pair", "wave"]):
            theta = mp.power(mpf(small["base"]), mpf(-2 * int(m)) / width)
            exact = [float({"sin": mp.sin, "cos": mp.cos}[wave](p * theta)) for p in one["x"]]
            assert np.allclose(one["y"], rounded(np.array(exact), small), atol=1e-15)
            assert list(one["x"]) == list(range(small["length"]))
    marked = {one for frame in charts(at)[:2] for one in frame["boundary"].dropna()}
    inside = small["train_length"] < small["length"]
    assert marked == ({small["train_length"]} if inside else set())
    assert set(of(waves, "learned")["pair"]) | set(of(waves, "alibi")["pair"]) == set()
    assert "Learned, ALiBi and NoPE have no pairs: nothing there turns." in captions(at)


def test_wavelengths_turns_and_shares_are_those_of_every_pair(small: dict[str, Any]) -> None:
    at = open_small(small, "pairs")
    pairs = table(at, "pairs")
    trained = small["train_length"]
    for kind, width in (("sinusoidal", small["dim"]), ("rope", rope_width(small))):
        own = of(pairs, kind)
        assert list(own["pair"]) == list(range(width // 2))
        thetas = independent.inverse_frequencies(width, small["base"])
        turns = [trained * theta / (2 * mp.pi) for theta in thetas]
        assert np.allclose(own["inv_freq"], [float(theta) for theta in thetas], rtol=1e-15)
        assert np.allclose(own["wavelength"], [float(2 * mp.pi / t) for t in thetas], rtol=1e-14)
        assert np.allclose(own["turns"], [float(turn) for turn in turns], rtol=1e-14)
        assert np.allclose(own["share"], [float(min(turn, 1)) for turn in turns], rtol=1e-14)
        full = sum(turn >= 1 for turn in turns)
        assert completed(LABELS[kind], full, width // 2) in headline(at)
    slopes = independent.alibi_slopes(small["heads"])
    slope = slopes[small["alibi_head"] - 1] if small["alibi_head"] else sum(slopes) / len(slopes)
    last = min(trained, small["length"]) - 1
    if small["precision"] == "float32" and last:
        said = headline(at).split("ALiBi takes")[1].split(" off a logit")[0].split()[-1]
        assert float(said) == pytest.approx(slope * last, rel=6e-3)


def test_places_on_the_ladder_are_the_nearest_pairs_each_once() -> None:
    chosen = EncodingChoice(places=tuple(PLACES)[:5], pair=2047)
    assert page_encoding.chosen_pairs(chosen, 1) == (0,)
    assert page_encoding.chosen_pairs(chosen, 101) == (0, 10, 20, 30, 40, 100)
    assert page_encoding.chosen_pairs(EncodingChoice(places=("slowest",)), 32) == (0, 31)


# The worked example -------------------------------------------------------------------------------

# Vaswani et al. 2017, section 3.5, by hand: theta = 1, 0.1, 0.01, 0.001.
BY_HAND = [
    [0.0000, 1.0000, 0.0000, 1.0000, 0.0000, 1.0000, 0.0000, 1.0000],
    [0.8415, 0.5403, 0.0998, 0.9950, 0.0100, 1.0000, 0.0010, 1.0000],
    [0.9093, -0.4161, 0.1987, 0.9801, 0.0200, 0.9998, 0.0020, 1.0000],
    [0.1411, -0.9900, 0.2955, 0.9553, 0.0300, 0.9996, 0.0030, 1.0000],
]


def test_the_worked_example_has_the_numbers_worked_by_hand() -> None:
    name = "worked example"
    for link in ({}, {"dim": "64", "length": "9"}, {"sinusoidal.layout": "half"}):
        at = drawn(visit("encoding", link, **opened(name)))
        shown = table(at, name)
        assert list(shown["position"]) == [0, 1, 2, 3]
        assert np.allclose(shown.drop(columns="position"), BY_HAND, atol=5e-5)
        (said,) = [text for text in captions(at) if "always 4 positions and 8 dimensions" in text]
        assert "the model dimension changes nothing here" in said
        assert "With base 10,000 these are the numbers of Vaswani et al." in said
        assert r"\sin(0.3) = 0.2955" in " ".join(one.value for one in at.main.latex)


def test_the_worked_example_follows_the_base() -> None:
    at = drawn(visit("encoding", {"base": "16"}, **opened("worked example")))
    shown = table(at, "worked example").drop(columns="position").to_numpy()
    for p in range(4):
        for m in range(4):  # theta = 1, 1/2, 1/4, 1/8
            assert shown[p, 2 * m] == pytest.approx(math.sin(p / 2**m), abs=1e-15)
            assert shown[p, 2 * m + 1] == pytest.approx(math.cos(p / 2**m), abs=1e-15)
    said = " ".join(captions(at))
    assert "turn by 1, 0.5, 0.25 and 0.125 radians a position" in said
    assert "Vaswani" not in said


def test_formulas_change_their_letters_and_take_the_numbers() -> None:
    def written(**link: str) -> str:
        at = drawn(
            visit("encoding", {"dim": "96", "heads": "4", **link}, alibi_head=3, definition=True)
        )
        return " ".join(one.value for one in at.latex)

    plain, letters = written(), written(notation="t, k")
    assert r"\mathrm{pos}" in plain
    assert r"\mathrm{pos}" not in letters
    numbers = written(substituted="true")
    assert "{b}^" in plain
    assert "{b}^" not in numbers
    assert "{10000}^{2i/8}" in numbers  # the worked example's own width
    assert "{10000}^{2i/96}" in numbers  # the setting's
    assert "{10000}^{2i/24}" in numbers  # RoPE's
    assert r"2^{-8 \cdot 3/4} = 0.015625" in numbers


# The sum with token embeddings --------------------------------------------------------------------


def test_position_beside_content_is_the_ratio_of_norms(small: dict[str, Any]) -> None:
    name = "position beside content"
    sums = table(open_small(small, name), name)
    d = small["dim"]
    deviations = [d**-0.5, 1.0, 0.02, math.sqrt(2 / (37_000 + d))]
    generator = torch.Generator().manual_seed(small["seed"])
    known = min(small["train_length"], small["length"])
    learned = 0.02 * torch.randn(256, d, generator=generator)[:known].double().numpy()
    tables = {
        "learned": learned,
        "sinusoidal": expected_matrix("sinusoidal", small | {"precision": "float32"}),
    }
    assert set(sums["scheme"]) == {LABELS[kind] for kind in tables}
    for kind, rows in tables.items():
        norm = math.sqrt(np.mean([sum(x * x for x in row) for row in rounded(rows, small)]))
        for deviation, one in zip(deviations, of(sums, kind).to_dict("records"), strict=True):
            token = deviation * math.sqrt(d)
            assert one["token norm"] == pytest.approx(token, rel=1e-12)
            assert one["position norm"] == pytest.approx(norm, rel=1e-6)
            assert one["ratio, plain"] == pytest.approx(token / norm, rel=1e-6)
            assert one["ratio, times sqrt(d)"] == pytest.approx(
                token * math.sqrt(d) / norm, rel=1e-6
            )
            share = norm**2 / (norm**2 + d * token**2)
            assert one["share, times sqrt(d)"] == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize("scaled", ["true", "false"])
def test_the_pictured_sum_is_content_plus_position(scaled: str) -> None:
    link = {"dim": "64", "heads": "4", "length": "40", "start": "1", "scaled": scaled}
    at = drawn(visit("encoding", link, schemes=["sinusoidal"]))
    header, found = rows_of_matrices(at)[1]
    content, position, total = found.values()
    assert [panel["title"] for panel in header["panels"]][1:] == ["Position: Sinusoidal", "Sum"]
    paper = independent.sinusoidal(range(40), 64).numpy()[:, :48]
    assert np.allclose(position, paper, atol=1e-7)
    assert np.allclose(total, content + paper, atol=1e-5)
    assert content.std() == pytest.approx(8.0 if scaled == "true" else 1.0, rel=0.05)


# The clocks' bytes --------------------------------------------------------------------------------


def clocks(at: Any) -> tuple[dict[str, Any], dict[str, list[tuple[float, ...]]]]:
    """What travels to the clocks: the header, and the three numbers of every hand by scheme."""
    (data,) = [
        element.proto.bytes
        for element in at.get("bidi_component")
        if element.proto.component_name.endswith("posenc_clock_row")
    ]
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    at_byte = 4 + length
    assert at_byte % 8 == 0
    found = {}
    for face in header["faces"]:
        hands = []
        for _ in face["pairs"]:
            hands.append(struct.unpack("<3d", data[at_byte : at_byte + 24]))
            at_byte += 24
        found[face["title"]] = hands
    assert at_byte == len(data)
    return header, found


def test_hands_travel_as_the_exact_frequency_period_and_turns(small: dict[str, Any]) -> None:
    header, found = clocks(open_small(small))
    assert set(found) == {"Sinusoidal", "RoPE"}
    assert header["trained"] == small["train_length"]
    assert header["last"] == max(small["length"] - 1, small["train_length"])
    for face, width in zip(header["faces"], (small["dim"], rope_width(small)), strict=True):
        for pair, hand in zip(face["pairs"], found[face["title"]], strict=True):
            theta = mp.power(mpf(small["base"]), mpf(-2 * pair) / width)
            assert hand[0] == float(theta)  # correctly rounded
            assert hand[1] == pytest.approx(float(2 * mp.pi / theta), rel=1e-15)
            turns = small["train_length"] * theta / (2 * mp.pi)
            assert hand[2] == pytest.approx(float(turns), rel=1e-15)
            assert f"pair {pair} turns once in" in header["text"]


def test_a_face_that_cannot_be_drawn_is_refused() -> None:
    good: dict[str, Any] = {
        "title": "x", "subtitle": "", "color": "#0072b2", "pairs": (0, 1),
        "inv_freq": np.ones(2), "wavelengths": np.ones(2), "turns": np.ones(2),
    }  # fmt: skip
    for fault in (
        {"pairs": ()},
        {"color": "red"},
        {"turns": np.ones(3)},
        {"pairs": tuple(range(9))},
    ):
        with pytest.raises(SchemeArgumentError):
            Face(**good | fault)
    for asked in ({"last": 0, "trained": 1}, {"last": 4, "trained": 0}):
        with pytest.raises(SchemeArgumentError):
            encode([Face(**good)], text_alternative="", **asked)
    with pytest.raises(SchemeArgumentError):
        encode([], last=1, trained=1, text_alternative="")


# What is read, and the script ---------------------------------------------------------------------

SETTINGS = {
    "default": Setting(),
    "odd": Setting(
        schemes=("learned", "sinusoidal", "rope", "alibi", "none"), dim=48, heads=3, base=777.5,
        length=21, train_length=9, alibi_head=2, seed=3, learned_source="random",
        precision="bfloat16", own=(("rope.layout", "half"),),
    ),
    "tiny": Setting(schemes=("rope", "alibi"), dim=2, heads=1, length=2, train_length=1),
    "nothing": Setting(schemes=("none",)),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_the_script_prints_the_page_s_numbers(name: str) -> None:
    setting = SETTINGS[name]
    source = script(setting, EncodingChoice())
    assert "dashboard" not in source
    assert "streamlit" not in source
    ran = run(source)
    assert ran.returncode == 0, ran.stderr
    first, *lines = csv.reader(io.StringIO(ran.stdout))
    shown = page_encoding.read(setting, EncodingChoice()).corner
    assert first == list(shown)
    assert len(lines) == len(shown)
    assert bool(lines) == (name != "nothing")
    for line, row in zip(lines, shown.itertuples(index=False), strict=True):
        assert line[:4] == [row.scheme, str(row.position), str(row.column), row.name]
        assert float(line[4]) == row.value or (math.isnan(row.value) and line[4] == "nan")


def test_what_is_read_depends_on_setting_and_choice_alone() -> None:
    setting, chosen = SETTINGS["odd"], EncodingChoice(places=("50%",), start="1")
    one, again = (page_encoding.read(setting, chosen) for _ in range(2))
    assert one.pairs == again.pairs == {"sinusoidal": (0, 12), "rope": (0, 4)}
    for frame in ("waves", "spectrum", "example", "sum_table", "corner"):
        pd.testing.assert_frame_equal(getattr(one, frame), getattr(again, frame))
    assert one.formulas == again.formulas
    assert one.absent == ("none",)


def test_no_pair_chosen_is_the_default_choice() -> None:
    at = drawn(visit("encoding", places=[]))
    assert {face["title"]: len(face["pairs"]) for face in clocks(at)[0]["faces"]} == {
        "Sinusoidal": 4, "RoPE": 4
    }  # fmt: skip
