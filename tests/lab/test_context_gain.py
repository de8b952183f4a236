"""Loss after a number of bytes of context, against a plain loop over dictionaries."""

import math
from collections import Counter, defaultdict

import pytest

from posenc.lab.context_gain import context_losses
from posenc.lab.corpus import TEXTS, Corpus, from_text
from tests.lab.small_runs import sentences
from tests.lab.worker_processes import ROOT

README = (ROOT / "posenc" / "lab" / "README.md").read_text()


def by_hand(corpus: Corpus, longest: int) -> list[float]:
    train, text = bytes(corpus.train.tolist()), bytes(corpus.validation.tolist())
    after: dict[bytes, Counter[int]] = defaultdict(Counter)
    for place in range(len(train)):
        for size in range(min(longest, place) + 1):
            after[train[place - size : place]][train[place]] += 1
    losses = [0.0] * (longest + 1)
    for place in range(longest, len(text)):
        likelihood = 1 / 256
        for size in range(longest + 1):
            seen = after[text[place - size : place]]
            if seen:
                total, kinds = seen.total(), len(seen)
                likelihood = (seen[text[place]] + kinds * likelihood) / (total + kinds)
            losses[size] -= math.log(likelihood)
    return [loss / (len(text) - longest) for loss in losses]


def test_losses_are_those_of_a_plain_loop() -> None:
    corpus = from_text("made-up", sentences(seed=3))
    found = context_losses(corpus, longest=6)
    assert found == pytest.approx(by_hand(corpus, 6), rel=1e-9)
    assert len(found) == 7
    assert found[0] > found[1] > found[2]


@pytest.mark.long  # counts 11 MB several times
@pytest.mark.parametrize(("text", "lowest"), [("library-code", 1.4), ("library-prose", 1.5)])
def test_the_readme_says_the_lowest_loss_of_the_texts(text: str, lowest: float) -> None:
    losses = context_losses(TEXTS[text](), longest=6)
    assert losses.index(min(losses)) in (
        4,
        5,
    )  # nearly equal; texts differ between versions of Python
    assert round(losses[4], 1) == round(min(losses), 1) == lowest
    assert f"`{text}`" in README
    assert f"{lowest:.1f} nats" in README


def test_without_context_it_is_the_entropy_of_the_bytes() -> None:
    """Two bytes, half of each, in both sides: ln 2, but for the little that the others keep."""
    corpus = from_text("two letters", b"ab" * 20_000)
    none, one = context_losses(corpus, longest=1)
    assert none == pytest.approx(math.log(2), abs=1e-3)
    assert one == pytest.approx(0, abs=1e-3)
