"""Learn in five steps: what each step says, against numbers that are computed here."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard.blocks import Button, Chart, Clocks, Drawer, Link, Matrices, Page, Text
from dashboard.pages.lessons import data
from dashboard.pages.lessons.page import Options, page
from dashboard.previews import POINTS
from dashboard.settings import Setting
from posenc.analysis import RandomLayer
from tests.dashboard import pages
from tests.dashboard.called_pages import block_of, blocks, panel_values
from tests.dashboard.pages import KINDS, drawn, of, visit
from tests.dashboard.shipped_runs import CODE, means

PAGE = "learn"
LOSS = means(CODE, "context")


def step(number: int, **control: Any) -> Page:
    return page(Setting(), Options(step=str(number), **control))


def answer(shown: Page) -> str:
    (drawer,) = blocks(shown, Drawer)
    (text,) = drawer.make()
    assert isinstance(text, Text)
    return pages.as_read(text.text)


def linked(shown: Page) -> list[str]:
    return [block.page for block in shown.all_blocks if isinstance(block, Link)]


def charts(shown: Page) -> list[Chart]:
    return blocks(shown, Chart)


def test_without_position_a_swap_changes_no_attention_and_a_table_does() -> None:
    at = step(1, words="the cat saw the dog")
    said = pages.as_read(at.headline).replace("\u2068", "").replace("\u2069", "")
    # The ends at first, as in links of earlier versions.
    assert said.startswith("“the cat saw the dog” becomes “dog cat saw the the”.")
    shown, scale = panel_values(at, "lesson_orders"), block_of(at, Matrices, "lesson_orders").scale
    low, high = scale.low, scale.high
    assert low <= min(one.min() for one in shown.values()) < low + 0.1
    assert high - 0.1 < max(one.max() for one in shown.values()) <= high
    assert all(np.allclose(one.sum(axis=1), 1, atol=1e-6) for one in shown.values())
    assert np.array_equal(shown["Without position, original"], shown["Without position, swapped"])
    moved = np.abs(shown["Sinusoidal, original"] - shown["Sinusoidal, swapped"]).max()
    assert moved > 0.01
    assert answer(at).startswith("Yes. With a causal mask")
    at = step(1, words="the cat saw the dog", first_word=2, second_word=3)
    assert "becomes “\u2068the saw cat the dog\u2069”." in pages.as_read(at.headline)
    at = step(1, words="the cat saw the dog", first_word=2, second_word=2)
    assert "leaves the sentence as it is" in at.headline
    assert not blocks(at, Matrices)


def test_changes_of_a_swap_are_those_of_attention_by_hand() -> None:
    layer = RandomLayer(width=512, heads=8, head_dim=64)

    def outputs(order: list[int], table: np.ndarray, *, masked: bool = False) -> np.ndarray:
        x = layer.tokens(["dog", "bites", "man"])[order] + torch.from_numpy(table)
        q, k, v = (part[0].numpy() for part in layer.project(x[None]))
        logits = q @ k.transpose(0, 2, 1) / 8
        if masked:
            logits[:, *np.triu_indices(3, 1)] = -np.inf
        weights = np.exp(logits)
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ v).transpose(1, 0, 2).reshape(3, 512)

    angles = np.arange(3)[:, None] * 10_000.0 ** (-np.arange(0, 512, 2) / 512)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(3, 512)
    words, swapped = [0, 1, 2], [2, 1, 0]
    first = outputs(words, table)
    change = np.abs(first - outputs(swapped, table)[::-1]).max()
    size = np.sqrt((first**2).mean())
    at = step(1)
    assert at.headline.endswith(
        f"the outputs change: the largest change is {change / size:.3g} times a typical output value."
    )
    none = np.zeros((3, 512))
    masked = outputs(words, none, masked=True) - outputs(swapped, none, masked=True)[::-1]
    assert f"changes output values by up to {np.abs(masked).max():.3g}:" in answer(at)


@pytest.mark.parametrize("base", [100.0, 10_000.0])
def test_added_table_is_sines_and_cosines_and_no_two_rows_are_equal(base: float) -> None:
    at = step(2, wave_base=f"{base:.0f}")
    shown = panel_values(at, "lesson_table")
    angles = np.arange(64)[:, None] * base ** (-np.arange(0, 64, 2) / 64)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(64, 64)
    assert np.allclose(shown["Sinusoidal"], table, atol=1e-6)
    squares = (table**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * table @ table.T
    np.fill_diagonal(apart, np.inf)
    length = np.sqrt(squares[0])
    assert np.allclose(squares, squares[0])
    assert answer(at) == (
        f"No. The two closest rows are {np.sqrt(apart.min()):.3g} apart (Euclidean distance; each row has "
        f"the length {length:.3g})."
    )


def test_logit_of_turned_query_and_key_depends_on_their_distance() -> None:
    frequencies = 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    assert np.allclose(data.rotate(0).arrays["inv_freq"], frequencies, rtol=1e-14)
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 64, generator=draw, dtype=torch.float64).numpy().reshape(2, 32, 2)

    def logit(apart: int) -> float:  # q and k as complex numbers, one turned by the distance
        q_pairs, k_pairs = q @ [1, 1j], k @ [1, 1j]
        return float((q_pairs * k_pairs.conj() * np.exp(1j * apart * frequencies)).real.sum())

    for moved in (0, 1, 10, 100):
        at = step(3, moved_by=str(moved))
        key, query = 9 + moved, 12 + moved
        assert at.headline.endswith(f" Key {key}, query {query}: logit {logit(3):.3f}.")
        assert answer(at).startswith("No (change ")
        assert answer(at).endswith(f" Key {key}, query {query + 1}: logit {logit(4):.3f}.")
        clocks: Clocks = block_of(at, Clocks, f"lesson_clock_{key}")
        ahead = {face.title: clocks.first + face.offset for face in clocks.faces}
        assert ahead == {"Key": key, "Query": query}
        assert clocks.last >= key
    degrees = [3 * 10_000.0 ** (-pair / 32) * 180 / np.pi for pair in (0, 8, 16, 24)]
    listed = ", ".join(f"{angle:.3g}°" for angle in degrees)
    assert clocks.faces[1].subtitle == f"3 positions later, so ahead of the key by {listed}"


@pytest.mark.parametrize("head", [1, 8])
def test_bias_of_a_head_is_its_slope_times_the_distance(head: int) -> None:
    at = step(4, slope_head=head)
    slope = 2.0**-head
    (chart,) = charts(at)
    frame = chart.drawn
    pd.testing.assert_frame_equal(chart.thinned(POINTS), frame)  # names and dot stay in passing
    chosen = frame[frame["chosen"]]
    assert chosen["head"].unique().tolist() == [head]
    assert np.allclose(chosen["y"], -slope * np.arange(0, 128, 2), rtol=1e-12)
    assert f"at distance 32 it subtracts {32 * slope:.3g}." in at.headline
    assert 32 * slope <= 20  # where the axis ends
    factors = [float(text) for text in re.findall(r"by (\d[\d.]*\d)", answer(at))]
    assert factors[0] == pytest.approx(np.exp(-32 / 256), abs=5e-4)
    named = frame[frame["label_y"].notna()].set_index("head")
    assert named.index.tolist() == [
        *range(1, 9)
    ]  # every head has its number at the end of its line
    assert named["x"].tolist() == [40, 80, *6 * (126,)]
    heights = named["label_y"]
    assert np.diff(heights[2:]).min() >= 1.3 - 1e-9
    assert np.abs(heights - named["y"]).max() < 1.3
    assert "of head 1 by 1.1\u00a0×\u00a010⁻⁷." in answer(at)  # exp(-16)


def test_last_step_shows_no_loss_past_training_before_a_guess() -> None:
    at = step(5)
    (frame,) = [chart.drawn for chart in charts(at)]
    shown = frame[frame["y"].notna()]
    assert shown["x"].max() == 64 < frame["x"].max()
    assert frame["cut"].isna().all()  # a line of a cut text would look like an answer
    for kind in KINDS[:4]:
        trained = {x: loss for x, loss in LOSS[kind].items() if x <= 64}
        rows = of(shown, kind)
        assert dict(zip(rows["x"], rows["y"], strict=True)) == pytest.approx(trained)
    assert not blocks(at, Drawer)
    assert "nats" not in at.headline
    assert linked(at) == ["extend_context"]  # not to the page with the curves
    assert onward(at).changes == {"guess": "shown"}
    at = step(5, guess="shown")
    assert at.headline.startswith("The loss of ALiBi rises least. Change")
    assert charts(at)[0].drawn["y"].notna().sum() > len(shown)
    assert charts(at)[0].drawn["cut"].notna().any()
    assert linked(at) == ["extend_context"]
    assert onward(at).changes == {"open_answer": "5"}
    at = step(5, guess="shown", open_answer="5")
    assert linked(at) == ["extend_context", "extrapolation"]
    assert onward(at).disabled


def onward(shown: Page) -> Button:
    button: Button = block_of(shown, Button, "next_step")
    return button


@pytest.mark.parametrize(("guess", "verdict"), [("ALiBi", "Right"), ("RoPE", "Not quite")])
def test_guess_is_judged_by_the_shipped_runs(guess: str, verdict: str) -> None:
    at = step(5, guess=guess)
    changes = {kind: LOSS[kind][1_024] - LOSS[kind][64] for kind in KINDS[1:4]}
    assert min(changes, key=changes.__getitem__) == "alibi"
    assert at.headline.startswith(f"{verdict}: it is ALiBi.")
    assert at.headline.endswith("Learned ends at 64 tokens.")
    assert "trained on 64 tokens, evaluated at 1,024" in at.headline
    for kind, change in changes.items():
        word = "holds" if kind == "alibi" else "breaks"
        assert (
            f"{pages.LABELS[kind]} {word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"
            in at.headline
        )
        rows = of(charts(at)[0].drawn, kind)
        assert dict(zip(rows["x"], rows["y"], strict=True)) == pytest.approx(LOSS[kind])


@pytest.mark.parametrize(
    ("number", "word"), [(1, "key"), (2, "wave"), (3, "hand"), (4, "head"), (5, "training length")]
)
def test_how_to_read_describes_the_picture_of_the_step(number: int, word: str) -> None:
    guide = step(number).guide
    assert word in guide
    assert 1 <= guide.count(". ") + 1 <= 2
    assert ("model dimension 512" in guide) == (number == 1)


def test_next_opens_each_answer_and_goes_through_all_five_steps_to_full_pages() -> None:
    at = drawn(visit(PAGE))
    assert at.button(key="back_step").disabled
    for number in range(1, 5):
        for opened in (False, True):  # the answer first
            assert at.title[0].value.startswith(f"{number}. ")
            assert at.session_state[f"answer_of_step_{number}"] is opened
            links = [one for one in pages.messages(at) if one.DESCRIPTOR.name == "PageLink"]
            assert len(links) == 2
            button = at.button(key="next_step")
            assert button.label == ("Next" if opened else "Answer")  # what it does
            button.click().run()
            drawn(at)
    assert at.title[0].value.startswith("5. ")
    assert at.button(key="next_step").label == "Curves"
    assert drawn(at.button(key="back_step").click().run()).title[0].value.startswith("4. ")
    assert at.session_state["answer_of_step_4"] is False


def test_next_skips_the_answer_of_a_step_without_a_question() -> None:
    at = drawn(visit(PAGE, {"first_word": "1", "second_word": "1"}))
    at.button(key="next_step").click().run()
    assert drawn(at).title[0].value.startswith("2. ")


def test_answer_is_sent_once_it_is_opened() -> None:
    at = drawn(visit(PAGE))
    assert not [text for text in at.markdown if text.value.startswith("Yes.")]
    at.button(key="next_step").click()
    (text,) = [text for text in drawn(at.run()).markdown if text.value.startswith("Yes.")]
    assert text.value.startswith("Yes. With a causal mask")
