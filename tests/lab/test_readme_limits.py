"""The limits of the results that the lab's README names, computed by pandas from the files that ship."""

from pydoc_data.topics import topics
from typing import Any

import pytest

from posenc.lab.corpus import library_code, library_prose
from tests.lab.readme_tables import (
    PARTS,
    TEXT,
    cells,
    interval,
    losses_by_context,
    rows_of_table,
    scores,
    specification,
    starred,
    sweep_losses,
)


def at_64_on_other_bytes(part: str) -> Any:
    """The loss of every trial at the positions 48 to 64 of long texts, which a context of 64 scores."""
    losses = scores(part).query(
        "measure == 'position' and variant == 'as trained' and x in (48, 56)"
    )
    return losses.pivot_table(index="scheme", columns="seed", values="value")


def test_intervals_hold_for_the_bytes_that_were_scored() -> None:
    outside: dict[str, tuple[list[str], int]] = {}
    for part in PARTS:
        own = losses_by_context(part).xs(64, axis=1, level="x").dropna()
        other = at_64_on_other_bytes(part)
        assert {*own.index} == {*other.index}
        found = []
        for label in own.index.drop("RoPE"):
            _, low, high = interval(own.loc[label] - own.loc["RoPE"])
            if not low <= (other.loc[label] - other.loc["RoPE"]).mean() <= high:
                found.append(label)
        outside[part] = found, len(own) - 1
        assert (other.loc["ALiBi"] - other.loc["Sinusoidal"]).mean() > 0
        if part == "code":
            both = [(each.loc["Sinusoidal"] - each.loc["RoPE"]).mean() for each in (other, own)]
            assert "(sinusoidal's is {:.3f}, not {:.3f})".format(*both) in TEXT
    (on_code, of_code), (on_prose, of_prose) = (outside[part] for part in PARTS)
    assert f"{len(on_code)} of the {of_code} differences from RoPE at 64 tokens on code lie" in TEXT
    assert (len(on_prose), f"none of the {of_prose} on prose" in TEXT) == (0, True)


def test_longer_training_texts_cost_loss_near_the_beginning() -> None:
    """At the positions 32 to 64: models trained on 256 tokens against those trained on 64."""
    facts = []
    for scheme in ("RoPE", "ALiBi"):
        means = []
        for part, places in (("whole", {32}), ("code", {32, 40, 48, 56})):
            losses = scores(part).query("measure == 'position' and variant == 'as trained'")
            own = losses[(losses["scheme"] == scheme) & losses["x"].isin(places)]
            means.append(own.groupby("seed")["value"].mean())
        long, short = means
        facts.append(interval((long - short).dropna()))
    assert "is {:.3f} nats above RoPE trained on 64 ({:.3f} to {:.3f})".format(*facts[0]) in TEXT
    assert "ALiBi {:.3f} ({:.3f} to {:.3f})".format(*facts[1]) in TEXT


def test_rates_after_all_steps() -> None:
    """Which rate is the best of each scheme, and by how much the tables' rate is above it."""
    swept, short = sweep_losses("rates"), sweep_losses("code")
    ((head, rows),) = rows_of_table("rates after 1,200 steps ")
    rates = [float(cell) for cell in cells(head)[1:]]
    assert {row[0] for row in rows} == {*swept["scheme"]}
    above: dict[str, float] = {}
    for label, first, *shown in rows:
        own: Any = swept[swept["scheme"] == label].pivot_table(
            index="seed", columns="learning_rate", values="loss"
        )
        chosen = scores("code").query(f"scheme == '{label}'")["learning_rate"].unique()
        of_sweep = short[short["scheme"] == label].groupby("learning_rate")["loss"].mean()
        assert [first] == [f"{rate:g}" for rate in chosen] == [f"{of_sweep.idxmin():g}"]
        for rate, cell in zip(rates, shown, strict=True):
            both = own.get(rate)
            expected = (
                "" if both is None else f"{both.mean():.3f} ({both.min():.3f}, {both.max():.3f})"
            )
            assert cell == expected, (label, rate)
            assert both is None or len(both) == 2
        assert {*own.idxmin(axis=1)} == {0.004}
        above[label] = own[float(first)].mean() - own[0.004].mean()
    assert above["RoPE"] == 0
    by = f"{above['Sinusoidal']:.3f} and {above['ALiBi']:.3f} nats"
    assert f"better for sinusoidal and ALiBi, by {by}, and the same for RoPE" in TEXT
    assert f"at 64 tokens are {by} above what they reach at 0.004" in TEXT
    means: Any = losses_by_context("code").xs(64, axis=1, level="x").mean(axis=1)
    left = means["Sinusoidal"] - means["Learned"] - above["Sinusoidal"]
    assert f"with which {left:.3f} of the difference would be left" in TEXT
    assert 0 < means["ALiBi"] - means["Sinusoidal"] < above["Sinusoidal"]
    assert f"ALiBi stays above RoPE by more ({means['ALiBi'] - means['RoPE']:.3f})" in TEXT


def test_what_models_read() -> None:
    corpus = library_code()
    for run in scores("code")["run_id"].unique():
        made = specification(run)
        assert made["model"] == {"layers": 3, "width": 128, "heads": 4}
        read = made["steps"] * made["batch"] * made["train_length"]
        assert f"read {read / 1e6:.1f} million bytes, {read / len(corpus.train):.0%} of the" in TEXT
    prose = library_prose()
    of_topics = sum(len(text.encode()) for text in topics.values())
    assert "about four fifths of the prose is docstrings" in TEXT
    assert 1 - of_topics / (len(prose.train) + len(prose.validation)) == pytest.approx(
        0.8, abs=0.03
    )


def test_trials_that_chose_no_rate_agree_in_the_sign_of_every_difference() -> None:
    at_64 = losses_by_context("code").xs(64, axis=1, level="x").dropna()
    gaps = at_64.sub(at_64.loc["RoPE"]).drop("RoPE")
    others: Any = gaps[[2, 3, 4]]
    same = others.mean(axis=1) * gaps.mean(axis=1) > 0
    assert [*same.index[~same]] == ["CoPE"]
    for own in (others, gaps):
        _, low, high = interval(own.loc["CoPE"])
        assert low < 0 < high
    assert (
        f"PoPE's is {others.loc['PoPE'].mean():.3f} in place of {gaps.loc['PoPE'].mean():.3f}"
        in TEXT
    )
    of_pope = interval(others.loc["PoPE"])
    assert "and excludes 0 ({:.3f} to {:.3f})".format(*of_pope[1:]) in TEXT
    breaking = others.loc["Stick-breaking"].mean(), gaps.loc["Stick-breaking"].mean()
    assert "stick-breaking's is {:.3f} in place of {:.3f}".format(*breaking) in TEXT
    _, low, high = interval(others.loc["KERPLE power"])
    assert f"KERPLE power's interval then reaches from {low:.3f} to {high:.3f}" in TEXT
    tried = sweep_losses("code").groupby("scheme")["scheme_rate"].nunique()
    chosen = scores("code").groupby("scheme")["scheme_rate"].first()
    numbers = {6: "six", 12: "twelve"}
    of_both = numbers[(chosen == 10).sum()], numbers[(tried == 2).sum()]
    assert "of which {} of {} chose the higher".format(*of_both) in TEXT


def gaps_from_rope() -> dict[tuple[str, int], Any]:
    """The differences of the table on code: by scheme as it was read and length, one for each trial."""
    means = losses_by_context("code")
    return {
        (label, x): means.loc[label][x] - means.loc["RoPE"][x]
        for label in means.index.drop("RoPE")
        for x in (64, 128, 1024)
        if not means.loc[label][x].isna().all()
    }


def test_stars_and_intervals_that_another_processor_may_decide() -> None:
    """If all schemes that were made later are 0.005 nats lower, or higher, at 64 tokens."""
    gaps, first = gaps_from_rope(), {"NoPE", "Learned", "Sinusoidal", "RoPE", "ALiBi"}

    def shifted(by: float) -> dict[tuple[str, int], Any]:
        return {
            (label, x): gap + (by if x == 64 and label not in first else 0)
            for (label, x), gap in gaps.items()
        }

    lost = starred(gaps) - starred(shifted(-0.005))
    gained = starred(shifted(0.005)) - starred(gaps)
    assert lost == {("Sandwich", 64)}
    assert {label for label, x in gained if x == 64} == {"FoX", "RNoPE"}
    assert interval(gaps["Shaw", 64])[2] > 0 > interval(shifted(-0.005)["Shaw", 64])[2]
    near = {label: abs(gap.mean()) for (label, x), gap in gaps.items() if x == 64}
    assert {label for label in near if near[label] < 2 * 0.005 and label not in first} == {
        "p-RoPE", "Transformer-XL", "SSMax on RoPE", "xPos", "CoPE",
    }  # fmt: skip


def test_more_differences_have_stars_in_a_table_without_the_last_six_schemes() -> None:
    last = {"Stick-breaking", "xPos", "CoPE", "p-RoPE", "SSMax", "SSMax on RoPE"}
    gaps = gaps_from_rope()
    before = {key: gap for key, gap in gaps.items() if key[0] not in last}
    assert f"({len(before)} differences), RNoPE, KERPLE power and FoX had stars at 64" in TEXT
    assert starred(before) - starred(gaps) == {
        ("RNoPE", 64), ("KERPLE power", 64), ("FoX", 64),
        ("Sinusoidal", 128), ("NoPE", 128), ("RoPE, position interpolation", 128),
    }  # fmt: skip


def test_settings_of_schemes_are_those_of_the_files() -> None:
    runs = scores("code").groupby("scheme")["run_id"].first()
    made = {label: specification(run)["scheme"] for label, run in runs.items()}
    assert (
        f"Shaw clips distances at {made['Shaw']['clip']}, T5 bias at {made['T5 bias']['max_distance']}, "
        f"CoPE counts to {made['CoPE']['counted']}, p-RoPE turns "
        f"{made['p-RoPE']['partial_rotary_factor']:.0%} of the pairs, and xPos has the scale "
        f"{made['xPos']['scale_base']:.0f}" in TEXT
    )
