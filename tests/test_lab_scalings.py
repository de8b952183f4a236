"""Scalings at inference of a trained run: every one of them is measured, past the trained length alone."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from posenc.lab import LanguageModel, Specification, evaluate, train
from posenc.lab.evaluate import TRAINED, segment_ends
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig
from posenc.schemes.scheme import Scheme
from posenc.schemes.stretched import AFTER_TRAINING
from tests.scaling_by_hand import by_hand
from tests.small_runs import CORPUS, small

TRAIN, SCORED, LONGER = 16, 4, (24, 32, 64)
WIDTH = 8  # of a head


class Turning(Scheme):
    """Plain complex numbers: neighbours of a head turned by given frequencies, times a factor."""

    def __init__(self, frequencies: list[float], factor: float) -> None:
        super().__init__(SCHEMES["none"]())
        self.turns = frequencies
        self.factor = factor

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return self.turned(q), self.turned(k)

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[-2])[:, None].double() * torch.tensor(self.turns).double()
        numbers = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        turned = self.factor * torch.polar(torch.ones_like(angles), angles) * numbers
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def configs(length: int) -> dict[str, RopeConfig]:
    """What each reading is, by its formula's own numbers."""
    s = length / TRAIN
    return {
        "position interpolation": RopeLinearConfig(dim=WIDTH, factor=s),
        "NTK-aware": RopeNtkConfig(dim=WIDTH, factor=s),
        "dynamic NTK": RopeDynamicConfig(dim=WIDTH, factor=s, trained_length=TRAIN, length=length),
        "YaRN": RopeYarnConfig(dim=WIDTH, factor=s, trained_length=TRAIN),
        "YaRN as printed": RopeYarnPaperConfig(dim=WIDTH, factor=s, trained_length=TRAIN),
        "Llama 3 scaling": RopeLlama3Config(dim=WIDTH, factor=s, trained_length=TRAIN),
    }


def factor_by_hand(name: str, length: int) -> float:
    return 0.1 * math.log(length / TRAIN) + 1 if "YaRN" in name else 1.0


@pytest.fixture(scope="module")
def run() -> tuple[LanguageModel, Specification]:
    specification = small("rope", scalings=AFTER_TRAINING, steps=40)
    assert specification.scalings == AFTER_TRAINING
    return train(specification, CORPUS).model, specification


def test_every_scaling_is_scored_past_the_trained_length_alone(
    run: tuple[LanguageModel, Specification],
) -> None:
    model, specification = run
    found = evaluate(model, specification.make_task(CORPUS), specification)
    named = {SCHEMES[kind].reading for kind in AFTER_TRAINING}
    assert len(named) == len(AFTER_TRAINING)
    lengths = {
        name: [s.x for s in found if s.measure == "context" and s.variant == name]
        for name in {s.variant for s in found}
    }
    assert lengths == {TRAINED: [8, 16, *LONGER]} | {name: [*LONGER] for name in named}
    assert {s.variant for s in found if s.measure == "position"} == {TRAINED}


@torch.no_grad()
def test_every_scaling_scores_what_a_model_turned_by_hand_does(
    run: tuple[LanguageModel, Specification],
) -> None:
    """Frequencies by the formulas in 60 digits, a rotation of complex numbers, each target by itself."""
    model, specification = run
    found = evaluate(model, specification.make_task(CORPUS), specification)
    text = CORPUS.validation.long()
    ends = segment_ends(len(text), max(LONGER), specification.segments).tolist()
    for length in LONGER:
        given = {s.variant: s.value for s in found if (s.measure, s.x) == ("context", length)}
        expected = {}
        for name, config in ({TRAINED: RopeConfig(dim=WIDTH)} | configs(length)).items():
            scheme = Turning([float(one) for one in by_hand(config)], factor_by_hand(name, length))
            losses = []
            for end in ends:
                window = text[end - length : end + 1]
                logits = model(window[None, :-1], None, scheme)[0].double().log_softmax(-1)
                losses += [-logits[-n, window[-n]].item() for n in range(1, SCORED + 1)]
            expected[name] = sum(losses) / len(losses)
        assert given == pytest.approx(expected, abs=2e-5)
        # None could stand in for another one here.
        assert all(b - a > 1e-4 for a, b in itertools.pairwise(sorted(given.values()))), given
