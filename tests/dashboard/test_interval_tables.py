"""The measured view has the tables of the command, with intervals, and says what cutting the text gains."""

import pandas as pd
import pytest
import scipy.stats
from click.testing import CliRunner

from dashboard.blocks import Code, Drawer, Findings, Page
from dashboard.pages.extrapolation.page import Options, page
from dashboard.settings import Setting
from posenc.__main__ import main
from posenc.lab.evaluate import TRAINED
from tests.dashboard.called_pages import texts
from tests.dashboard.pages import as_read
from tests.dashboard.shipped_runs import CODE, runs_of
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def measured(*schemes: str) -> Page:
    """Return the measured view of the comparison of losses that ships."""
    return page(Setting(schemes=schemes), Options())


def intervals(key: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of a drawer of the comparison of losses that ships, and its files."""
    (drawer,) = [
        block
        for block in measured("rope", "alibi").all_blocks
        if isinstance(block, Drawer) and block.key == f"{key}_drawer"
    ]
    made = drawer.make()
    (files,) = [block for block in made if isinstance(block, Drawer)]
    (table,) = [block.frame for block in made if isinstance(block, Findings)]
    return table, [block.code for block in files.make() if isinstance(block, Code)]


@pytest.mark.parametrize(
    ("key", "words"), mostly([("intervals", ()), ("tuned", ("--fine-tuned",))], ("intervals", ()))
)
def test_table_with_intervals_is_the_one_that_the_command_prints(
    key: str, words: tuple[str, ...]
) -> None:
    shown, files = intervals(key)
    asked = ("runs", "--store", "shipped", "--comparison", CODE, *words, "--table")
    assert files == [CliRunner().invoke(main, [*asked, form]).output for form in ("csv", "latex")]
    printed = CliRunner().invoke(main, [*asked, "markdown"]).output.splitlines()
    rows = [" | ".join(row) for row in shown.itertuples(index=False)]
    assert [f"| {row} |" for row in rows] == [line for line in printed if line.startswith("| ")][1:]


def test_reading_longer_without_training_is_compared_with_cutting_the_text() -> None:
    values: dict[str, dict[int, float]] = {"NTK-aware": {}, TRAINED: {}}
    for run in runs_of(CODE):
        if run.specification.scheme.kind == "rope":
            for score in run.scores:
                if (score.measure, score.variant, score.x) in (
                    ("context", "NTK-aware", 128), ("context", TRAINED, 64)
                ):  # fmt: skip
                    values[score.variant][run.specification.seed] = score.value
    gap = scipy.stats.ttest_rel(*([own[seed] for seed in range(5)] for own in values.values()))
    low, high = gap.confidence_interval(0.95)
    mean = sum(values["NTK-aware"].values()) / 5 - sum(values[TRAINED].values()) / 5
    sentence = (
        f"**RoPE, NTK-aware, scaled after training**: at 128 tokens its loss is {mean:.2f} nats higher "
        f"than that of the same models that see only the last 64 (95% interval {low:.2f} to {high:.2f})."
    )
    assert any(sentence in as_read(text) for text in texts(measured("rope", "alibi")))
    assert not any("scaled after training" in text for text in texts(measured("alibi")))
