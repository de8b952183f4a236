"""Inside a model: a visitor's checkpoint, in one file, in parts or from the Hub, and what is refused."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from dashboard import all_pages, visitor_weights
from dashboard.blocks import Chart, Findings, Page
from dashboard.live import model_files
from dashboard.pages.inside_model.options import BY_LAYER, CHECKPOINT, CUTS, Options
from dashboard.pages.inside_model.page import page, uses
from dashboard.server import upload_limit
from dashboard.settings import Setting
from dashboard.state import State, to_query
from dashboard.visitor_weights import cache_weights, cached_weights, of_file
from posenc.checkpoints import local_checkpoint
from posenc.errors import CheckpointError
from tests.dashboard.called_pages import blocks, data, numbers, texts
from tests.dashboard.pages import as_read, captions, drawn, headline, notices, visit
from tests.dashboard.small_checkpoints import (
    CONFIG,
    GROUPS,
    HEAD_DIM,
    HEADS,
    NAME,
    setting,
    shards,
    tensors,
    token,
    whole,
)
from tests.library.crafted_files import checkpoint, file_of, zipped_pickle
from tests.library.safetensors_checks import MEBIBYTE, peak_memory

pytestmark = pytest.mark.usefixtures("no_shape_checks")

FOUND = "In layer 3, pair 5 of head 4 can add most to a logit"


def hold(content: bytes, name: str = "model.safetensors") -> str:
    return cache_weights(of_file(name, content, None))


def shown(weights: str, layer: int = 3, **changes: Any) -> Page:
    options = Options(part=CHECKPOINT, weights=weights, of_layer=layer, table=BY_LAYER)
    return page(setting(**changes), options)


def open_part(**link: str) -> AppTest:
    return drawn(visit("inside_model", {"part": CHECKPOINT, "model": token(), **link}))


def upload(at: AppTest, name: str, content: bytes) -> AppTest:
    box: Any = at.main.get("file_uploader")[0]
    box.set_value((name, content, "application/octet-stream")).run()
    return at


def bound(layer: int, head: int, pair: int) -> float:
    """Return the product of the spectral norms of a pair's rows over the root of the head's width."""
    held = tensors()
    norms = []
    for part, own in (("q", head), ("k", head // (HEADS // GROUPS))):
        rows = [own * HEAD_DIM + pair, own * HEAD_DIM + pair + HEAD_DIM // 2]
        norms.append(np.linalg.svd(held[NAME.format(layer, part)][rows].double().numpy())[1][0])
    return float(norms[0] * norms[1] / HEAD_DIM**0.5)


def test_an_uploaded_checkpoint_shows_its_planted_pair_and_every_bound() -> None:
    at = upload(open_part(of_layer="3"), "model.safetensors", whole())
    assert as_read(headline(drawn(at))).startswith(FOUND)
    found = shown(hold(whole()))
    frame = numbers(found, "bounds")
    for head in range(HEADS):
        own = frame[frame["head"] == f"head {head + 1}"].iloc[:, 2].tolist()
        assert own == pytest.approx([bound(2, head, pair) for pair in range(6)], rel=1e-6)
    turned = [64 * 1e4 ** (-2 * pair / HEAD_DIM) / (2 * np.pi) >= 1 for pair in range(6)]
    slow = [frame["pair"] == pair for pair in range(6) if not turned[pair]]
    share = 100 * frame[np.logical_or.reduce(slow)].iloc[:, 2].sum() / frame.iloc[:, 2].sum()
    assert f"{6 - sum(turned)} of 6 pairs never complete a turn in 64 tokens" in found.headline
    assert f"hold {share:.3g}% of what" in found.headline
    (layers,) = [b for b in found.all_blocks if isinstance(b, Findings) and b.key == "layers"]
    assert layers.frame["layer"].tolist() == ["layer 1", "layer 2", "layer 3"]
    assert int(layers.frame["largest bound"].to_numpy().argmax()) == 2
    assert layers.frame[["of head", "of pair"]].to_numpy()[2].tolist() == [4, 5]
    assert any(NAME.format(2, "q") in as_read(text) for text in texts(found))


def test_only_projections_stay_in_memory_and_one_layer_is_read_at_a_time() -> None:
    layers, width = 30, 256
    config = CONFIG | {
        "hidden_size": width, "num_hidden_layers": layers, "num_key_value_heads": 4, "head_dim": 64,
    }  # fmt: skip
    content = file_of(
        {
            NAME.format(layer, part): torch.ones(width, width)
            for layer in range(layers)
            for part in ("q", "k", "v", "o")
        }
    )
    name = hold(content)
    assert cached_weights.get(name).size < 16 * MEBIBYTE  # of 30 MiB
    shown(name, 1)  # what is imported once
    taken = peak_memory(lambda: shown(name, 30, **config))
    assert taken < 3 * MEBIBYTE


def test_parts_are_taken_one_after_the_other_and_a_missing_one_is_named() -> None:
    files = shards()
    at = open_part(of_layer="3")
    first, second = files
    upload(at, first, files[first])
    assert headline(at) == "This layer cannot be read."
    (told,) = [box.value for box in at.error]
    assert as_read(told) == (
        f"Layer 3 is in none of the uploaded files; of the checkpoint {second} is missing."
    )
    upload(at, second, files[second])
    assert as_read(headline(drawn(at))).startswith(FOUND)
    upload(at, "other.safetensors", file_of(tensors(range(1))))  # another checkpoint
    (told,) = [box.value for box in at.error]
    assert "holds no query and key projections of layer 3" not in told  # counted from 0 there
    assert "no query and key projections of layer 2" in as_read(told)


def test_parts_of_another_checkpoint_take_the_place_of_the_first() -> None:
    first, second = shards().items()
    held = of_file(*first, None)
    assert held.missing == [second[0]]
    both = of_file(*second, held)
    assert both.missing == []
    assert {*both.contents} == {first[0], second[0]}
    other = of_file("other-00002-of-00002.safetensors", second[1], held)
    assert other.missing == ["other-00001-of-00002.safetensors"]
    assert {*other.files} == {*tensors(range(2, 3))}
    again = of_file(first[0], file_of(tensors(range(1))), both)  # a part once more
    assert {*again.files} == {*tensors(range(1)), *tensors(range(2, 3))}


BAD: dict[str, tuple[bytes, str]] = {
    "no projections": (
        file_of({"model.embed_tokens.weight": torch.ones(4, 16)}), "no query and key projections",
    ),
    "another width": (
        file_of({NAME.format(0, p): torch.ones(n, 20) for p, n in (("q", 48), ("k", 24))}),
        "the files are of two models",
    ),
    "8 bits": (
        checkpoint({NAME.format(0, p): ("F8_E4M3", (n, 16), bytes(16 * n))
                    for p, n in (("q", 48), ("k", 24))}),
        "numbers of 8 bits, which mean nothing without their scales",
    ),
    "packed": (
        file_of({"model.layers.0.self_attn.q_proj.qweight": torch.ones(2, 16)}),
        "packed in 8 bits or less",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_checkpoint_that_cannot_be_read_is_one_sentence(case: str) -> None:
    content, words = BAD[case]
    found = shown(hold(content), 1)
    assert found.headline == "This layer cannot be read."
    (told,) = [as_read(text) for text in texts(found) if words in as_read(text)]
    assert told.count(". ") == 0


def test_what_is_no_checkpoint_is_refused_by_name() -> None:
    at = open_part()
    upload(at, "notes.txt", b"no tensors")
    assert as_read(headline(at)) == "notes.txt cannot be read."
    assert len(at.error) == 1
    upload(at, "model.pt", zipped_pickle({"weight": torch.ones(2)}))
    assert as_read(headline(at)) == "model.pt cannot be read."
    assert any("weights_only=True" in code.value for code in at.code)


def test_no_model_a_layer_too_many_and_a_lost_upload_are_said() -> None:
    name = hold(whole())
    without = page(Setting(), Options(part=CHECKPOINT, weights=name))
    assert without.headline.startswith("Choose the model")
    assert any(
        "has 3 layers; there is no layer 4" in as_read(text) for text in texts(shown(name, 4))
    )
    lost = shown(f"weights-{'0' * 12}")
    assert any("is not on this server" in text for text in texts(lost))


def test_a_and_b_read_one_checkpoint_by_two_configs() -> None:
    name = hold(whole())
    options = {"inside_model": Options(part=CHECKPOINT, weights=name, of_layer=1, table=CUTS)}
    a, b = setting(), setting(rope_theta=1e8)
    assert uses(options["inside_model"]).itself == ("model",)
    both = all_pages.page_at(State(setting=b, pinned=a, options=options), "inside_model")
    (cuts,) = [x for x in both.all_blocks if isinstance(x, Findings) and x.key == "cuts"]
    slow = cuts.frame[cuts.frame["without rotation"] == "no full turn in training"]
    share = dict(zip(slow["setting"], slow["pairs (%)"], strict=True))
    turns = {base: [64 * base ** (-pair / 6) / (2 * np.pi) >= 1 for pair in range(6)]
             for base in (1e4, 1e8)}  # fmt: skip
    assert share["A"] == pytest.approx(100 * (1 - np.mean(turns[1e4])))
    assert share["B"] == pytest.approx(100 * (1 - np.mean(turns[1e8])))
    assert share["A"] < share["B"]
    assert as_read(both.beside).startswith("A: model")
    lost = State(setting=setting(hidden_size=20), pinned=a, options=options)
    refused = all_pages.page_at(lost, "inside_model")
    assert refused.headline.endswith("This layer cannot be read.")
    assert blocks(refused, Chart)  # that of A stays


def test_a_link_holds_the_part_and_the_layer_and_never_an_upload() -> None:
    options = Options(part=CHECKPOINT, weights=hold(whole()), of_layer=2, refused="x")
    query = to_query(State(options={"inside_model": options}), "inside_model", Options)
    assert query == {"v": ["1"], "part": [CHECKPOINT], "of_layer": ["2"]}


def test_the_script_prints_the_bounds_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").write_bytes(whole())
    monkeypatch.chdir(tmp_path)
    found = shown(hold(whole()))
    assert found.script is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.script(), {})
    first, *lines = printed.getvalue().splitlines()
    assert first == "head,pair,bound"
    bounds = [float(line.split(",")[2]) for line in lines]
    assert bounds == pytest.approx(numbers(found, "bounds").iloc[:, 2].to_list())


def test_many_heads_are_drawn_in_part_and_the_data_has_all() -> None:
    heads = 20
    generator = torch.Generator().manual_seed(0)
    content = file_of(
        {NAME.format(0, part): torch.randn(heads * 12, 16, generator=generator) for part in "qk"}
    )
    sizes = {"num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": 1}
    found = shown(hold(content), 1, **sizes)
    drawn_frame = numbers(found, "bounds")
    assert drawn_frame["head"].nunique() == 8
    every = data(found, "What pairs can add, every head")
    assert every["head"].nunique() == heads
    largest = every["head"].to_list()[int(every.iloc[:, 2].to_numpy().argmax())]
    assert largest in {*drawn_frame["head"]}
    assert any("8 of 20 heads are drawn" in text for text in texts(found))


def test_layers_of_the_hub_are_fetched_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "hub_layer" not in [button.key for button in open_part().button]
    monkeypatch.setenv("POSENC_HUB", "1")
    (tmp_path / "model.safetensors").write_bytes(whole())
    asked = []

    def of_folder(model: str, seconds: float) -> Any:
        asked.append(model)
        return local_checkpoint(tmp_path)

    monkeypatch.setattr(model_files, "hub_checkpoint", of_folder)
    at = open_part(of_layer="3")
    at.text_input(key="hub_checkpoint").set_value("some/model").run()
    at.button(key="hub_layer").click().run()
    assert asked == ["some/model"]
    assert as_read(headline(drawn(at))).startswith(FOUND)
    at.number_input(key="of_layer").set_value(1).run()
    assert [as_read(box.value) for box in at.error] == [
        "Layer 1 is not fetched yet: press Fetch layer."
    ]
    at.button(key="hub_layer").click().run()
    assert as_read(headline(drawn(at))).startswith("In layer 1")
    at.number_input(key="of_layer").set_value(3).run()
    assert as_read(headline(drawn(at))).startswith(FOUND)  # what was fetched before stays

    def fail(model: str, seconds: float) -> Any:
        raise CheckpointError("The Hub gave nothing: there is no such model, revision or file.")

    monkeypatch.setattr(model_files, "hub_checkpoint", fail)
    at.button(key="hub_layer").click().run()
    assert as_read(headline(at)) == "some/model cannot be read."
    bare = drawn(visit("inside_model", {"part": CHECKPOINT}))
    bare.button(key="hub_layer").click().run()
    assert any("Choose the model first" in text for text in notices(bare))


def test_a_server_without_uploads_takes_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_UPLOADS", "0")
    at = open_part()
    assert not at.main.get("file_uploader")
    assert upload_limit.SWITCHED_OFF in captions(at)


def test_projections_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor_weights, "MAX_CHECKPOINT_BYTES", 2**12)
    with pytest.raises(CheckpointError, match="the command posenc pairs reads more"):
        hold(whole())
