"""Every entry of the planner's evidence names its source, and says what its records can hold."""

import re
import tomllib
from importlib import resources
from typing import Any

import pytest

from posenc.models.presets import MODELS
from posenc.planner.evidence import COMPARISONS, DERIVATIVES, EVIDENCE, MODEL_EVIDENCE, RELEASED
from posenc.schemes import SCHEMES

ENTRIES: dict[str, list[dict[str, Any]]] = tomllib.loads(
    resources.files("posenc.planner").joinpath("evidence.toml").read_text("utf-8")
)


@pytest.mark.parametrize("table", ENTRIES)
def test_every_entry_and_every_report_has_a_source(table: str) -> None:
    assert ENTRIES[table]
    for entry in ENTRIES[table]:
        for each in (entry, *entry.get("reports", ())):
            assert each["source"].strip()


def test_entries_name_methods_and_presets_that_exist() -> None:
    kinds = {*SCHEMES, "none", "base"}
    named = {*EVIDENCE} | {one.kind for one in RELEASED} | {one.kind for one in DERIVATIVES}
    named |= {one.kind for one in MODEL_EVIDENCE if one.kind}
    for comparison in COMPARISONS:
        for by_kind in comparison.values.values():
            named |= {*by_kind}
        assert ("base" in comparison.values["perplexity"]) == bool(comparison.base)
    assert named <= kinds
    assert {one.preset_name for one in MODEL_EVIDENCE} <= {*MODELS}
    assert {one.preset for one in DERIVATIVES} <= {*MODELS}


def test_numbers_that_reach_a_config_are_written_as_its_class_writes_them() -> None:
    for one in MODEL_EVIDENCE:
        assert isinstance(one.factor, float)
        assert isinstance(one.least_factor, float)


def test_fine_tuning_is_the_least_that_a_source_reports_at_a_factor() -> None:
    base = EVIDENCE["base"]  # Xiong et al.: x8 on 400B tokens; Gradient: x512 on 1.6B
    assert [base.fine_tuning(factor) for factor in (8, 512, 513)] == ["light", "light", None]
    assert EVIDENCE["rope_llama3"].fine_tuning(16) == "continued"
    assert EVIDENCE["rope_ntk"].untrained_to == 2
    yarn = EVIDENCE["rope_yarn"].of(MODELS["llama-2-7b"].read())
    assert (yarn.untrained_to, yarn.trained_to) == (2, 32)


def test_training_that_is_reported_of_llama_3_1_alone_counts_for_no_other_model() -> None:
    """Xu et al. 2025 trained Llama 3.1 with YaRN to x512; Llama 3 has its sizes, without its scaling."""
    reached = {
        name: EVIDENCE["rope_yarn"].of(MODELS[name].read()).trained_to
        for name in ("llama-3.1-8b", "llama-3-8b", "llama-2-7b", "gpt-oss-20b")
    }
    assert reached == {
        "llama-3.1-8b": 512, "llama-3-8b": 32, "llama-2-7b": 32, "gpt-oss-20b": 32,
    }  # fmt: skip


def test_amounts_of_training_are_those_that_statements_and_comparisons_give() -> None:
    for method in ENTRIES["method"]:
        for report in method.get("reports", ()):
            amount = report.get("amount", "")
            assert (amount == "") == (report["training"] == "none"), method["kind"]
            texts = [method["statement"]]
            texts += [one.tokens for one in COMPARISONS if one.source == report["source"]]
            for number in re.findall(r"(?<!x)\b[\d,.]+B?\b", amount):
                assert any(re.search(rf"\b{number}\b", text) for text in texts), amount
