"""Inside a model: its numbers against the stored weights, read and computed in other ways."""

import contextlib
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

from dashboard.blocks import Controls, Findings, Tabs
from dashboard.charts.palette import PALETTE
from dashboard.charts.theme import GRAY
from dashboard.pages.inside_model import charts
from dashboard.pages.inside_model import page as inside_model
from dashboard.pages.inside_model.data import EQUAL_WEIGHTS, MOST_DRAWN, head_names
from dashboard.pages.inside_model.options import BY_HEAD, BY_LENGTH, CUTS, MODELS, Options
from dashboard.settings import Setting
from posenc.lab.evaluate import Variant
from posenc.lab.shipped_models import WEIGHTS, layer_inputs, shipped_model
from tests.dashboard.called_pages import blocks, data, numbers, texts

ROTARY = [run_id for run_id, label in MODELS.items() if label.startswith("RoPE")]
OTHER = [run_id for run_id in MODELS if run_id not in ROTARY]
HEADS, HEAD_WIDTH, WIDTH = 4, 32, 128


TABS = {"heads": BY_HEAD, "readings": BY_LENGTH, "cuts": CUTS}


def table(options: Options, key: str) -> "dict[str, list[float]]":
    """The rows of a table, whose tab is opened; no other table stands beside it."""
    page = inside_model.page(Setting(), replace(options, table=TABS[key]))
    shown = [block.key for block in page.all_blocks if isinstance(block, Findings)]
    assert [found for found in shown if found != "components"] == [key]  # of a learned table
    (found,) = [
        block for block in page.all_blocks if isinstance(block, Findings) and block.key == key
    ]
    rows = found.frame.set_index(str(found.frame.columns[0]))
    return {
        str(name): list(map(float, row))
        for name, row in zip(rows.index, rows.to_numpy(), strict=True)
    }


@pytest.mark.parametrize("run_id", ROTARY)
@pytest.mark.parametrize("layer", [1, 3])
def test_bounds_are_products_of_singular_values_of_the_stored_rows(run_id: str, layer: int) -> None:
    page = inside_model.page(Setting(), Options(trained=run_id, layer=layer))
    stored = safetensors.torch.load((WEIGHTS / f"{run_id}.safetensors").read_bytes())
    block = f"blocks.{layer - 1}"
    weight = (
        stored[f"{block}.qkv.weight"].double() * stored[f"{block}.norm_attention.weight"].double()
    )
    frame = numbers(page, "bounds")
    for head in range(HEADS):
        drawn = frame[frame["head"] == f"head {head + 1}"].iloc[:, 2].to_list()
        for pair, value in enumerate(drawn):
            rows = [head * HEAD_WIDTH + 2 * pair, head * HEAD_WIDTH + 2 * pair + 1]
            query, key = (
                np.linalg.svd(weight[[row + part * WIDTH for row in rows]].numpy())[1][0]
                for part in (0, 1)
            )
            assert value == pytest.approx(query * key * WIDTH / HEAD_WIDTH**0.5, rel=1e-5)
    contributed = numbers(page, "contributions").iloc[:, 2].to_numpy()
    assert (contributed <= frame.iloc[:, 2].to_numpy()).all()
    assert contributed.min() > 0


@pytest.mark.parametrize("run_id", MODELS)
def test_heads_are_those_of_a_plain_softmax(run_id: str) -> None:
    trained = shipped_model(run_id)
    length = trained.specification.train_length
    inputs = [*layer_inputs(trained.model, trained.window(length), Variant("as trained"))][1]
    scores = inputs.scheme.scores(inputs.queries, inputs.keys).double().numpy()
    found = table(Options(trained=run_id), "heads")
    means = []
    for head in range(HEADS):
        entropies, firsts, distances = [], [], []
        for window in range(len(scores)):
            for i in range(length - length // 4, length):
                weights = np.exp(scores[window, head, i, : i + 1])
                weights /= weights.sum()
                entropies.append(-(weights * np.log(weights)).sum())
                firsts.append(100 * weights[0])
                distances.append((weights * (i - np.arange(i + 1))).sum())
        wanted = [np.mean(distances), np.mean(firsts), np.mean(entropies)]
        assert found[f"head {head + 1}"] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
        means.append(wanted)
    page = inside_model.page(Setting(), Options(trained=run_id))
    looks, sinks = [mean[0] for mean in means], [mean[1] for mean in means]
    queries = np.arange(length - length // 4, length)
    even_look, even_sink = (queries / 2).mean(), (100 / (queries + 1)).mean()
    said = re.search(
        r"look ([\d.]+) to ([\d.]+) tokens back on average \(equal weights: ([\d.]+)\); up to ([\d.]+)% of "
        r"a head's attention is on the first token \(equal weights: ([\d.]+)%\)",
        " ".join((page.headline, *texts(page))),
    )
    assert said is not None
    assert [*map(float, said.groups())] == pytest.approx(
        [min(looks), max(looks), even_look, max(sinks), even_sink], rel=6e-3
    )


@pytest.mark.parametrize("run_id", MODELS)
def test_losses_are_those_of_the_model_on_its_own_text(run_id: str) -> None:
    trained = shipped_model(run_id)
    length = trained.specification.train_length
    found = table(Options(trained=run_id), "readings")
    losses = []
    for window in trained.text:
        tokens = window[-length - 1 :]
        with torch.inference_mode():
            logits = trained.model(tokens[None, :-1])[0].double()
        chances = logits.log_softmax(-1)[torch.arange(length), tokens[1:]]
        losses.append(-chances[-length // 4 :].mean().item())
    assert found[f"{length} tokens, as trained"][0] == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_scaling_is_offered_where_pairs_rotate_in_a_text_longer_than_those_of_training() -> None:
    for run_id in MODELS:
        for times in ("1", "2", "4"):
            page = inside_model.page(Setting(), Options(trained=run_id, times=times))
            controls = [block.names for block in page.all_blocks if isinstance(block, Controls)]
            assert ("reading" in controls[0]) == (run_id in ROTARY and times != "1")
    short, as_trained = Options(trained=ROTARY[0], reading="NTK-aware"), Options(trained=ROTARY[0])
    assert table(short, "heads") == table(as_trained, "heads")
    longer = Options(trained=ROTARY[0], reading="NTK-aware", times="2")
    plain = Options(trained=ROTARY[0], times="2")
    assert table(longer, "heads") != table(plain, "heads")


def test_the_share_of_slow_pairs_is_that_of_a_sum() -> None:
    options = Options(trained=ROTARY[0])
    page = inside_model.page(Setting(), options)
    frame = numbers(page, "bounds")
    length = shipped_model(ROTARY[0]).specification.train_length
    turns = length * 10_000.0 ** (-2 * frame["pair"] / HEAD_WIDTH) / (2 * np.pi)
    bounds = frame.iloc[:, 2]
    share, pairs, *_ = (table(options, "cuts")["no full turn in training"][n] for n in (1, 0))
    assert share == pytest.approx(100 * bounds[turns < 1].sum() / bounds.sum())
    assert pairs == pytest.approx(100 * (turns < 1).mean())
    every = frame["pair"].nunique()
    added = numbers(page, "contributions").iloc[:, 2]
    used = 100 * added[turns < 1].sum() / added.sum()
    assert page.headline == (
        f"{round(every * pairs / 100)} of {every} pairs ({pairs:.3g}%) never complete a turn in training. "
        f"Of all that pairs can add to logits, they have {share:.3g}%, of what pairs did add "
        f"here {used:.3g}%."
    )
    cuts = data(inside_model.page(Setting(), replace(options, table=CUTS)), CUTS)
    by_head = [group.iloc[:, 2].to_numpy() for _, group in frame.groupby("head")]
    shares = [100 * one[len(turns[turns >= 1]) // HEADS :].sum() / one.sum() for one in by_head]
    slow = cuts.iloc[0]
    assert slow["lowest head (%)"] == pytest.approx(min(shares))
    assert slow["highest head (%)"] == pytest.approx(max(shares))
    scaled = Options(trained=ROTARY[0], times="4", reading="NTK-aware")
    assert table(scaled, "cuts") == table(options, "cuts")  # a scaling changes nothing of training


@pytest.mark.parametrize("run_id", [*ROTARY[:1], *OTHER[:1]])
def test_the_script_prints_the_numbers_of_the_page(run_id: str) -> None:
    options = Options(trained=run_id)
    page = inside_model.page(Setting(), options)
    assert page.script is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(page.script(), {})
    lines = printed.getvalue().splitlines()
    assert lines[0] == "head,entropy,first_token,distance"
    found = table(options, "heads")
    for head in range(HEADS):
        entropy, first, distance = map(float, lines[1 + head].split(",")[1:])
        assert found[f"head {head + 1}"] == pytest.approx([distance, 100 * first, entropy])
    bounds = [float(line.split(",")[2]) for line in lines[6:]]
    if run_id in ROTARY:
        assert bounds == pytest.approx(numbers(page, "bounds").iloc[:, 2].to_list())
    else:
        assert not bounds


def test_a_model_without_rotation_has_no_table_of_pairs_and_opens_the_first() -> None:
    page = inside_model.page(Setting(), Options(trained=OTHER[0], table=CUTS))
    (tabs,) = blocks(page, Tabs)
    assert (tabs.labels, tabs.opened) == ((BY_HEAD, BY_LENGTH), BY_HEAD)


def test_heads_have_none_of_the_colours_of_the_first_five_schemes() -> None:
    names = (*head_names(MOST_DRAWN), EQUAL_WEIGHTS)
    scale = charts.by_distance(names)["layer"][0]["encoding"]["color"]["scale"]
    shades = dict(zip(scale["domain"], scale["range"], strict=True))
    assert len({*shades.values()}) == len(names)
    assert shades.pop(EQUAL_WEIGHTS) == GRAY
    assert {*PALETTE[:5]}.isdisjoint(shades.values())
