"""Check my encoding: which rule made attention logits, of samples and of uploads."""

import io
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from dashboard.blocks import Chart, Controls
from dashboard.pages.check_my_encoding.logit_samples import SAMPLES
from dashboard.pages.check_my_encoding.options import LOGITS, Options
from dashboard.pages.check_my_encoding.page import page, uses
from dashboard.settings import Setting
from tests.dashboard.called_pages import blocks, read_texts
from tests.dashboard.checked_tables import PAGE, hold, numbers
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.library.crafted_files import npy

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# By sample: the beginning of the headline.
CAUSES = {
    "Gemma 3, scale by head_dim": "The softmax scale is 1/sqrt(128) by head_dim, where the layer has "
    "1/sqrt(168) by query_pre_attn_scalar: logits are 1.1456 times the layer's.",
    "DeepSeek, mscale": "The softmax scale is 1/sqrt(192) by head_dim times 1.8739",
    "ALiBi, 12 heads": "The slopes are 2^(-8 i/n) for every head",
    "ALiBi, rank 1 of 2": "The slopes are those of a layer with 8 heads, as where each of 2 ranks",
    "ALiBi, decoding": "No bias reaches the logits or the bias is built over the query alone",
    "no soft cap": "The soft cap is missing, where the layer caps logits at 50.",
    "window off by one": "The window is off by 1: a query sees 9 keys up to its own",
    "right ALiBi": "These logits are the layer's, up to a constant for each query",
}


def shown(sample: str) -> Any:
    return page(Setting(), Options(part=LOGITS, sample=sample))


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_begins_with_its_cause_and_draws_two_charts(sample: str) -> None:
    found = shown(sample)
    assert as_read(found.headline).startswith(CAUSES[sample])
    charts = blocks(found, Chart)
    assert [chart.key for chart in charts] == ["check_logits", "check_heads"]
    assert all(set(chart.frame["which"]) == {"found", "expected"} for chart in charts)
    assert any(sample == "right ALiBi" or "error" in text for text in read_texts(found))


def test_numbers_by_head_are_the_slopes_and_scales_of_the_formulas() -> None:
    frame = numbers(shown("ALiBi, 12 heads"), "Numbers of every head")
    made = frame[frame["which"] == "found"]["value"]
    assert made.tolist() == pytest.approx([2 ** (-8 * i / 12) for i in range(1, 13)], rel=1e-4)
    eight = [2.0**-i for i in range(1, 9)]
    right = frame[frame["which"] == "expected"]["value"]
    assert right.tolist() == pytest.approx([*eight, *(2 ** -(0.5 + i) for i in range(4))])
    scales = numbers(shown("Gemma 3, scale by head_dim"), "Numbers of every head")
    assert scales["value"].tolist() == pytest.approx([128**-0.5] * 32 + [168**-0.5] * 32, rel=1e-5)
    none = numbers(shown("ALiBi, decoding"), "Numbers of every head")
    assert none[none["which"] == "found"]["value"].tolist() == [0.0] * 8


def test_logits_by_distance_are_their_root_mean_square() -> None:
    sample = "ALiBi, 12 heads"
    _, _, _, logits = SAMPLES[sample]()
    found = shown(sample)
    frame = numbers(found, "Logits by distance")
    head = int(blocks(found, Chart)[0].title.split()[3])
    for distance in (0, 5, 23):
        values = [float(logits[head, row, row - distance]) ** 2 for row in range(distance, 24)]
        rows = frame[(frame["which"] == "found") & (frame["distance"] == distance)]
        assert rows["logit"].tolist() == pytest.approx([math.sqrt(sum(values) / len(values))])


def test_sample_reads_nothing_of_the_setting_and_an_upload_reads_the_model() -> None:
    assert uses(Options(part=LOGITS)).itself == ()
    assert [tuple(block.names) for block in blocks(shown("right ALiBi"), Controls)][1:] == [
        ("sample",)
    ]
    q = hold(np.zeros((2, 4, 8), np.float32), "q.npy")
    options = Options(part=LOGITS, queries=q)
    assert uses(options).itself == ("model",)
    assert page(Setting(), options).headline == "Now upload the keys."


def test_script_prints_the_scale_of_every_head() -> None:
    found = shown("no soft cap")
    assert found.script is not None
    run = subprocess.run(
        [sys.executable, "-c", found.script()], capture_output=True, text=True, check=True
    )
    assert run.stderr.startswith("The soft cap is missing")
    rows = [line.split(",") for line in run.stdout.splitlines()]
    assert rows[0] == ["head", "softmax scale", "expected"]
    frame = numbers(found, "Numbers of every head")
    made = frame[frame["which"] == "found"]["value"]
    assert [float(row[1]) for row in rows[1:]] == pytest.approx(made.tolist())


def test_uploads_are_compared_one_after_the_other_and_refused_by_name() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(4, 6, 16, generator=generator) for _ in range(2))
    see = torch.ones(6, 6, dtype=torch.bool).tril()
    logits = (q @ k.mT / 16).masked_fill(~see, -math.inf)
    at = drawn(visit(PAGE, {"part": LOGITS}))
    for name, array in (("q.npy", q), ("k.npy", k), ("logits.npy", logits)):
        box: Any = at.main.get("file_uploader")[0]
        box.set_value((name, npy(array.numpy()), "application/octet-stream")).run()
    assert as_read(headline(drawn(at))).startswith(
        "The softmax scale is 1/head_dim (1/16), where the layer has 1/sqrt(16) by head_dim"
    )
    box = at.main.get("file_uploader")[0]
    stream = io.BytesIO()
    np.save(stream, np.arange(4))
    box.set_value(("whole.npy", stream.getvalue(), "application/octet-stream")).run()
    assert as_read(headline(at)) == "whole.npy cannot be checked."


def test_arrays_that_do_not_fit_and_lost_uploads_are_said_in_one_sentence() -> None:
    names = [
        hold(np.ones(shape, np.float32), f"{size}.npy")
        for size, shape in (("q", (2, 4, 8)), ("k", (2, 4, 8)), ("l", (2, 4, 9)))
    ]
    options = Options(part=LOGITS, queries=names[0], keys=names[1], logits=names[2])
    found = page(Setting(), options)
    assert found.headline == "Your logits cannot be compared."
    assert any("The logits must be 2 x 4 x 4" in text for text in read_texts(found))
    lost = Options(part=LOGITS, queries=names[0], keys=names[1], logits=f"array-{'0' * 12}")
    assert any("is not on this server" in text for text in read_texts(page(Setting(), lost)))
