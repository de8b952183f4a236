"""The commands inspect and plan print the library's numbers, or one error and exit status 2."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import posenc
from posenc import __main__ as command
from posenc.cli import plan as planning
from posenc.models import read_config
from posenc.planner import (
    METHODS,
    RANKING,
    ContextPlan,
    advice_of,
    assumed_sentences,
    at_inference,
    order_sentences,
    plan,
    recommendation,
)
from posenc.planner.methods import DEFAULT_METHODS
from posenc.planner.recommendation import bound_sentence
from posenc.planner.record import plan_record
from tests.models.configs import LLAMA, of_type, preset_config

PLAN = ["plan", "-", "--context", "16384", "--methods"]
ANSWERS = (["inspect", "-"], [*PLAN, "yarn"])


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command.main, list(words), input=text)


def test_model_is_named_in_place_of_its_config() -> None:
    """Without the scaling that its makers recommend for long texts; with the length it was trained on."""
    llama = json.dumps(preset_config("llama-3.1-8b"))
    memory = ["--memory", "24GiB", "--weights", "16GiB", "--json"]
    by_name, by_config = (
        json.loads(answer.output)
        for answer in (run("plan", "llama-3.1-8b", *memory), run("plan", "-", *memory, text=llama))
    )
    assert by_name == by_config | {"name": "llama-3.1-8b"}
    assert "YaRN" not in run("inspect", "qwen3-8b").output
    context = ["--context", "16384", "--methods", "linear", "--json"]
    mistral = json.loads(run("plan", "mistral-7b-v0.1", *context).output)
    assert "trained on 8,192" in mistral["verdict"]


@pytest.fixture
def llama(tmp_path: Path) -> str:
    path = tmp_path / "Llama-3-8B" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    return str(path)


def test_inspect_prints_the_numbers_of_a_config(llama: str) -> None:
    result = run("inspect", llama)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Llama-3-8B: llama, 32 layers of width 4,096")
    assert "8,192" in result.output
    (row,) = [line for line in result.output.splitlines() if line.startswith("32 ")]
    assert [cell for cell in ("RoPE", "32/8", "500,000", "1/sqrt(128)") if cell not in row] == []
    record = json.loads(run("inspect", llama, "--json").output)
    (kind,) = record["layer_kinds"]
    sizes = (kind["heads"], kind["kv_heads"], kind["head_dim"], kind["rotary_dim"])
    assert (*sizes, kind["scheme"]["base"]) == (32, 8, 128, 128, 500_000.0)
    assert record["context"] == 8_192


def test_plan_prints_the_verdict_and_two_ranked_tables(llama: str) -> None:
    result = run("plan", llama, "--context", "32768", "--methods", "yarn,none, linear")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    methods = ["yarn", "none", "linear"]
    found = plan(read_config(LLAMA), 32_768, name="Llama-3-8B", methods=methods)
    end = lines.index("")  # what is assumed stands before any number
    assert assumed_sentences(found)[0] in [line.strip() for line in lines[:end]]
    assert lines[end + 1] == recommendation(found)
    assert "--script linear" in lines[end + 2]
    assert {RANKING, bound_sentence(found)} <= {*lines}
    for advice in advice_of(found):
        (line,) = (line for line in lines if line.startswith(f"  {advice.title}: "))
        assert advice.sentence in line
        assert advice.short in line
    assert all(f"  {method.label}: " in result.output for method in at_inference(found))
    rows = [re.match(r"(\S+(?: \S+)*) {2,}(\d) ", line) for line in lines]
    assert [row.groups() for row in rows if row] == [
        ("Position interpolation", "1"), ("YaRN", "1"), ("Unscaled", "3"),
    ] * 2  # fmt: skip
    assert {f"  {sentence}" for sentence in order_sentences(found)} <= {*lines}
    for fact in ("4 GiB in bfloat16", '"rope_type": "yarn"', "arXiv 2309.00071"):
        assert fact in result.output
    record = run("plan", llama, "--context", "32768", "--methods", ",".join(methods), "--json")
    assert json.loads(record.stdout) == json.loads(json.dumps(plan_record(found)))


def test_an_encoder_of_images_is_refused_by_its_reason() -> None:
    pixtral = json.dumps({"model_type": "pixtral"})
    for words in (("plan", "-", "--context", "4096"), ("inspect", "-")):
        refused = run(*words, text=pixtral)
        assert refused.exit_code == 2
        assert "patches or pixels of an image" in refused.output
        assert refused.output.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "searches"), [((), 0), (("--search",), 1), (("--methods", "none,base"), 1)]
)
def test_plan_searches_a_base_only_if_asked(
    llama: str, options: tuple[str, ...], searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search takes 20 seconds at 200,000 tokens."""
    asked: list[tuple[int, int]] = []
    module = importlib.import_module("posenc.planner.plan")  # the package offers its function plan
    monkeypatch.setattr(module, "smallest_base", lambda *sizes: asked.append(sizes))
    result = run("plan", llama, "--context", "200000", *options)
    assert result.exit_code == 0, result.output
    assert asked == [(128, 200_000)] * searches
    assert ("Add --search" in result.output) == (not searches)
    assert ("Searching the base" in result.stderr) == bool(searches)


def test_plan_computes_on_one_thread_and_leaves_the_setting_as_it_was(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watch(*arguments: Any, **options: Any) -> ContextPlan:
        threads.append(torch.get_num_threads())
        return plan(*arguments, **options)

    monkeypatch.setattr(planning, "plan", watch)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run("plan", llama, "--context", "16384", "--methods", "none")
        threads.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 2]


def test_script_measures_a_config_with_a_scaling_as_it_is() -> None:
    words = ["plan", "-", "--context", "131072"]
    text = json.dumps(preset_config("llama-3.1-8b"))
    planned = run(*words, text=text).output
    assert "use it as it is" in planned
    assert "Add --script configured" in planned
    script = run(*words, "--script", "configured", text=text)
    assert script.exit_code == 0, script.output
    assert "factor" not in script.output
    compile(script.output, "loss_by_position.py", "exec")
    # The scaling of the config at another factor would be another model.
    other = run(*words, "--script", "llama3", text=text)
    assert other.exit_code == 2
    assert "configured with Llama 3 scaling by 8 already" in other.output
    assert run(*PLAN[:4], "--script", "configured", text=json.dumps(LLAMA)).exit_code == 0


def test_command_and_library_compare_the_same_methods_unless_asked(llama: str) -> None:
    shown = json.loads(run("plan", llama, "--context", "65536", "--json").stdout)["methods"]
    assert {row["method"] for row in shown} == {*DEFAULT_METHODS}
    asked = run("plan", llama, "--context", "65536", "--methods", ",".join(METHODS), "--json")
    assert {row["method"] for row in json.loads(asked.stdout)["methods"]} == {*METHODS}


def test_wrong_argument_is_one_error_and_status_2(llama: str) -> None:
    to_16_k = ["plan", llama, "--context", "16384"]
    for words, fact in (
        (["plan", llama, "--context", "0"], "context"),
        ([*to_16_k, "--methods", "magic"], "magic"),
        ([*to_16_k, "--trained", "1"], "trained_length"),
        ([*to_16_k, "--script", "yarn_paper"], "YaRN as printed"),
        ([*to_16_k, "--script", "yarn", "--json"], "none of --json, --methods and --memory"),
        (
            [*to_16_k, "--script", "yarn", "--methods", "linear"],
            "none of --json, --methods and --memory",
        ),
        (["plan", llama], "--context"),
        (["plan", "nowhere.json", "--context", "16384"], "nowhere.json"),
        (["inspect", "nowhere.json"], "nowhere.json"),
        (["inspect", ""], "must name a file"),
        (
            ["inspect", "/dev/null"],
            "no regular file",
        ),  # as is <(command) of a shell, which could wait for ever
        (["inspect", "-"], "JSON"),
        (["plan", "-", "--context", "8192"], "JSON"),
    ):
        result = run(*words, text="{")
        assert result.exit_code == 2
        assert fact in result.output
        assert "Traceback" not in result.output
        assert sum(line.startswith("Error: ") for line in result.output.splitlines()) == 1


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_what_is_assumed_stands_before_any_number(words: list[str]) -> None:
    for config, fact in ((of_type("brand_new"), "brand_new"), (LLAMA | {"rope_ratio": 2}, "ratio")):
        text = json.dumps(config)
        refused = run(*words, text=text)
        assert refused.exit_code == 2
        assert fact in refused.output
        assert "--assume llama" in refused.output
        first = run(*words, "--assume", "llama", text=text).output.splitlines()[0]
        assert first == read_config(text, "llama").assumption
        assert fact in first
        record = json.loads(run(*words, "--assume", "llama", "--json", text=text).output)
        assert next(iter(record.items())) == ("assumption", first)
    if words[0] == "plan":
        script = run(*words[:4], "--script", "yarn", "--assume", "llama", text=text).stdout
        assert script.splitlines()[0] == f"# {first}"
        assert '"rope_type": "yarn"' in script
        compile(script, "loss_by_position.py", "exec")
    lines = run(*words, text='{"model_type": "qwen2"}').output.splitlines()
    assumed = read_config({"model_type": "qwen2"}).assumed
    assert len(assumed) > 3
    assert {*assumed} <= {line.strip() for line in lines[: lines.index("")]}


@pytest.mark.parametrize("words", ANSWERS, ids=lambda words: words[0])
def test_names_in_a_config_are_no_command_of_a_terminal(words: list[str]) -> None:
    config = LLAMA | {"model_type": "\x1b[31m\r\n", "rope_\x1b[31m": 1}
    for assume in ([], ["--assume", "llama"]):
        output = run(*words, *assume, text=json.dumps(config)).output
        assert output
        assert "\x1b" not in output
        assert "\r" not in output
    # A bell: click removes colours and moves of the cursor by itself where there is no terminal.
    result = run(*words, "--assume", "llama", text=json.dumps(of_type("x\x07y")))
    assert result.exit_code == 0
    assert "\x07" not in result.output
    assert "x\\x07y" in result.output


WITHOUT_LAB = """
import json, sys

for name in ("posenc.lab", "pyarrow", "fsspec", "platformdirs", "filelock", "tqdm", "streamlit"):
    sys.modules[name] = None  # an import of it is an error
from click.testing import CliRunner
from posenc.__main__ import main

results = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in results]))
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_file_of_proc_and_full_disk_end_with_one_sentence(llama: str) -> None:
    result = run("inspect", "/proc/kmsg")  # for root a regular file of size 0 that never ends
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    for words in (["plan", llama, "--context", "65536", "--json"], ["--help"]):
        with Path("/dev/full").open("wb") as full:
            process = subprocess.run(
                [sys.executable, "-m", "posenc", *words],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        assert process.returncode == 2
        assert process.stderr == (
            b"Error: The output cannot be read or written: No space left on device.\n"
        )


def test_commands_need_no_package_of_the_lab_unless_they_train(llama: str, tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", posenc.sinusoidal_table(16, 8).numpy())
    work = [
        ["inspect", llama],
        ["plan", llama, "--context", "16384", "--methods", "ntk", "--json"],
        ["identify", str(tmp_path / "table.npy")],
    ]
    every = [*work, ["--help"], ["train", "--scheme", "rope"], ["app"]]
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_LAB, json.dumps(every)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *blocked, listed, train, app = json.loads(ran.stdout)
    for words, (status, printed, error) in zip(work, blocked, strict=True):
        assert (status, printed) == (0, run(*words).stdout), error
    assert "inspect" in listed[1]
    assert "train" in listed[1]
    assert train[0] == 2
    assert train[2].startswith("Error: train needs the package ")
    assert "pip install -e '.[lab]'" in train[2]
    assert app[2] == "Error: app needs the package streamlit: pip install -e '.[dashboard]'.\n"
