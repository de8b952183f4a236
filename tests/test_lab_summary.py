"""Curves of several seeds with their band, and the words for them, by hand."""

import math
from dataclasses import replace

import pytest
import scipy.stats

from posenc.lab import Curve, Run, Score, curves, effect, elbow
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.summary import (
    ELBOW,
    NOTICED,
    Effect,
    Point,
    at_training_length,
    bits_per_byte,
    comparison,
    difference,
    in_range,
    learned,
    lowest,
    perplexity,
    reach,
)
from tests.small_runs import small


def run(kind: str, seed: int, *scores: Score, **others: object) -> Run:
    return Run(replace(small(kind, **others), seed=seed), scores, (1.0,), None, 1.0)


def context(x: int, value: float, variant: str = TRAINED) -> Score:
    return Score("context", variant, x, value, 8)


def curve(**points: float) -> Curve:
    """A curve of a model trained on 16 tokens; at16=2.0 is its loss at 16."""
    found = tuple(
        Point(int(name[2:]), 0, value, value, value) for name, value in sorted(
            points.items(), key=lambda item: int(item[0][2:]))
    )  # fmt: skip
    return Curve(small(), "context", TRAINED, 1, found)


def test_a_curve_is_the_mean_of_its_seeds_with_the_lowest_and_the_highest() -> None:
    runs = [
        run("rope", 0, context(16, 1.0), context(32, 5.0)),
        run("rope", 2, context(32, 2.0), context(16, 1.5)),
        run("rope", 1, context(16, 3.5), context(32, 2.0), Score("position", TRAINED, 16, 9.0, 8)),
    ]
    (found,) = curves(runs, "context")
    assert found.points == (
        Point(16, 0, 2.0, 1.0, 3.5, ((0, 1.0), (1, 3.5), (2, 1.5))),
        Point(32, 0, 3.0, 2.0, 5.0, ((0, 5.0), (1, 2.0), (2, 2.0))),
    )
    assert found.seeds == 3
    assert (found.measure, found.variant) == ("context", TRAINED)
    assert found.specification == runs[0].specification
    assert (found.at(32), found.at(33)) == (3.0, None)


def test_runs_that_differ_in_more_than_the_seed_are_curves_of_their_own() -> None:
    others = [{}, {"steps": 13}, {"bases": [500.0]}, {"batch": 5}, {"layers": 2}]
    runs = [run("rope", seed, context(16, 1.0), **other) for other in others for seed in (0, 1)]
    runs += [run("alibi", 0, context(16, 1.0)), run("alibi", 0, context(16, 1.0, "stretched"))]
    found = curves(runs, "context")
    assert [one.seeds for one in found] == [2, 2, 2, 2, 2, 1, 1]
    assert found[-1].variant == "stretched"


def test_buckets_of_one_curve_are_not_those_of_another() -> None:
    short = run("rope", 0, Score("position", TRAINED, 0, 1.0, 8, until=2))
    long = run("rope", 0, Score("position", TRAINED, 0, 1.0, 8, until=8), train_length=64)
    for runs in ([short, long], [long, short]):
        found = {one.specification.train_length: one.points for one in curves(runs, "position")}
        assert found == {
            16: (Point(0, 2, 1.0, 1.0, 1.0, ((0, 1.0),)),),
            64: (Point(0, 8, 1.0, 1.0, 1.0, ((0, 1.0),)),),
        }


def test_nothing_measured_is_no_curve() -> None:
    assert curves([], "context") == []
    assert curves([run("rope", 0)], "context") == []


def test_another_reading_is_held_against_the_scheme_as_trained() -> None:
    learned = run("learned", 0, context(16, 1.25), context(32, 3.0, CLAMPED))
    alibi = run("alibi", 0, context(16, 1.5), context(32, 1.4))
    found = curves([learned, alibi], "context")
    said = {(c.specification.scheme.kind, c.variant): at_training_length(c, found) for c in found}
    assert said == {("learned", TRAINED): 1.25, ("learned", CLAMPED): 1.25, ("alibi", TRAINED): 1.5}
    alone = curves([run("learned", 0, context(32, 3.0, CLAMPED))], "context")
    assert at_training_length(alone[0], alone) is None


def test_the_elbow_is_the_first_length_past_a_tenth_more_perplexity() -> None:
    assert pytest.approx(math.exp(ELBOW)) == 1.1
    at = 2.0
    just, over = at + ELBOW, math.nextafter(at + ELBOW, math.inf)
    assert elbow(curve(at16=at, at32=just, at64=just), at) is None
    assert elbow(curve(at16=at, at32=just, at64=over), at) == 64
    assert elbow(curve(at16=at, at32=9.0, at64=1.0), at) == 32
    assert elbow(curve(at8=9.0, at16=at, at32=1.0), at) is None  # less context than L is no elbow
    assert elbow(curve(at16=at, at32=math.nan), at) == 32
    assert elbow(curve(at16=at, at32=math.inf), at) == 32


def test_a_model_holds_degrades_or_breaks_by_its_worst_length() -> None:
    assert pytest.approx(math.exp(NOTICED)) == 1.01
    little, much = math.nextafter(NOTICED, math.inf), math.nextafter(ELBOW, math.inf)
    for worst, expected in (
        (-5.0, Effect.HOLDS), (0.0, Effect.HOLDS), (NOTICED, Effect.HOLDS),
        (little, Effect.DEGRADES), (0.02, Effect.DEGRADES), (ELBOW, Effect.DEGRADES),
        (much, Effect.BREAKS), (2.6, Effect.BREAKS), (math.nan, Effect.BREAKS),
        (math.inf, Effect.BREAKS),
    ):  # fmt: skip
        # Whether at the longest context or before it.
        assert effect(curve(at16=0.0, at32=-5.0, at64=worst), 0.0) is expected, worst
        assert effect(curve(at16=0.0, at32=worst, at64=-5.0), 0.0) is expected, worst
        broken = elbow(curve(at16=0.0, at32=worst), 0.0) is not None
        assert broken == (expected is Effect.BREAKS)
    assert effect(curve(at8=5.0, at16=0.0), 0.0) is None
    assert effect(curve(at8=5.0, at16=0.0, at32=0.0), 0.0) is Effect.HOLDS
    assert [str(one) for one in Effect] == ["holds", "degrades", "breaks"]
    assert [one.rule for one in Effect] == [
        "perplexity never more than 1% higher",
        "perplexity up to 10% higher",
        "perplexity more than 10% higher at some length",
    ]


def test_a_byte_drawn_from_all_alike_has_eight_bits_and_a_perplexity_of_256() -> None:
    assert bits_per_byte(math.log(256)) == pytest.approx(8.0, rel=1e-15)
    assert perplexity(math.log(256)) == pytest.approx(256.0, rel=1e-13)
    assert perplexity(1e6) == math.inf
    assert math.isnan(perplexity(math.nan))


def test_the_reach_ends_before_the_first_share_that_is_too_small() -> None:
    def of(*shares: float) -> Curve:
        points = tuple(Point(x, 0, share, share, share) for x, share in enumerate(shares, start=3))
        return Curve(small(task="copy"), "copy", TRAINED, 1, points)

    assert reach(of(1.0, 0.5, 0.49, 0.9)) == 4
    assert reach(of(1.0, 0.9)) == 4
    assert reach(of(0.1, 0.9)) is None
    assert reach(of(1.0, math.nan, 1.0)) == 3
    assert reach(of(0.3, 0.2), share=0.25) == 3


def of_seeds(kind: str, *losses: float, first: int = 0) -> Curve:
    """A curve with one loss per seed at 16 tokens."""
    runs = [run(kind, seed, context(16, loss)) for seed, loss in enumerate(losses, start=first)]
    return curves(runs, "context")[0]


def test_a_difference_is_paired_by_seed_with_student_s_interval() -> None:
    """By hand: -0.02, -0.01, -0.03 has mean -0.02 and deviation 0.01; t of two degrees is 4.3027."""
    one = of_seeds("alibi", 1.00, 1.50, 1.20)
    found = difference(one, of_seeds("rope", 1.02, 1.51, 1.23), 16)
    assert found is not None
    assert found.by_seed == pytest.approx((-0.02, -0.01, -0.03))
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (-0.02, -0.02 - half, -0.02 + half), abs=1e-7
    )
    interval = scipy.stats.t.interval(0.95, 2, -0.02, 0.01 / math.sqrt(3))
    assert (found.low, found.high) == pytest.approx(interval)
    assert not found.counts  # the interval has 0 in it
    # Only seeds of both count, each with itself.
    assert difference(one, of_seeds("rope", 9.0, 1.0, first=2), 16).by_seed == pytest.approx(
        (-7.8,)
    )
    assert difference(one, of_seeds("rope", 9.0, first=7), 16) is None
    assert difference(one, of_seeds("rope", 1.0), 32) is None


@pytest.mark.parametrize(
    ("losses", "counts"),
    [
        ((1.1, 1.3, 1.5001), True),
        ((0.9, 1.1, 1.3001), True),
        ((1.001, 1.201, 1.401), False),  # sure, but below one part in a hundred of perplexity
        ((1.3, 1.1, 1.5), False),  # of either sign
        ((2.0,), False),  # one seed
    ],
)
def test_a_difference_counts_by_its_interval_and_its_size(
    losses: tuple[float, ...], counts: bool
) -> None:
    found = difference(of_seeds("alibi", *losses), of_seeds("rope", 1.0, 1.2, 1.4), 16)
    assert found is not None
    assert found.counts is counts


def test_the_lowest_loss_has_beside_it_what_does_not_clearly_differ() -> None:
    best = of_seeds("rope", 1.0, 1.2, 1.4)
    near, far = of_seeds("alibi", 1.02, 1.19, 1.41), of_seeds("none", 1.5, 1.7, 1.91)
    assert lowest([far, near, best], 16) == [best, near]
    assert lowest([far, best], 16) == [best]
    assert lowest([best], 32) == lowest([], 16) == []
    # One seed has no interval: the lowest alone, unless two are equal.
    assert lowest([of_seeds("rope", 1.0), of_seeds("alibi", 1.001)], 16) == [of_seeds("rope", 1.0)]
    assert len(lowest([of_seeds("rope", 1.0), of_seeds("alibi", 1.0)], 16)) == 2
    assert lowest([of_seeds("rope", math.nan), of_seeds("alibi", 3.0)], 16)[0].at(16) == 3.0


def test_recall_in_range_is_the_mean_over_the_distances_of_training() -> None:
    """Training on 16 tokens shows distances 1 to 13."""
    runs = [
        run(
            "rope", seed,
            *(Score("recall", TRAINED, x, value, 400)
              for x, value in ((1, 1.0), (13, last), (15, 0.0), (255, 0.0))),
            Score("recall", "stretched", 255, 0.9, 400),
            task="recall",
        )
        for seed, last in ((0, 0.9), (1, 0.6))
    ]  # fmt: skip
    found = curves(runs, "recall")
    trained, stretched = sorted(found, key=lambda one: one.variant != TRAINED)
    inside = in_range(trained)
    assert inside is not None
    assert (inside.x, inside.until) == (1, 14)
    assert (inside.mean, inside.low, inside.high) == pytest.approx((0.875, 0.8, 0.95))
    assert dict(inside.by_seed) == pytest.approx({0: 0.95, 1: 0.8})
    assert in_range(stretched) is None
    assert in_range(stretched, found) == inside
    assert not learned(trained)
    (sure,) = [one for one in curves(runs[:1], "recall") if one.variant == TRAINED]
    assert learned(sure)
    assert not learned(stretched)


def test_runs_are_compared_when_they_differ_in_scheme_and_seed_alone() -> None:
    one = small()
    assert comparison(one).startswith("language-16-")
    for alike in (small("alibi"), replace(one, seed=5), small(bases=(77.0,))):
        assert comparison(alike) == comparison(one)
    others = [
        small(widths=[32]),
        small(steps=13),
        small(train_length=32),
        small(layers=2),
        small(task="copy"),
        replace(one, threads=2),
        replace(one, corpus="0" * 64),
        replace(one, versions=(("torch", "0"),)),
    ]
    assert len({comparison(other) for other in [one, *others]}) == 1 + len(others)
