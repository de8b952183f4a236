"""The results in the lab's README are those of the protocol's runs that ship, read by pandas alone."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from posenc.__main__ import main
from posenc.checkpoints.sources import RESULTS
from posenc.lab.tasks import Recall
from tests.lab.readme_tables import (
    PARTS,
    README,
    TEXT,
    cells,
    interval,
    losses_by_context,
    named,
    rows_of_table,
    scores,
    specification,
    starred,
    sweep_losses,
)

NUMBERS = {3: "Three", 10: "Ten", 11: "Eleven", 12: "Twelve"}
RERUNS = Path(__file__).parent / "reruns"  # of seven runs that ship, on another processor
LEARNED = 0.9  # the mean accuracy in training from which a task is learned


def percents(values: "pd.Series[float]") -> str:
    low, high = 100 * values.min(), 100 * values.max()
    return f"{values.mean():.0%} ({low:.0f} to {high:.0f})"


def with_interval(values: "pd.Series[float]") -> str:
    """The mean of differences of trials with its 95% interval; a zero has no sign."""
    mean, low, high = (0.0 if abs(value) < 5e-4 else value for value in interval(values))
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def test_flip_flop_accuracies() -> None:
    """With 10, 80 (as in training) and 98% of the instructions ignored."""
    flip_flop = scores("flip_flop").query("measure == 'flip_flop'")
    by_trial: Any = flip_flop.pivot_table(index=["scheme", "seed"], columns="x", values="value")
    ((_, rows),) = rows_of_table("flip-flop accuracy ")
    assert {row[0] for row in rows} == {*by_trial.index.get_level_values("scheme")}
    for label, rate, solved, *accuracies in rows:
        own = by_trial.loc[label]
        rates = flip_flop.loc[flip_flop["scheme"] == label, "learning_rate"].unique()
        assert [rate] == [f"{each:g}" for each in rates], label
        assert solved == f"{(own[80] >= LEARNED).sum()} of {len(own)}", label
        assert accuracies == [percents(own[x]) for x in (10, 80, 98)], label
    means: Any = by_trial.groupby(level="scheme").mean()
    best = means[80].idxmax()
    assert means[10].idxmax() == best
    assert f"{best} has the highest mean at the trained share, {means.loc[best, 80]:.0%}" in TEXT
    assert f"in dense texts, {means.loc[best, 10]:.0%}" in TEXT
    wrong = 1 - means[98]
    assert (
        f"RoPE is wrong in {wrong['RoPE']:.0%}, FoX in {wrong['FoX']:.0%} and stick-breaking in "
        f"{wrong['Stick-breaking']:.0%}" in TEXT
    )
    chosen = flip_flop.groupby("scheme")["learning_rate"].first()
    tried = sweep_losses("flip_flop")["learning_rate"]
    assert [*chosen.index[chosen == tried.min()]] == ["NoPE"]
    assert [*chosen.index[chosen == tried.max()]] == ["FoX"]
    assert means[98].max() < 0.885  # by position alone
    above: Any = (by_trial[10] > 0.952).groupby(level="scheme").sum()
    assert (above[above > 5].to_dict(), set(above.index[above == 8])) == (
        {"FoX": 6, best: 8},
        {best},
    )
    assert (abs(by_trial.loc["FoX"][10].nsmallest(2) - 0.5) < 0.01).all()
    (label, seed), top = by_trial[80].idxmax(), by_trial[80].max()
    assert top < LEARNED
    assert seed == 0  # as in the sweep
    assert f"The best trial, {label}'s with {top:.1%}," in TEXT
    assert f"(stick-breaking's best has {by_trial.loc[best][80].max():.1%})" in TEXT


def test_recall_accuracies() -> None:
    """By distance: 1 to 29 occur in training, where a trial has learned the task or not."""
    recall = scores("recall").query("measure == 'recall'")
    label = named(recall)
    ((_, rows),) = rows_of_table("recall accuracy ")
    assert {row[0] for row in rows} == {*label}
    far: dict[str, float] = {}
    learned: dict[str, int] = {}
    for name, rate, solved, inside, *past in rows:
        own = recall[label == name]
        by_trial: Any = own.pivot_table(index="seed", columns="x", values="value")
        assert [rate] == [f"{each:g}" for each in own["learning_rate"].unique()], name
        assert past == [percents(by_trial[x]) if x in by_trial else "" for x in (63, 127, 511)], (
            name
        )
        if 511 in by_trial:
            far[name] = by_trial[511].mean()
        if name not in {*recall["scheme"]}:  # a scaling of models that stand above
            assert (solved, inside) == ("", "")
            continue
        near = by_trial[[x for x in by_trial if x <= 29]].mean(axis=1)
        learned[name] = int((near >= LEARNED).sum())
        assert (solved, inside) == (f"{learned[name]} of {len(near)}", percents(near)), name
    always = [name for name, number in learned.items() if number == 3]
    never = [name for name, number in learned.items() if number == 0]
    assert (
        f"{NUMBERS[len(always)]} schemes learn the task in every trial, and {never[0]} in none"
        in TEXT
    )
    assert len(never) == 1
    assert {name: number for name, number in learned.items() if 0 < number < 3} == {
        "NoPE": 2, "FoX": 2, "Sinusoidal": 1,
    }  # fmt: skip
    swept = sweep_losses("recall").query("scheme == 'PoPE'")
    assert swept["loss"].min() > 1  # nats: no rate learned it
    keep = [name for name in always if far.get(name, 0) > 0.97]
    ((_, by_depth),) = rows_of_table("recall in 512 tokens ")
    assert [row[0] for row in by_depth] == [*keep, "ALiBi", "RoPE"]
    for name, *accuracies in by_depth:
        for depth, accuracy in zip((0, 25, 50, 75, 100), accuracies, strict=True):
            asked = scores("recall").query(f"measure == 'recall at depth {depth}%' and x == 512")
            own = asked[(asked["scheme"] == name) & (asked["variant"] == "as trained")]
            assert len(own) == 3
            assert accuracy == f"{own['value'].mean():.0%}", (name, depth)
    kept = ", ".join(keep[:-1]) + " and " + keep[-1].lower()
    assert f"always learn it, {kept} recall at the distance 511" in TEXT
    # 25% is guessing
    assert {name for name, accuracy in far.items() if name in learned and accuracy < 0.25} == {
        "RoPE", "Sinusoidal", "SSMax on RoPE", "PoPE",
    }  # fmt: skip
    of_nope = recall[(recall["scheme"] == "NoPE") & (recall["x"] <= 29)].groupby("seed")["value"]
    assert f"lie at {100 * of_nope.mean().min():.0f} to {of_nope.mean().max():.0%}" in TEXT
    of_sinusoidal = recall[(label == "Sinusoidal") & (recall["x"] <= 29)].groupby("seed")["value"]
    assert of_sinusoidal.mean().idxmax() == 0  # the trial of the sweep
    assert f"with NTK-aware frequencies RoPE keeps {far['RoPE, NTK-aware']:.0%}" in TEXT
    of_fox = recall[(label == "FoX") & (recall["x"] == 511)]["value"]
    assert [f"{value:.0%}" for value in of_fox.nlargest(2)] == ["100%", "100%"]
    lowest, highest = (
        f"{100 * each(far[name] for name in always if name in far):.0f}" for each in (min, max)
    )
    assert f"far apart at 511 ({lowest} to {highest}% of those that learned it)" in TEXT


def test_counts_of_the_runs_that_ship() -> None:
    of_protocol = pd.read_csv(RESULTS / "protocol.csv").query("stage == 'table'")["run_id"]
    assert of_protocol.is_unique
    assert f"- {len(of_protocol)} of [the protocol]" in TEXT
    on_code, on_prose = (scores(part)["scheme"].nunique() for part in PARTS)
    assert on_prose == 8
    assert f"five trials of {on_code} schemes on code and of eight on English prose" in TEXT
    assert f"five trials of each of {on_code} schemes" in TEXT
    assert len([*RESULTS.glob("*.parquet")]) - len(of_protocol) == 1
    assert "- One other, at 128 tokens and one learning rate, whose learned table" in TEXT
    for part, schemes, told in (
        ("recall", 15, "three trials of fifteen schemes on recall and of five on copying"),
        ("copy", 5, "three trials of fifteen schemes on recall and of five on copying"),
        ("flip_flop", 14, "eight trials of fourteen schemes on flip-flop"),
    ):
        trials = scores(part).groupby("scheme")["seed"].nunique()
        assert len(trials) == schemes
        assert [*trials.unique()] == [8 if part == "flip_flop" else 3]
        assert told in TEXT


@pytest.mark.parametrize("part", PARTS)
def test_losses_by_context(part: str) -> None:
    """Means over the trials; differences from RoPE within pairs of trials, with Holm's correction."""
    means = losses_by_context(part)
    head, rows = rows_of_table(r"scheme \| trials ")[PARTS.index(part)]
    lengths = [int(cell.replace(",", "").removesuffix(" tokens")) for cell in cells(head)[1:]]
    assert {row[0] for row in rows} == {*means.index}
    shown: dict[tuple[str, int], str] = {}
    gaps: dict[tuple[str, int], Any] = {}
    for label, trials, _, *numbers in rows:
        assert int(trials) == means.loc[label].dropna().groupby(level="x").size().unique()
        for x, number in zip(lengths, numbers, strict=True):
            own = means.loc[label][x]
            if own.isna().all():
                assert number == "", (label, x)
                continue
            assert number.split()[0] == f"{own.mean():.3f}", (label, x)
            if label != "RoPE":
                shown[label, x] = number.partition(" ")[2].strip("()")
                gaps[label, x] = own - means.loc["RoPE"][x]
    stars = starred(gaps)
    for key, gap in gaps.items():
        mean, low, high = interval(gap)
        star = "*" if key in stars else ""
        assert shown[key] == f"{mean:+.3f}, {low:+.3f} to {high:+.3f}{star}", key
    assert f"Holm's correction for {len(gaps)} differences" in TEXT


def test_readme_sentences_about_losses_on_code() -> None:
    means = losses_by_context("code")
    losses = scores("code").query("measure == 'context'")
    gain, low, high = interval(means.loc["Sinusoidal"][64] - means.loc["Learned"][64])
    assert (
        f"Learned is below sinusoidal by {gain:.3f} nats (95% interval {low:.3f} to {high:.3f}"
        in TEXT
    )
    at_64 = means.xs(64, axis=1, level="x").dropna()
    assert at_64.mean(axis=1).idxmin() == "Shaw"
    gaps = {label: interval(own - at_64.loc["RoPE"]) for label, own in at_64.iterrows()}
    del gaps["RoPE"]
    alike = [label for label, (_, low, high) in gaps.items() if low <= 0 <= high]
    alike.sort(key=lambda label: gaps[label][0])
    assert (
        f"Shaw has the lowest mean at the training length, {at_64.mean(axis=1).min():.3f}. The differences "
        f"from RoPE of {listed(alike)} may be 0" in TEXT
    )
    assert all(low > 0 for label, (_, low, _) in gaps.items() if label not in alike)
    fall, rise = (
        interval(sign * (means.loc["SSMax"][x] - means.loc["NoPE"][x]))
        for sign, x in ((-1, 64), (1, 1024))
    )
    cut = interval(means.loc["Shaw"][64] - means.loc["Stick-breaking"][96])
    tie = interval(means.loc["Shaw"][64] - means.loc["Stick-breaking"][64])
    sandwich = interval(means.loc["Sandwich"][1024] - means.loc["Sandwich"][64])
    for fact in (
        "by {:.3f} nats at 64 tokens (95% interval of pairs {:.3f} to {:.3f})".format(*fall),
        "above it by {:.3f} at 1,024 ({:.3f} to {:.3f})".format(*rise),
        "is not told from it (difference {:.3f}, {:.3f} to {:+.3f})".format(*cut),
        "Shaw minus stick-breaking is {:.3f} nats ({:.3f} to {:+.3f})".format(*tie),
        "*holds* with {:.3f}, and its interval reaches from {:.3f} to {:.3f}".format(*sandwich),
    ):
        assert fact in TEXT, fact
    assert f"NoPE is lower at 32 tokens, {means.loc['NoPE'][32].mean():.3f})" in TEXT
    assert abs((means.loc["PoPE"] - means.loc["RoPE"])[64].mean()) > 2 * 0.005  # of the rerun
    rates = losses.groupby("scheme")["learning_rate"].first()
    highest = {"Sinusoidal", "ALiBi", "Sandwich", "SSMax", "SSMax on RoPE"}
    assert {*rates[rates == rates.max()].index} == highest
    swept: Any = sweep_losses("code").pivot_table(
        index="scheme", columns="learning_rate", values="loss"
    )
    by_factor: Any = sweep_losses("code").pivot_table(
        index=["scheme", "scheme_rate"], columns="learning_rate", values="loss"
    )
    rates_of_both = [rate for rate in by_factor if rate <= 8e-3]
    plain, tenfold = (by_factor.loc["Learned", factor][rates_of_both] for factor in (1, 10))
    assert (plain > by_factor.loc["Sinusoidal", 1][rates_of_both]).all()
    assert tenfold.min() < by_factor.loc["Sinusoidal", 1].min()
    of_t5 = by_factor.loc["T5 bias"].min(axis=1)
    assert (
        f"lowest mean loss is {of_t5[10]:.3f} with that factor and {of_t5[1]:.3f} without" in TEXT
    )
    twice, chosen = (swept.loc[["Sinusoidal", "ALiBi"], rate] for rate in (1.6e-2, 8e-3))
    both = [" and ".join(f"{loss:.3f}" for loss in each) for each in (twice, chosen)]
    higher = sweep_losses("code").query("learning_rate > 8e-3")["scheme"]
    assert highest & {*higher} == {"Sinusoidal", "ALiBi"}
    assert f"in the sweep are {both[0]}, and at the chosen rate {both[1]}:" in TEXT


def listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]


@pytest.mark.parametrize("part", PARTS)
def test_no_scheme_uses_longer_text_and_few_hold(part: str) -> None:
    means = losses_by_context(part)
    at = {label: means.loc[label].groupby(level="x").mean() for label in means.index}
    longer = {label: own[[x for x in own.index if x > 64]] for label, own in at.items()}
    trained = {label: own[64] for label, own in at.items() if 64 in own.dropna()}
    lowest = min(trained, key=lambda label: trained[label])
    assert trained[lowest] < min(own.min() for own in longer.values())  # that model cut to 64
    cut = f"{lowest} that sees only the last 64 tokens has a mean of {trained[lowest]:.3f}, and no mean"
    assert f"{cut} past 64 is lower" in TEXT
    changes = {label: own - trained[label.partition(",")[0]] for label, own in longer.items()}
    breaking = changes.pop("Stick-breaking", None)
    assert min(own.min() for own in changes.values()) > -0.0001
    if breaking is not None:
        changes["Stick-breaking"] = breaking
        assert breaking.idxmin() == 96
        assert f"stick-breaking's mean loss falls by {-breaking.min():.4f} nats at 96" in TEXT
    by_trial: Any = means.stack("seed", future_stack=True)
    own_loss = by_trial[64].dropna()
    falls = by_trial[[x for x in by_trial if x > 64]].min(axis=1) - own_loss
    if part == "code":
        assert falls.idxmin()[0] == "Stick-breaking"
        assert f"(a single model's by at most {-falls.min():.4f})" in TEXT
    else:
        assert falls.min() > -0.0001
    assert abs(changes["FoX"]).max() < 0.0001
    holds = [label for label, own in changes.items() if own.max() <= 0.049]
    holds.sort(key=lambda label: changes[label][1024])
    rises = listed(
        [with_interval(means.loc[label][1024] - means.loc[label][64]) for label in holds]
    )
    assert (
        f"{listed(holds)} hold: from 64 to 1,024 tokens their losses rise by {rises} nats" in TEXT
    )
    degrades = [label for label, own in changes.items() if 0.049 < own.max() <= 0.095]
    assert degrades == {"code": ["Shaw"], "prose": []}[part]
    assert longer["Learned"].isna().all()
    if part == "code":
        rise = with_interval(means.loc["Shaw"][1024] - means.loc["Shaw"][64])
        assert f"Shaw degrades by {rise}." in TEXT
        above = with_interval(means.loc["RoPE, NTK-aware"][128] - means.loc["RoPE"][64])
        assert f"sees 128 tokens is {above} nats above RoPE that sees only the last 64." in TEXT


def test_readme_sentences_about_losses_on_prose() -> None:
    prose, code = (losses_by_context(part) for part in ("prose", "code"))
    orders = [
        [*means.xs(64, axis=1, level="x").mean(axis=1).dropna().sort_values().index]
        for means in (code.loc[prose.index], prose)
    ]
    place = orders[0].index("Sinusoidal")
    orders[0][place : place + 2] = reversed(orders[0][place : place + 2])
    assert orders[0] == orders[1]
    assert orders[1][place] == "ALiBi"
    lower, low, high = interval(prose.loc["Sinusoidal"][64] - prose.loc["ALiBi"][64])
    assert (
        f"ALiBi is lower by {lower:.3f} nats here (95% interval {low:+.3f} to {high:+.3f}) and higher by "
        "{:.3f} on code ({:.3f} to {:.3f})".format(
            *interval(code.loc["ALiBi"][64] - code.loc["Sinusoidal"][64])
        )
        in TEXT
    )
    gap = interval(prose.loc["Sinusoidal"][64] - prose.loc["Learned"][64])
    assert "Learned is below sinusoidal by {:.3f} ({:.3f} to {:.3f}).".format(*gap) in TEXT
    rates = {part: scores(part).groupby("scheme")["learning_rate"].unique() for part in PARTS}
    assert all((rates["prose"][kind] == rates["code"][kind]).all() for kind in rates["prose"].index)


def fine_tuned_scores() -> pd.DataFrame:
    """The losses by context of the fine-tuned models; texts: the length of their texts in fine-tuning."""
    parts = ("fine_tuned", "tuned_rope", "dropped")
    tuned = pd.concat([scores(part) for part in parts]).query("measure == 'context'")
    texts = {run: specification(run)["fine_tuning"]["length"] for run in tuned["run_id"].unique()}
    return tuned.assign(texts=tuned["run_id"].map(texts))


def test_losses_after_fine_tuning() -> None:
    """By context, the mean of five trials, their lowest and highest."""
    tuned = fine_tuned_scores().query("variant == 'as trained'")
    ((head, rows),) = rows_of_table("fine-tuned from RoPE ")
    lengths = [int(cell.replace(",", "")) for cell in cells(head)[1:]]
    at: dict[tuple[str, int], dict[int, float]] = {}
    for name, texts, *losses in rows:
        label = name.removesuffix(" (DroPE)")
        key = label, int(texts.replace(",", ""))
        own = tuned[(tuned["scheme"] == label) & (tuned["texts"] == key[1])]
        by_trial: Any = own.pivot_table(index="seed", columns="x", values="value")
        assert len(by_trial) == 5
        at[key] = by_trial.mean().to_dict()
        for x, shown in zip(lengths, losses, strict=True):
            low, high = by_trial[x].min(), by_trial[x].max()
            assert shown == f"{by_trial[x].mean():.3f} ({low:.3f} to {high:.3f})", (key, x)
    assert {*at} == {*zip(tuned["scheme"], tuned["texts"], strict=True)}
    code: Any = scores("code").query("measure == 'context'").pivot_table(
        index=["scheme", "variant"], columns="x", values="value"
    )  # fmt: skip
    before = code.loc["RoPE", "as trained"][64]
    assert f"before, RoPE has {before:.3f} at 64 tokens" in TEXT
    yarn, llama, ntk, linear = (
        f"RoPE {name}" for name in ("YaRN", "Llama 3", "NTK-aware", "linear")
    )
    ends = {
        kind: [at[kind, x][x] for x in (256, 1024)] for kind in ("RoPE", yarn, llama, ntk, linear)
    }
    by_trial = tuned.pivot_table(index=["scheme", "texts", "seed"], columns="x", values="value")

    def rise(kind: str) -> str:
        """The rise from 64 tokens to the length of fine-tuning, for both lengths."""
        own = [by_trial.loc[kind, texts] for texts in (256, 1024)]
        return " and ".join(
            with_interval(each[x] - each[64]) for each, x in zip(own, (256, 1024), strict=True)
        )

    no_position: Any = scores("code").query("scheme == 'NoPE' and measure == 'context' and x == 64")
    dropped = by_trial.loc["NoPE", 64][64] - no_position.set_index("seed")["value"]
    untuned = code.loc["RoPE", "as trained"]
    two = "{:.3f} and {:.3f}".format
    for fact in (
        f"RoPE has {ends['RoPE'][0]:.3f} at 256 tokens after texts of 256, and {ends['RoPE'][1]:.3f} at "
        f"1,024 after texts of 1,024; before, {two(untuned[256], untuned[1024])}.",
        f"(RoPE linear) is above it, with {two(*ends[linear])};",
        f"position interpolation, at a loss of {ends[linear][1]:.2f}.",
        f"rises by {rise(yarn)} nats with YaRN, {rise(llama)} with Llama 3's scaling, {rise(ntk)} with "
        f"NTK-aware, {rise(linear)} with position interpolation and {rise('RoPE')} without a scaling.",
        f"The difference in the same trials is {with_interval(dropped)}.",
        f"RoPE has {at['NoPE', 64][64]:.3f} at 64 tokens after these steps; NoPE from the start has "
        f"{code.loc['NoPE', 'as trained'][64]:.3f}",
        f"the same steps on texts of 64 tokens give {at['RoPE', 64][64]:.3f} there",
    ):
        assert fact in TEXT, fact
    for (_, length), by_x in at.items():
        assert min(loss - by_x[64] for x, loss in by_x.items() if 64 <= x <= length) > -0.002
    costs = {
        texts: sorted(at[name, texts][64] - at["RoPE", 64][64] for name in (yarn, llama, ntk))
        for texts in (256, 1024)
    }
    near, far = (f"{each[0]:.3f} to {each[-1]:.3f}" for each in costs.values())
    steps, halved = (
        [at[name, texts][64] - at["RoPE", 64][64] for texts in (256, 1024)]
        for name in ("RoPE", linear)
    )
    assert (
        f"are {near} above that, RoPE without a scaling {steps[0]:.3f} and with position interpolation "
        f"{halved[0]:.3f}; after texts of 1,024 tokens {far}, {steps[1]:.3f} and {halved[1]:.3f}."
        in TEXT
    )
    small = [
        at[kind, x][x] - at[kind, x][64] for kind in (yarn, llama, linear) for x in (256, 1024)
    ]
    assert max(small) < 0.0225
    later: Any = fine_tuned_scores().query("variant == 'NTK-aware' and x == 1024 and texts == 256")
    ways = [by_x[1024] for (name, texts), by_x in at.items() if texts == 256]
    assert later["value"].mean() < min(ways)
    assert f"frequencies, has {later['value'].mean():.3f} at 1,024 tokens" in TEXT


def test_differences_from_rope_with_the_same_steps() -> None:
    """Of the same trial: from RoPE on texts of that length, and from RoPE whose text is cut to 64."""
    tuned: Any = fine_tuned_scores().query("variant == 'as trained'").pivot_table(
        index=["scheme", "texts", "seed"], columns="x", values="value"
    )  # fmt: skip

    def below(scheme: str) -> list[str]:
        pairs = [tuned.loc["RoPE", x][x] - tuned.loc[scheme, x][x] for x in (256, 1024)]
        return ["{:.3f} ({:.3f} to {:.3f})".format(*interval(gaps)) for gaps in pairs]

    def above(scheme: str) -> list[str]:
        pairs = [tuned.loc[scheme, x][x] - tuned.loc["RoPE", 64][64] for x in (256, 1024)]
        return ["{:.3f} ({:.3f} to {:.3f})".format(*interval(gaps)) for gaps in pairs]

    yarn, llama, ntk = "RoPE YaRN", "RoPE Llama 3", "RoPE NTK-aware"
    for fact in (
        "YaRN is below that by {} and {}, ".format(*below(yarn)),
        "Llama 3's scaling by {} and {}, ".format(*below(llama)),
        "NTK-aware by {} and {}.".format(*below(ntk)),
        "YaRN is above that by {} at 256 tokens and {} at 1,024, ".format(*above(yarn)),
        "Llama 3's scaling by {} and {}.".format(*above(llama)),
    ):
        assert fact in TEXT.replace("(95% interval ", "("), fact


def test_corrected_differences_from_rope_with_the_same_steps() -> None:
    """Of every fine-tuned model at three lengths, and of RoPE after its steps from before them."""
    lengths = (64, 256, 1024)
    code = scores("code").query("scheme == 'RoPE' and variant == 'as trained'")
    before: Any = code.query("measure == 'context'").set_index(["x", "seed"])["value"].sort_index()
    gaps: dict[tuple[str, int, str, int], Any] = {}
    names = ["scheme", "texts", "variant", "x", "seed"]
    tuned: Any = fine_tuned_scores().set_index(names)["value"].sort_index()
    for scheme, texts, variant, x in sorted({key[:-1] for key in tuned.index if key[3] in lengths}):
        of_control = (scheme, variant) == ("RoPE", "as trained")
        base = before.loc[x] if of_control else tuned.loc["RoPE", texts, "as trained", x]
        gaps[scheme, texts, variant, x] = tuned.loc[scheme, texts, variant, x] - base
    stars = starred(gaps)
    scalings = ("RoPE YaRN", "RoPE Llama 3", "RoPE NTK-aware")
    without = {
        (name, x)
        for name in scalings
        for x in (256, 1024)
        if (name, x, "as trained", x) not in stars
    }
    assert without == {("RoPE NTK-aware", 256)}
    assert f"with Holm's correction for {len(gaps)}. Of the first item below, all but" in TEXT


def test_gain_of_the_second_128_tokens_for_the_models_trained_on_256() -> None:
    whole = scores("whole").query("measure == 'context' and variant == 'as trained'")
    by_trial: Any = whole.pivot_table(index=["scheme", "seed"], columns="x", values="value")
    (rope, *of_rope), (alibi, *of_alibi) = (
        interval(by_trial.loc[scheme][128] - by_trial.loc[scheme][256])
        for scheme in ("RoPE", "ALiBi")
    )
    assert (
        f"RoPE gains {rope:.4f} from the second 128 (95% interval of three trials {of_rope[0]:.4f} to "
        f"{of_rope[1]:+.4f}), ALiBi {alibi:.4f} ({of_alibi[0]:.4f} to {of_alibi[1]:+.4f})" in TEXT
    )


def test_gain_of_the_second_64_tokens_for_the_model_trained_on_128() -> None:
    losses = scores("double").query("measure == 'context' and variant == 'as trained'")
    at = losses.set_index("x")["value"]
    assert f"gains {at[64] - at[128]:.3f} nats from the second 64" in TEXT


def losses_by_steps() -> Any:
    """The loss of the trials 0 and 1 by context: a row for each scheme and number of steps."""
    losses = pd.concat([scores("code"), scores("steps")]).query(
        "measure == 'context' and variant == 'as trained' and seed < 2"
    )
    made = {run: specification(run)["steps"] for run in losses["run_id"].unique()}
    losses = losses[losses["scheme"].isin(scores("steps")["scheme"].unique())]
    return losses.assign(steps=losses["run_id"].map(made)).pivot_table(
        index=["scheme", "steps"], columns=["x", "seed"], values="value"
    )


def test_losses_by_steps_of_training() -> None:
    """At the training length and at 16 times it, the mean of two trials and both."""
    losses = losses_by_steps()
    ((head, rows),) = rows_of_table("loss by steps ")
    steps = [int(cell.replace(",", "")) for cell in cells(head)[1:]]
    assert steps == sorted({steps for _, steps in losses.index}) == [300, 600, 1200, 2400]
    assert {row[0] for row in rows} == {name for name, _ in losses.index}
    for name, x, *shown in rows:
        for number, cell in zip(steps, shown, strict=True):
            own = losses.loc[name, number][int(x.replace(",", ""))]
            assert len(own) == 2
            assert cell == f"{own.mean():.3f} ({own.min():.3f}, {own.max():.3f})", (name, number, x)


def test_readme_sentences_about_steps_of_training() -> None:
    """Which losses rise with the steps past the training length, and by how much ALiBi and NoPE differ."""
    losses = losses_by_steps()
    past: Any = losses[1024].unstack("steps")
    rise = past.xs(2400, axis=1, level="steps") - past.xs(300, axis=1, level="steps")
    means = rise.mean(axis=1)
    rising = {name for name in means.index if (rise.loc[name] > 0).all()}
    assert rising == {"Sinusoidal", "NoPE", "RNoPE", "RoPE"}
    assert (
        f"{means['Sinusoidal']:.2f} nats with sinusoidal, {means['NoPE']:.2f} with NoPE, "
        f"{means['RNoPE']:.2f} with RNoPE and {means['RoPE']:.2f} with RoPE" in TEXT
    )
    fallen, risen = sorted(rise.loc["PoPE"])
    assert f"PoPE rises by {risen:.2f} in one trial and falls by {-fallen:.3f} in the other" in TEXT

    of_trials: Any = losses[64].unstack("steps")
    for trial in (0, 1):  # each number of steps is below the one before
        assert (of_trials[trial].diff(axis=1).iloc[:, 1:] < 0).all(axis=None)
    near: Any = losses[64].mean(axis=1).unstack("steps")
    higher = past.T.groupby("steps").mean().T.loc["ALiBi"] - near.loc["ALiBi"]
    assert f"it is {higher.min():.3f} to {higher.max():.3f} nats higher there" in TEXT
    assert [*(near.loc["ALiBi"] < near.loc["Sinusoidal"])] == [True, False, False, False]
    apart = (near.loc["RoPE"] - near.loc["PoPE"]).abs().max()
    assert f"stay within {apart:.3f} nats of each other" in TEXT
    fall = near[1200] - near[2400]
    assert (
        f"NoPE falls by {fall['NoPE']:.3f} nats, ALiBi by {fall['ALiBi']:.3f} and RoPE by "
        f"{fall['RoPE']:.3f}" in TEXT
    )
    intervals = {name: interval(rise.loc[name]) for name in rising}
    assert {name for name, (_, low, high) in intervals.items() if low > 0} == {"RoPE"}
    assert "excludes 0 for RoPE ({:.2f} to {:.2f})".format(*intervals["RoPE"][1:]) in TEXT
    agreeing = (rise > 0).all(axis=1) | (rise < 0).all(axis=1)
    assert (agreeing.sum(), len(agreeing)) == (5, 6)


def test_spread_by_seeds_of_the_weights_and_of_the_data() -> None:
    """Three seeds of each, by the mean squares of a table with two ways and one value in a cell."""
    losses = pd.concat([scores("code"), scores("seeds")]).query(
        "measure == 'context' and variant == 'as trained' and seed < 3 and data_seed < 3"
    )
    of_rope = losses[losses["scheme"] == "RoPE"].groupby("x")["value"].std()
    assert (
        f"a standard deviation of {of_rope[64]:.3f} nats at 64 tokens, {of_rope[128]:.3f} at 128 and "
        f"{of_rope[1024]:.3f} at 1,024" in TEXT
    )
    loss = losses[losses["x"] == 64]
    ((_, rows),) = rows_of_table("spread of the loss ")
    assert {row[0] for row in rows} == {*scores("seeds")["scheme"]}
    for name, *shown in rows:
        own = loss[loss["scheme"] == name]
        assert len(own) == len({*zip(own["seed"], own["data_seed"], strict=True)}) == 9
        cells_of: Any = own.pivot_table(index="seed", columns="data_seed", values="value")
        grand = cells_of.to_numpy().mean()
        of_weights, of_data = cells_of.mean(axis=1), cells_of.mean(axis=0)
        fitted = of_weights.to_numpy()[:, None] + of_data.to_numpy()[None] - grand
        rest = ((cells_of.to_numpy() - fitted) ** 2).sum() / 4
        mean_squares = 3 * of_weights.var(), 3 * of_data.var()
        parts = [max(0.0, (each - rest) / 3) ** 0.5 for each in mean_squares]
        assert shown == [f"{each:.3f}" for each in (*parts, rest**0.5)], name


def test_differences_between_seven_runs_and_their_reruns_on_another_processor() -> None:
    """Largest differences of scores between the files in reruns and those that ship, in nats and points."""
    again = [
        pd.read_parquet(path)
        .merge(pd.read_parquet(RESULTS / path.name), on=["measure", "variant", "x"])
        .assign(kind=specification(path.stem)["scheme"]["kind"])
        for path in RERUNS.glob("*.parquet")
    ]
    both = pd.concat(again)
    both["gap"] = (both["value_x"] - both["value_y"]).abs()
    text = both[both["measure"] == "context"]
    assert {*text["kind"]} == {"rope"}
    plain = text[text["variant"] == "as trained"]
    near, far = (plain[rows]["gap"].max() for rows in (plain["x"] == 64, plain["x"] > 64))
    others = text.groupby("variant")["gap"].max()
    assert others.idxmax() == "position interpolation"
    assert (
        f"differs by {near:.3f} nats at 64 tokens and up to {far:.3f} past them, with position "
        f"interpolation up to {others.max():.3f}." in TEXT
    )
    recall = both[both["measure"] == "recall"]
    assert {*recall["kind"]} == {"rope", "alibi", "learned"}
    near, far = (100 * recall[rows]["gap"].max() for rows in (recall["x"] <= 29, recall["x"] > 29))
    assert f"by up to {far:.3g} percentage points there" in Recall.about
    by_depth = 100 * both[both["measure"].str.startswith("recall at depth")]["gap"].max()
    assert (
        f"differ by up to {near:.3g} points at trained distances and {far:.3g} past them, and by up to "
        f"{by_depth:.3g} points by depth in 512 tokens" in TEXT
    )
    copied = both[both["measure"] == "copy"]
    assert {*copied["kind"]} == {"learned", "sinusoidal", "alibi"}
    near, far = (100 * copied[rows]["gap"].max() for rows in (copied["x"] <= 20, copied["x"] > 20))
    assert f"by up to {near:.3g} points at trained lengths and {far:.3g} past them." in TEXT
    assert "Seven runs of the protocol with the seed 0 were made again" in TEXT
    assert len(again) == 7


def test_copying_accuracies() -> None:
    """Of whole strings of 10 to 30 letters; up to 20 occur in training."""
    copied = scores("copy").query("measure == 'copy'")
    label = named(copied)
    ((head, rows),) = rows_of_table("copying accuracy ")
    lengths = [int(cell) for cell in cells(head)[2:]]
    assert {row[0] for row in rows} == {*label}
    means: dict[str, Any] = {}
    learned: dict[str, int] = {}
    for name, rate, solved, *accuracies in rows:
        own = copied[label == name]
        by_trial: Any = own.pivot_table(index="seed", columns="x", values="value")
        assert len(by_trial) == 3
        means[name] = by_trial.mean()
        assert [rate] == [f"{each:g}" for each in own["learning_rate"].unique()], name
        assert accuracies == [percents(by_trial[x]) if x in by_trial else "" for x in lengths], name
        if 20 in by_trial:
            learned[name] = int((by_trial[20] >= LEARNED).sum())
            assert solved == f"{learned[name]} of 3", name
        else:  # a model that stands above, read in another way
            assert solved == "", name
    assert learned == {"NoPE": 0, "Learned": 0, "Sinusoidal": 0, "RoPE": 3, "ALiBi": 2}
    rope, alibi, none, linear = (
        means[name] for name in ("RoPE", "ALiBi", "NoPE", "RoPE, position interpolation")
    )
    for fact in (
        f"RoPE copies {rope[20]:.0%} of the strings of 20 letters and ALiBi {alibi[20]:.0%};",
        f"at 22 letters ALiBi copies {alibi[22]:.0%}, NoPE {none[22]:.0%} and RoPE {rope[22]:.0%}, and at "
        f"24 NoPE has the highest mean of the five, {none[24]:.0%}.",
        f"RoPE copies {linear[22]:.0%} at 22 and {linear[24]:.0%} at 24.",
    ):
        assert fact in TEXT, fact
    assert means["Sinusoidal"][21] < 0.005
    assert none[24] == max(means[name].get(24, 0) for name in learned)
    assert max(own.get(40, 0) for own in means.values()) == 0


def test_results_and_models_that_ship_stay_under_eight_megabytes() -> None:
    folders = RESULTS, RESULTS.parent / "weights"
    assert all(folder.is_dir() for folder in folders)
    assert sum(file.stat().st_size for folder in folders for file in folder.rglob("*")) < 8_000_000


@pytest.mark.parametrize("part", PARTS)
def test_tables_of_losses_are_what_the_command_prints(part: str) -> None:
    """Its notes, too: what past training is called, the rates, and the differences that can be found."""
    name = {"code": "language-64-8c2dbbee", "prose": "language-64-c6dc1465"}[part]
    words = ["runs", "--store", "shipped", "--table", "markdown", "--comparison", name]
    printed = CliRunner().invoke(main, words).output.strip()
    assert printed in README
    assert f"--comparison {name}`" in TEXT
