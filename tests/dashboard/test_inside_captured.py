"""Inside a model: captured queries and keys of a visitor, against a plain softmax; what is refused."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dashboard import all_pages
from dashboard.blocks import Chart, Findings, Page
from dashboard.pages.inside_model.options import CAPTURED, Options
from dashboard.pages.inside_model.page import page
from dashboard.settings import Setting
from dashboard.state import State, to_query
from posenc.models import config_token
from tests.dashboard.called_pages import blocks, data, numbers, texts
from tests.dashboard.checked_tables import hold
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.dashboard.small_checkpoints import GROUPS, HEAD_DIM, HEADS, setting, token
from tests.library.crafted_files import file_of, npy
from tests.library.tensors import random

pytestmark = pytest.mark.usefixtures("no_shape_checks")

TOKENS = 10


def vectors() -> tuple[np.ndarray, np.ndarray]:
    """Return queries of 4 heads, in whose head 3 pair 5 is large, and keys of 2."""
    queries = random(HEADS, TOKENS, HEAD_DIM).float()
    queries[3, :, [5, 11]] *= 10
    return queries.numpy(), random(GROUPS, TOKENS, HEAD_DIM, seed=1).float().numpy()


def options_of(q: np.ndarray, k: np.ndarray, layer: int = 1) -> Options:
    names = hold(q, "q.npy"), hold(k, "k.npy")
    return Options(part=CAPTURED, queries=names[0], keys=names[1], of_layer=layer)


def shown(q: np.ndarray, k: np.ndarray, layer: int = 1, **changes: Any) -> Page:
    return page(setting(**changes), options_of(q, k, layer))


def weights_of(q: np.ndarray, k: np.ndarray, head: int, i: int, base: float = 1e4) -> np.ndarray:
    """Return the weights of query i by rotating each vector in a loop."""
    half = HEAD_DIM // 2
    thetas = base ** (-2 * np.arange(half) / HEAD_DIM)

    def turned(x: np.ndarray, position: int) -> np.ndarray:
        cos, sin = np.cos(position * thetas), np.sin(position * thetas)
        a, b = x[:half].astype(float), x[half:].astype(float)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin])

    keys = [turned(k[head // (HEADS // GROUPS), j], j) for j in range(i + 1)]
    logits = np.array([turned(q[head, i], i) @ key for key in keys]) / HEAD_DIM**0.5
    weights: np.ndarray = np.exp(logits) / np.exp(logits).sum()
    return weights


def by_head(found: Page) -> dict[str, list[Any]]:
    (table,) = [b for b in found.all_blocks if isinstance(b, Findings) and b.key == "heads"]
    return {str(row[0]): list(row[1:]) for row in table.frame.to_numpy()}


def test_uploads_show_the_planted_pair_and_the_heads_of_a_plain_softmax() -> None:
    q, k = vectors()
    at = drawn(visit("inside_model", {"part": CAPTURED, "model": token()}))
    for name, content in (("q.npy", npy(q)), ("k.safetensors", file_of({"k": torch.tensor(k)}))):
        box: Any = at.main.get("file_uploader")[0]
        box.set_value((name, content, "application/octet-stream")).run()
    assert as_read(headline(drawn(at))).startswith("Pair 5 of head 4 added most to logits")
    found = by_head(shown(q, k))
    for head in range(HEADS):
        rows = [weights_of(q, k, head, i) for i in range(TOKENS)]
        entropy = np.mean([-(row * np.log(row)).sum() for row in rows])
        first = 100 * np.mean([row[0] for row in rows])
        distance = np.mean([(row * (len(row) - 1 - np.arange(len(row)))).sum() for row in rows])
        told = found[f"head {head + 1}"]
        assert told[:3] == pytest.approx([distance, first, entropy], rel=1e-5)
    assert found["head 4"][3] == "5"


def test_each_pair_added_the_mean_size_of_its_products() -> None:
    q, k = vectors()
    frame = numbers(shown(q, k), "contributions")
    half = HEAD_DIM // 2
    for head, pair in ((0, 0), (3, 5)):
        theta, added = 1e4 ** (-2 * pair / HEAD_DIM), []
        query, key = (
            x[:, pair].astype(complex) + 1j * x[:, pair + half]
            for x in (q[head], k[head // (HEADS // GROUPS)])
        )
        for i in range(TOKENS):
            for j in range(i + 1):
                turned = query[i] * np.conj(key[j]) * np.exp(1j * (i - j) * theta)
                added.append(abs(turned.real) / HEAD_DIM**0.5)
        own = frame[(frame["head"] == f"head {head + 1}") & (frame["pair"] == pair)]
        assert own.iloc[:, 2].tolist() == pytest.approx([np.mean(added)], rel=1e-4)


def test_many_heads_are_drawn_from_the_nearest_to_the_farthest() -> None:
    q, k = (random(20, TOKENS, HEAD_DIM, seed=n).float().numpy() for n in range(2))
    found = shown(q, k, num_attention_heads=20, num_key_value_heads=20)
    charts = blocks(found, Chart)
    assert [len(chart.names) for chart in charts] == [8, 9]
    table = data(found, "Numbers of every head")
    ends = table.iloc[:20].sort_values("mean distance (tokens)")["head"].tolist()
    assert {ends[0], ends[-1]} <= {*charts[1].names}
    assert data(found, "What pairs did add, every head")["head"].nunique() == 20


def test_a_and_b_rotate_the_same_vectors_by_two_configs() -> None:
    q, k = vectors()
    options = {"inside_model": options_of(q, k)}
    now = State(setting=setting(rope_theta=1e6), pinned=setting(), options=options)
    both = all_pages.page_at(now, "inside_model")
    (table,) = [b for b in both.all_blocks if isinstance(b, Findings) and b.key == "heads"]
    rows = table.frame.set_index(["head", "setting"])["entropy (nats)"]
    for name, base in (("A", 1e4), ("B", 1e6)):
        means = [weights_of(q, k, 0, i, base) for i in range(TOKENS)]
        entropy = np.mean([-(row * np.log(row)).sum() for row in means])
        assert rows["head 1", name] == pytest.approx(entropy, rel=1e-5)
    query = to_query(now, "inside_model", Options)
    assert not {"queries", "keys"} & {*query}


@pytest.mark.parametrize(
    ("q", "k", "layer", "changes", "words"),
    [
        ((4, 9, 12), (2, 8, 12), 1, {}, "as many tokens and features"),
        ((4, 9, 10), (2, 9, 10), 1, {}, "the files 4 of 10: they are of two models"),
        ((4, 513, 12), (2, 513, 12), 1, {}, "at most 512 tokens, got 513"),
        ((9,), (9,), 1, {}, "finite numbers of tokens x features"),
        ((4, 9, 12), (2, 9, 12), 4, {}, "has 3 layers; there is no layer 4"),
    ],
)
def test_vectors_that_do_not_fit_are_one_sentence(
    q: Any, k: Any, layer: int, changes: dict[str, Any], words: str
) -> None:
    found = shown(np.ones(q, np.float32), np.ones(k, np.float32), layer, **changes)
    assert found.headline == "Your queries and keys cannot be read."
    assert any(words in as_read(text) for text in texts(found))


def test_what_is_missing_is_asked_for() -> None:
    q, k = vectors()
    none = page(setting(), Options(part=CAPTURED))
    assert none.headline.startswith("Upload the queries of a layer")
    half = page(setting(), Options(part=CAPTURED, queries=hold(q, "q.npy")))
    assert half.headline == "Now upload the keys."
    assert page(Setting(), options_of(q, k)).headline.startswith("Choose the model")
    lost = Options(part=CAPTURED, queries=hold(q, "q.npy"), keys=f"array-{'0' * 12}")
    assert any("is not on this server" in text for text in texts(page(setting(), lost)))


def test_a_model_without_rotation_has_heads_and_no_pairs() -> None:
    q, k = (random(4, TOKENS, 8, seed=n).float().numpy() for n in range(2))
    bloom = {"model_type": "bloom", "hidden_size": 32, "n_head": 4, "n_layer": 1}
    model = config_token(json.dumps(bloom).encode())
    found = page(Setting(model=model), options_of(q, k))
    assert found.headline.startswith("Heads look ")
    assert [b.key for b in found.all_blocks if isinstance(b, Chart)] == ["by_distance"]
    first = [
        np.exp(
            q[0, i].astype(float) @ k[0, : i + 1].T.astype(float) / 8**0.5 + 0.25 * np.arange(i + 1)
        )
        for i in range(TOKENS)
    ]  # a slope of 1/4: a later key has less taken off, up to a constant
    share = 100 * np.mean([row[0] / row.sum() for row in first])
    assert by_head(found)["head 1"][1] == pytest.approx(share, rel=1e-5)


def test_the_script_prints_the_numbers_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k = vectors()
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "k.npy", k)
    monkeypatch.chdir(tmp_path)
    found = shown(q, k)
    assert found.script is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.script(), {})
    lines = printed.getvalue().splitlines()
    heads = by_head(found)
    for head in range(HEADS):
        entropy, first, distance = map(float, lines[1 + head].split(",")[1:])
        assert heads[f"head {head + 1}"][:3] == pytest.approx([distance, 100 * first, entropy])
    added = [float(line.split(",")[2]) for line in lines[HEADS + 2 :]]
    assert added == pytest.approx(numbers(found, "contributions").iloc[:, 2].to_list())
