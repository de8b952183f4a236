"""The command line: inspect and plan; tables, JSON, one sentence and status 2 for nonsense."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from posenc import __main__ as command
from posenc.commands import planning
from posenc.interop import read_config
from posenc.planner import METHODS, RANKING, ContextPlan, plan, verdict
from posenc.planner.report import plan_record
from posenc.planner.verdict import bound_said
from tests import models


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command.main, list(words), input=text)


@pytest.fixture
def llama(tmp_path: Path) -> str:
    place = tmp_path / "Llama-3-8B"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(models.LLAMA3_8B))
    return str(place / "config.json")


def test_inspect_says_what_the_config_says(llama: str) -> None:
    result = run("inspect", llama)
    assert result.exit_code == 0, result.output
    assert "Llama-3-8B: llama, 32 layers of width 4,096" in result.output
    assert "context 8,192, trained length not told" in result.output
    (row,) = [line for line in result.output.splitlines() if line.startswith("32 ")]
    assert "RoPE" in row
    assert "32/8" in row
    assert row.endswith("1/sqrt(128)")
    assert "500,000" in row


def test_inspect_writes_json_with_every_number(llama: str) -> None:
    record = json.loads(run("inspect", llama, "--json").output)
    (kind,) = record["layer_kinds"]
    assert (kind["heads"], kind["kv_heads"], kind["head_dim"], kind["rotary_dim"]) == (
        32,
        8,
        128,
        128,
    )
    assert kind["scheme"]["base"] == 500_000.0
    assert record["context"] == 8_192


def test_plan_tells_the_verdict_and_a_ranked_table(llama: str) -> None:
    result = run("plan", llama, "--context", "32768", "--methods", "yarn,none, linear")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    made = plan(
        read_config(models.LLAMA3_8B), 32_768, name="Llama-3-8B", methods=["yarn", "none", "linear"]
    )
    assert lines[0] == "Assumed"  # before any number of the plan
    assert lines[1].startswith("  The config does not say how long the training texts were")
    assert lines[3] == verdict(made)
    assert lines[3].startswith(
        "Llama-3-8B from 8,192 to 32,768 is x4. Plan to fine-tune with position interpolation or YaRN, "
    )
    assert "--script linear" in lines[4]
    assert RANKING in lines
    assert bound_said(made) in lines
    ranked = [line.split("  ")[1] for line in lines if line[:3] in ("1  ", "2  ", "3  ")]
    assert ranked == ["Position interpolation", "YaRN", "Unscaled"] * 2  # costs, and sees
    assert "4 GiB in bfloat16" in result.output
    assert '"rope_type": "yarn"' in result.output
    assert "arXiv 2309.00071" in result.output


def test_plan_writes_json_that_equals_the_library_s_plan(llama: str) -> None:
    result = run("plan", llama, "--context", "16384", "--methods", "ntk,yarn", "--json")
    made = plan(read_config(models.LLAMA3_8B), 16_384, name="Llama-3-8B", methods=["ntk", "yarn"])
    assert json.loads(result.stdout) == json.loads(json.dumps(plan_record(made)))


def test_a_plan_is_made_on_one_thread_and_leaves_the_others_as_they_were(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of small tensors: others would only wait for their share, at the cost of the processor."""
    seen: list[int] = []

    def watched(*asked: Any, **named: Any) -> ContextPlan:
        seen.append(torch.get_num_threads())
        return plan(*asked, **named)

    monkeypatch.setattr(planning, "plan", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert run("plan", llama, "--context", "16384", "--methods", "none").exit_code == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def test_a_config_comes_from_a_pipe_too() -> None:
    text = json.dumps(models.LLAMA3_8B)
    result = run("plan", "-", "--context", "8192", text=text)
    assert result.exit_code == 0, result.output
    assert "llama is taken as trained on 8,192 tokens: 8,192 need no scaling." in result.output


@pytest.mark.parametrize("name", ["GPT2", "BLOOM", "T5", "MISTRAL_7B", "SMOLLM3", "DEEPSEEK_V3"])
def test_models_of_every_kind_have_a_plan(name: str) -> None:
    text = json.dumps(getattr(models, name))
    assert run("inspect", "-", text=text).exit_code == 0
    for form in ([], ["--json"]):
        result = run("plan", "-", "--context", "8192", "--methods", "none,linear", *form, text=text)
        assert result.exit_code == 0, result.output


def test_plan_prints_the_script_that_measures(llama: str) -> None:
    result = run("plan", llama, "--context", "32768", "--script", "yarn")
    assert result.exit_code == 0
    compile(result.stdout, "loss_by_position.py", "exec")
    assert '"rope_type": "yarn"' in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "LLAMA", "--context", "0"], "context must be a whole number from 1"),
        (["plan", "LLAMA", "--context", "16384", "--methods", "magic"], "methods must be of none"),
        (["plan", "LLAMA", "--context", "16384", "--trained", "1"], "trained_length must be"),
        (["plan", "LLAMA", "--context", "16384", "--script", "yarn_paper"], "There is no script"),
        (["plan", "LLAMA"], "Missing option '--context'"),
        (["plan", "nowhere.json", "--context", "16384"], "nowhere.json"),
        (["inspect", "nowhere.json"], "nowhere.json"),
    ],
)
def test_nonsense_is_one_sentence_and_status_two(llama: str, words: list[str], said: str) -> None:
    result = run(*[llama if word == "LLAMA" else word for word in words])
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
    assert sum(line.startswith("Error: ") for line in result.output.splitlines()) == 1


UNKNOWN = json.dumps(models.LLAMA3_8B | {"model_type": "brand_new"})
UNREAD = json.dumps(models.LLAMA3_8B | {"rope_ratio": 2})
ANSWERS = (["inspect", "-"], ["plan", "-", "--context", "16384", "--methods", "yarn"])


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_what_is_not_guessed_is_read_on_request_and_the_first_line_says_so(
    words: list[str],
) -> None:
    for text, assume, said in (
        (UNKNOWN, "llama", 'model_type "brand_new" is not known'),
        (UNREAD, "llama", "rope_ratio"),
    ):
        refused = run(*words, text=text)
        assert refused.exit_code == 2
        assert said in refused.output
        assert f"use --assume {assume} " in refused.output
        told = run(*words, "--assume", assume, text=text)
        assert told.exit_code == 0, told.output
        first = told.output.splitlines()[0]
        assert first == read_config(text, assume).assumption
        assert said in first
        record = json.loads(run(*words, "--assume", assume, "--json", text=text).output)
        assert next(iter(record.items())) == ("assumption", first)
        if words[0] == "plan":
            script = run(*words[:4], "--script", "yarn", "--assume", assume, text=text).stdout
            assert script.splitlines()[0] == f"# {first}"
            compile(script, "loss_by_position.py", "exec")


def test_a_model_s_type_is_no_command_of_a_terminal() -> None:
    config = models.LLAMA3_8B | {"model_type": "\x1b[31m\r\n", "rope_\x1b[31m": 1}
    for words in ANSWERS:
        for more in ([], ["--assume", "llama"]):
            said = run(*words, *more, text=json.dumps(config)).output
            assert said
            assert "\x1b" not in said
            assert "\r" not in said


@pytest.mark.parametrize("words", [["inspect", "-"], ["plan", "-", "--context", "16384"]])
def test_an_assumed_model_s_type_is_no_command_of_a_terminal(words: list[str]) -> None:
    # A bell: click leaves out colours and moves of the cursor by itself where there is no terminal.
    config = models.LLAMA3_8B | {"model_type": "x\x07y"}
    result = run(*words, "--assume", "llama", text=json.dumps(config))
    assert result.exit_code == 0
    assert "\x07" not in result.output
    assert "x\\x07y" in result.output


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_what_was_assumed_stands_before_any_number(words: list[str]) -> None:
    result = run(*words, text='{"model_type": "qwen2"}')
    lines = result.output.splitlines()
    assumed = read_config({"model_type": "qwen2"}).assumed
    assert lines[0] == "Assumed"
    end = lines.index("")
    assert {f"  {sentence}" for sentence in assumed} <= {*lines[1:end]}
    assert not run(*words, text=json.dumps(models.LLAMA3_8B)).output.startswith("Read ")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"model_type": "llama", "rope_theta": "x"}']
)
def test_a_broken_config_is_one_sentence_and_status_two(text: str) -> None:
    for words in (["inspect", "-"], ["plan", "-", "--context", "8192"]):
        result = run(*words, text=text)
        assert result.exit_code == 2
        assert result.output.startswith("Error: ")


def test_every_method_is_a_word_of_the_help() -> None:
    said = run("plan", "--help").output.replace("\n", "")
    for name in METHODS:
        assert name in said
