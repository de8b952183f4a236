"""Curves over several seeds with their band, and the classes of longer context, worked by hand."""

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest

from posenc.lab import Curve, Run, Score, curves, effect, first_degraded_length
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.specification import Trial
from posenc.lab.summary import (
    DEGRADED,
    HELD,
    Effect,
    Point,
    apart_from_steps,
    at_training_length,
    bits_per_byte,
    by_steps,
    comparison,
    difference,
    in_range,
    judged,
    judgement,
    learned,
    lowest,
    perplexity,
    reach,
    solve_rate,
)
from tests.dashboard.shipped_runs import shipped_runs
from tests.lab.small_runs import small_spec


def run_of(kind: str, seed: int, *scores: Score, **others: Any) -> Run:
    return Run(replace(small_spec(kind, **others), seed=seed), None, 1.0, scores, (1.0,))


def context(x: int, value: float, variant: str = TRAINED) -> Score:
    return Score("context", variant, x, value, 8)


def curve_of(measure: str = "context", **losses: float) -> Curve:
    """Return a curve of a model trained on 16 tokens; at16=2.0 is its value at 16."""
    values = {int(name.removeprefix("at")): value for name, value in losses.items()}
    points = tuple(Point(x, 0, value, value, value) for x, value in sorted(values.items()))
    return Curve(small_spec(), measure, TRAINED, 1, points)


def trials(*values: float) -> tuple[tuple[Trial, float], ...]:
    """Return a value for each trial whose data have the seed of the weights: 0, 1, ..."""
    return tuple((Trial(seed, seed), value) for seed, value in enumerate(values))


def test_curve_is_the_mean_of_its_seeds_with_the_lowest_and_highest() -> None:
    runs = [
        run_of("rope", 0, context(16, 1.0), context(32, 5.0)),
        run_of("rope", 2, context(32, 2.0), context(16, 1.5)),
        run_of("rope", 1, context(16, 3.5), context(32, 2.0), Score("position", TRAINED, 16, 9.0, 8)),
    ]  # fmt: skip
    (found,) = curves(runs, "context")
    assert found.points == (
        Point(16, 0, 2.0, 1.0, 3.5, trials(1.0, 3.5, 1.5)),
        Point(32, 0, 3.0, 2.0, 5.0, trials(5.0, 2.0, 2.0)),
    )
    assert (found.seeds, found.measure, found.variant) == (3, "context", TRAINED)
    assert found.specification == runs[0].specification
    assert (found.at(32), found.at(33)) == (3.0, None)
    assert curves([], "context") == curves([run_of("rope", 0)], "context") == []
    # Runs that differ in more than the seed are curves of their own.
    others = [run_of("rope", 0, context(16, 1.0), steps=13)]
    others += [run_of("alibi", 0, context(16, 1.0), context(16, 1.0, "stretched"))]
    found_now = curves(runs + others, "context")
    assert [one.seeds for one in found_now] == [3, 1, 1, 1]
    assert found_now[-1].variant == "stretched"


def test_other_reading_is_compared_with_the_scheme_as_trained() -> None:
    run = run_of("learned", 0, context(16, 1.25), context(32, 3.0, CLAMPED))
    found = curves([run], "context")
    assert [at_training_length(one, found) for one in found] == [1.25, 1.25]
    assert at_training_length(found[1], found[1:]) is None


def test_length_where_loss_turns_up_is_the_first_past_a_tenth_more_perplexity() -> None:
    assert pytest.approx(math.exp(DEGRADED)) == 1.1
    at = 2.0
    just, over = at + DEGRADED, math.nextafter(at + DEGRADED, math.inf)
    assert first_degraded_length(curve_of(at16=at, at32=just, at64=just), at) is None
    assert first_degraded_length(curve_of(at16=at, at32=just, at64=over), at) == 64
    assert first_degraded_length(curve_of(at16=at, at32=9.0, at64=1.0), at) == 32
    assert (
        first_degraded_length(curve_of(at8=9.0, at16=at, at32=1.0), at) is None
    )  # shorter than training
    assert first_degraded_length(curve_of(at16=at, at32=math.nan), at) == 32


def test_effect_is_that_of_the_worst_longer_length() -> None:
    assert pytest.approx(math.exp(HELD)) == 1.05
    little, much = math.nextafter(HELD, math.inf), math.nextafter(DEGRADED, math.inf)
    for worst, expected in (
        (-5.0, Effect.HOLDS), (HELD, Effect.HOLDS), (little, Effect.DEGRADES),
        (DEGRADED, Effect.DEGRADES), (much, Effect.BREAKS), (math.nan, Effect.BREAKS),
        (math.inf, Effect.BREAKS),
    ):  # fmt: skip
        assert effect(curve_of(at16=0.0, at32=-5.0, at64=worst), 0.0) is expected, worst
        assert effect(curve_of(at16=0.0, at32=worst, at64=-5.0), 0.0) is expected, worst
    assert effect(curve_of(at8=5.0, at16=0.0), 0.0) is None
    assert effect(curve_of(at8=5.0, at16=0.0, at32=0.0), 0.0) is Effect.HOLDS


def test_longer_context_is_used_where_every_pair_of_trials_says_so() -> None:
    def of(*gains: float) -> Effect | None:
        at = {16: 0.0, 32: 0.0, 64: 1.0}  # the share of the gain at each context
        runs = [
            run_of(
                "rope", seed, *(context(x, 2.0 + seed - share * gain) for x, share in at.items())
            )
            for seed, gain in enumerate(gains)
        ]
        (found,) = curves(runs, "context")
        at_length = found.at(16)
        assert at_length is not None
        return effect(found, at_length)

    assert of(0.1, 0.1, 0.11) is Effect.USES
    assert of(0.011, 0.012, 0.0113) is Effect.USES
    assert of(0.008, 0.009, 0.0085) is Effect.HOLDS  # a difference too small to count
    assert of(0.1) is Effect.HOLDS  # one trial has no interval
    assert of(0.1, -0.05, 0.1) is Effect.HOLDS  # Student's interval of 0.05 holds 0
    assert of(-0.02, -0.02, -0.021) is Effect.HOLDS
    assert of(-0.06, -0.06, -0.061) is Effect.DEGRADES
    assert [each.plural for each in Effect] == ["use more context", "hold", "degrade", "break"]
    assert [each.keeps for each in Effect] == [True, True, False, False]


def test_trials_decide_where_their_interval_is_within_one_class() -> None:
    def of(*changes: float) -> tuple[Effect, ...]:
        runs = [
            run_of("rope", seed, context(16, 2.0), context(32, 2.0 + change), context(64, 2.0))
            for seed, change in enumerate(changes)
        ]
        found = judgement(*curves(runs, "context"))
        assert found is not None
        mean = pytest.approx(statistics.fmean(changes), nan_ok=True)
        assert (found.x, found.change.mean) == (32, mean)
        return found.effects

    # Half of Student's interval of two trials a apart is 6.353 a; of 0.001 that is 0.0064.
    assert of(0.04, 0.041) == (Effect.HOLDS,)
    assert of(0.045, 0.046) == (Effect.HOLDS, Effect.DEGRADES)
    assert of(0.07, 0.071) == (Effect.DEGRADES,)
    assert of(0.09, 0.091) == (Effect.DEGRADES, Effect.BREAKS)
    assert of(0.15, 0.151) == (Effect.BREAKS,)
    assert of(0.05, 0.08) == (Effect.HOLDS, Effect.DEGRADES, Effect.BREAKS)
    assert of(math.nan, 0.0) == (Effect.BREAKS,)
    assert of(0.2) == (Effect.HOLDS, Effect.DEGRADES, Effect.BREAKS)  # one trial decides nothing
    assert judgement(curve_of(at8=1.0, at16=1.0)) is None


def test_change_that_counts_exceeds_what_another_seed_changes() -> None:
    """By the library's own runs: no standard deviation over seeds at the training length exceeds it.

    That of models without a position may, as the comment beside it says.
    """
    losses: dict[tuple[Any, ...], list[float]] = {}
    for run in shipped_runs():
        one = run.specification
        tuned = one.fine_tuning and one.fine_tuning.length
        for score in run.scores:
            if (score.measure, score.variant, score.x) == ("context", TRAINED, one.train_length):
                key = one.scheme.kind, tuned, comparison(one)
                losses.setdefault(key, []).append(score.value)
    assert len(losses) > 15
    spreads = {key: statistics.stdev(values) for key, values in losses.items() if len(values) > 1}
    placed = max(spread for (kind, *_), spread in spreads.items() if kind != "none")
    without = max(spread for (kind, *_), spread in spreads.items() if kind == "none")
    assert placed < HELD
    assert (f"{math.expm1(placed):.1%}", f"{math.expm1(without):.0%}") == ("2.8%", "7%")


def test_uniform_byte_has_eight_bits_and_a_perplexity_of_256() -> None:
    assert bits_per_byte(math.log(256)) == pytest.approx(8.0, rel=1e-15)
    assert (perplexity(math.log(256)), perplexity(1e6)) == (pytest.approx(256), math.inf)


def test_reach_is_the_last_length_before_accuracy_falls_below_the_threshold() -> None:
    assert reach(curve_of("copy", at3=1.0, at4=0.5, at5=0.49, at6=0.9)) == 4
    assert reach(curve_of("copy", at3=1.0, at4=0.9)) == 4
    assert reach(curve_of("copy", at3=0.1, at4=0.9)) is None
    assert reach(curve_of("copy", at3=1.0, at4=math.nan, at5=1.0)) == 3


def of_seeds(kind: str, *losses: float, first: int = 0) -> Curve:
    """Return a curve with one loss per seed at 16 tokens."""
    runs = [run_of(kind, seed, context(16, loss)) for seed, loss in enumerate(losses, start=first)]
    return curves(runs, "context")[0]


def test_difference_is_paired_by_trial_with_student_s_interval() -> None:
    """By hand: -0.02, -0.01, -0.03 has mean -0.02 and deviation 0.01; t of two degrees is 4.3027."""
    one = of_seeds("alibi", 1.00, 1.50, 1.20)
    found = difference(one, of_seeds("rope", 1.02, 1.51, 1.23), 16)
    assert found is not None
    assert found.by_trial == pytest.approx((-0.02, -0.01, -0.03))
    half = 4.302653 * 0.01 / math.sqrt(3)
    by_hand = (-0.02, -0.02 - half, -0.02 + half)
    assert (found.mean, found.low, found.high) == pytest.approx(by_hand, abs=1e-7)
    assert not found.counts  # the interval has 0 in it
    # Only seeds of both count, each with itself.
    shared = difference(one, of_seeds("rope", 9.0, 1.0, first=2), 16)
    assert shared is not None
    assert shared.by_trial == pytest.approx((-7.8,))
    assert difference(one, of_seeds("rope", 9.0, first=7), 16) is None
    assert difference(one, of_seeds("rope", 1.0), 32) is None


def test_runs_of_two_seeds_are_trials_of_one_curve_and_paired_by_both() -> None:
    def grid(kind: str, shift: float) -> Curve:
        runs = [
            replace(run, specification=replace(run.specification, seed=seed, data_seed=data))
            for seed in range(2)
            for data in range(2)
            for run in [run_of(kind, 0, context(16, seed + 0.1 * data + shift))]
        ]
        assert len({run.run_id for run in runs}) == 4
        (found,) = curves(runs, "context")
        return found

    found = grid("rope", 0.0)
    assert found.seeds == 4
    by_hand = {(0, 0): 0.0, (0, 1): 0.1, (1, 0): 1.0, (1, 1): 1.1}
    assert dict(found.points[0].by_trial) == pytest.approx(by_hand)
    apart = difference(grid("alibi", 0.5), found, 16)
    assert apart is not None
    assert apart.by_trial == pytest.approx((0.5, 0.5, 0.5, 0.5))
    own = of_seeds("alibi", 0.5, 1.6)  # trials (0, 0) and (1, 1)
    both = difference(own, found, 16)
    assert both is not None
    assert both.by_trial == pytest.approx((0.5, 0.5))


def test_difference_counts_by_its_interval_and_its_size() -> None:
    for losses, counts in (
        ((1.1, 1.3, 1.5001), True),
        ((0.9, 1.1, 1.3001), True),
        ((1.001, 1.201, 1.401), False),  # certain, but below one part in a hundred of perplexity
        ((1.3, 1.1, 1.5), False),  # of either sign
        ((2.0,), False),  # one seed
    ):
        found = difference(of_seeds("alibi", *losses), of_seeds("rope", 1.0, 1.2, 1.4), 16)
        assert found is not None
        assert found.counts is counts, losses


def test_recall_in_range_is_the_mean_over_the_distances_of_training() -> None:
    """Training on 16 tokens shows distances 1 to 13."""
    runs = []
    for seed, last in ((0, 0.9), (1, 0.6)):
        shares = ((1, 1.0), (13, last), (15, 0.0), (255, 0.0))
        scores = [Score("recall", TRAINED, x, value, 400) for x, value in shares]
        scores.append(Score("recall", "stretched", 255, 0.9, 400))
        runs.append(run_of("rope", seed, *scores, task="recall"))
    found = curves(runs, "recall")
    trained, stretched = sorted(found, key=lambda one: one.variant != TRAINED)
    inside = in_range(trained)
    assert inside is not None
    assert (inside.x, inside.until) == (1, 14)
    assert (inside.mean, inside.low, inside.high) == pytest.approx((0.875, 0.8, 0.95))
    assert dict(inside.by_trial) == pytest.approx({(0, 0): 0.95, (1, 1): 0.8})
    assert in_range(stretched) is None
    assert in_range(stretched, found) == inside
    assert not learned(trained)
    (sure,) = [one for one in curves(runs[:1], "recall") if one.variant == TRAINED]
    assert learned(sure)
    assert not learned(stretched)
    assert learned(stretched, curves(runs[:1], "recall"))  # the same models
    assert not learned(stretched, found)


def test_trials_in_two_groups_are_counted_beside_their_mean() -> None:
    """Strings of up to 16 letters are those of training."""
    runs = []
    for seed, value in enumerate((0.95, 0.05, 0.91)):
        scores = [Score("indexing", TRAINED, x, value, 800) for x in (8, 16)]
        scores += [Score("indexing", variant, 32, 0.01, 800) for variant in (TRAINED, "stretched")]
        runs.append(run_of("rope", seed, *scores, task="indexing"))
    found = curves(runs, "indexing")
    trained, stretched = sorted(found, key=lambda one: one.variant != TRAINED)
    rate = solve_rate(trained)
    assert rate == (2, 3)
    assert str(rate) == "2 of 3"
    assert not judged(trained)  # its mean is 64%
    assert solve_rate(stretched) is None
    assert solve_rate(stretched, found) == rate
    copied = run_of("rope", 0, Score("copy", TRAINED, 16, 0.1, 200), task="copy")
    (of_copy,) = curves([copied], "copy")
    assert judged(of_copy)


def test_flip_flop_is_in_training_at_the_share_of_training_alone() -> None:
    scores = [Score("flip_flop", TRAINED, x, x / 100, 4_000) for x in (10, 80, 98)]
    (found,) = curves([run_of("rope", 0, *scores, task="flip_flop")], "flip_flop")
    inside = in_range(found)
    assert inside is not None
    assert inside.mean == 0.8


def test_lowest_loss_comes_with_curves_that_do_not_clearly_differ() -> None:
    best = of_seeds("rope", 1.0, 1.2, 1.4)
    near, far = of_seeds("alibi", 1.02, 1.19, 1.41), of_seeds("none", 1.5, 1.7, 1.91)
    assert lowest([far, near, best], 16) == [best, near]
    assert lowest([best], 32) == lowest([], 16) == []
    # One seed has no interval: the lowest alone, unless two are equal.
    one, two = of_seeds("rope", 1.0), of_seeds("none", math.nan)
    assert lowest([two, one, of_seeds("alibi", 1.001)], 16) == [one]
    assert len(lowest([one, of_seeds("alibi", 1.0)], 16)) == 2


def test_runs_are_compared_when_they_differ_only_in_scheme_and_seed() -> None:
    one = small_spec()
    for alike in (small_spec("alibi"), replace(one, seed=5), small_spec(bases=(77.0,))):
        assert comparison(alike) == comparison(one)
    changes: list[dict[str, Any]] = [{"widths": [32]}, {"steps": 13}, {"task": "copy"}]
    others = [small_spec(**change) for change in changes]
    others += [replace(one, corpus="0" * 64), replace(one, versions=(("torch", "0"),))]
    assert len({comparison(other) for other in [one, *others]}) == 1 + len(others)


def test_loss_by_steps_counts_the_trials_that_every_number_of_steps_has() -> None:
    losses = {
        (6, 0): 3.0, (6, 1): 4.0, (12, 0): 2.0, (12, 1): 5.0, (12, 2): 9.0, (24, 0): 1.0, (24, 1): 1.5,
    }  # fmt: skip
    made = [
        run_of(
            "rope", seed, context(16, 0.5), context(64, loss), context(64, 0.1, "ntk"), steps=steps
        )
        for (steps, seed), loss in losses.items()
    ]
    alone = run_of("none", 0, context(64, 1.0))
    (found,) = by_steps([*made, alone], 64)
    assert (found.specification.scheme.kind, found.measure, found.seeds) == ("rope", "steps", 2)
    assert [(p.x, p.mean, p.low, p.high) for p in found.points] == [
        (6, 3.5, 3.0, 4.0), (12, 3.5, 2.0, 5.0), (24, 1.25, 1.0, 1.5),
    ]  # fmt: skip
    assert by_steps(made, 32) == []
    names = {apart_from_steps(run.specification) for run in made}
    assert len(names) == 1
    assert apart_from_steps(small_spec(train_length=32)) not in names
