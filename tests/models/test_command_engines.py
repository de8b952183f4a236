"""The command engines prints the library's readings, or one error and exit status 2."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from posenc import __main__ as command
from posenc.models.config_comparison import compare_configs, comparison_sentences
from posenc.models.engines import engine_readings
from posenc.models.engines.engine_words import difference_sentences, engine_rows, readings_record
from tests.models.configs import LLAMA, of_type, preset_config


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command.main, ["engines", *words], input=text)


def test_a_known_model_is_read_by_its_name_and_a_config_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(preset_config("phi-3-mini-128k")))
    by_name, by_file = (
        run(source, "--length", "2000") for source in ("phi-3-mini-128k", str(path))
    )
    assert by_name.exit_code == 0, by_name.output
    assert by_name.output == by_file.output
    readings = engine_readings(preset_config("phi-3-mini-128k"), 2_000)
    lines = by_name.output.splitlines()
    for row, line in zip(engine_rows(readings), lines[1:], strict=False):
        assert all(cell in line for cell in row.values())
    for sentence in difference_sentences(readings):
        assert f"  {sentence}" in lines


def test_started_is_the_context_of_a_server() -> None:
    line = next(
        line
        for line in run(
            "phi-3-mini-128k", "--length", "2000", "--started", "131072"
        ).output.splitlines()
        if line.startswith("vLLM (")
    )
    assert "long, by the context that the server is started with, here 131,072 *" in line


def test_json_has_every_number_and_the_comparison() -> None:
    changed = preset_config("qwen3-8b") | {"rope_theta": 10_000.0}
    result = run("-", "--against", "qwen3-8b", "--json", text=json.dumps(changed))
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    assert record["readings"] == readings_record(engine_readings(changed), "qwen3")["readings"]
    found = compare_configs(changed, preset_config("qwen3-8b"))
    assert record["against_words"] == comparison_sentences(found)
    assert record["against"][0]["change"]["fastest"] == pytest.approx(100 ** (126 / 128), rel=0.1)


def test_a_comparison_is_printed_under_the_table() -> None:
    result = run("-", "--against", "-nothing", text=json.dumps(LLAMA))
    assert result.exit_code == 2
    result = run("-", "--against", "llama-3.1-8b", text=json.dumps(LLAMA))
    assert "This config against the other" in result.output
    assert "max_position_embeddings 8,192 against 131,072." in result.output


def test_engines_whose_rules_were_not_read_say_so() -> None:
    output = run("-", text=json.dumps(of_type("olmo2"))).output
    assert output.count("not read") >= 5
    assert "No engine whose rules were read differs from transformers 5." in output


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nowhere"], "nowhere is no file and no model that posenc knows"),
        ([""], "MODEL_OR_CONFIG is no file"),
        (["gpt-2"], "no RoPE"),
        (["transformer"], "has no config.json"),
        (["llama-3.1-8b", "--length", "0"], "length must be a whole number"),
        (["llama-3.1-8b", "--length", "9", "--started", "8"], "started must be a whole number"),
        (["llama-3.1-8b", "--against", "nowhere"], "nowhere is no file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_2(words: list[str], part: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert part in line
