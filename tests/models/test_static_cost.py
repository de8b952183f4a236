"""A plan says what static YaRN costs short texts, and which factor is enough."""

import json
import math
from typing import Any

import pytest
from click.testing import CliRunner

from posenc import __main__ as command
from posenc.planner import ContextPlan, MethodPlan, paste
from posenc.planner.facts import Fact
from posenc.planner.methods import CONFIGURED
from posenc.planner.paste import static_cost
from tests.models.configs import YARN_BLOCK, method, plan_config, plan_preset, preset_config

QWEN = preset_config("qwen3-8b") | {"rope_scaling": None}


def cost(plan: ContextPlan, of: MethodPlan) -> dict[str, Any]:
    fact = static_cost(plan, of)
    assert isinstance(fact, Fact)
    return fact.numbers


@pytest.mark.parametrize(
    ("target", "factor", "logits"), [(131_072, 4, 1.2965), (65_536, 2, 1.1434)]
)
def test_yarn_multiplies_logits_of_short_texts_by_the_square_of_its_factor(
    target: int, factor: float, logits: float
) -> None:
    """Qwen3#1567, sglang#6030: 1.2965 at factor 4; for 65,536 tokens a factor of 2 is enough."""
    plan = plan_config(QWEN, target, trained_length=32_768)
    yarn = method(plan, "yarn")
    numbers = cost(plan, yarn)
    assert numbers["factor"] == numbers["least"] == factor
    assert numbers["logits"] == pytest.approx((0.1 * math.log(factor) + 1) ** 2)
    assert numbers["logits"] == pytest.approx(logits, abs=5e-5)
    (sentence,) = [why for why in paste(plan, yarn).why if why.startswith("YaRN acts")]
    assert f"{logits} times as large. x{factor} is the smallest factor" in sentence


def test_a_config_with_a_larger_factor_than_is_needed_says_which_is_enough() -> None:
    plan = plan_config(QWEN | {"rope_scaling": YARN_BLOCK}, 65_536, trained_length=32_768)
    configured = method(plan, CONFIGURED)
    numbers = cost(plan, configured)
    assert (numbers["factor"], numbers["least"]) == (4, 2)
    assert numbers["least_logits"] == pytest.approx((0.1 * math.log(2) + 1) ** 2)
    (sentence,) = [why for why in paste(plan, configured).why if why.startswith("YaRN acts")]
    assert sentence == (
        "YaRN acts at every length: on short texts, too, logits of rotated features are 1.2965 times "
        "as large. x2 is the smallest factor that reads 65,536 tokens: with it, they are 1.1434 times as "
        "large."
    )


def test_methods_without_an_attention_factor_cost_nothing_of_this_kind() -> None:
    plan = plan_config(QWEN, 131_072, trained_length=32_768)
    assert static_cost(plan, method(plan, "linear")) is None
    block = YARN_BLOCK | {"attention_factor": 1.0}
    own = plan_config(QWEN | {"rope_scaling": block}, 131_072, trained_length=32_768)
    assert static_cost(own, method(own, CONFIGURED)) is None


def test_a_model_that_was_trained_with_yarn_pays_nothing() -> None:
    plan = plan_preset("gpt-oss-20b", 131_072)
    configured = [one for one in plan.methods if one.config == plan.kind.scheme]
    assert [static_cost(plan, one) for one in configured] == [None]
    assert configured[0].attention_factor > 1


def test_the_command_prints_the_cost_where_the_method_is_pasted() -> None:
    words = ["plan", "-", "--context", "65536", "--trained", "32768", "--methods", "yarn"]
    config = json.dumps(QWEN)
    printed = CliRunner().invoke(command.main, words, input=config).output
    assert "logits of rotated features are 1.1434 times as large. x2 is the smallest" in printed
    record = json.loads(CliRunner().invoke(command.main, [*words, "--json"], input=config).output)
    (yarn,) = [one for one in record["methods"] if one["method"] == "yarn"]
    assert any("1.1434 times as large" in why for why in yarn["emitted"]["why"])
