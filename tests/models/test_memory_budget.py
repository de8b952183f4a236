"""The tokens that fit in a memory are the inverse of the KV cache's size, exact to one token."""

import dataclasses
import itertools
import json
import random

import pytest
from click.testing import CliRunner

from posenc import SchemeArgumentError
from posenc.__main__ import main
from posenc.models import MODELS, read_config
from posenc.models.model_config import MAX_CONTEXT
from posenc.planner import MemoryBudget, budget_record, budget_rows, budget_sentence, memory_budget
from posenc.planner.memory import RESERVATIONS, parse_size
from tests.models.configs import LLAMA, Config, published_config

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "8 bit": 1}
GIB = 2**30
GPT_OSS_20B = published_config("gpt-oss-20b")
GPT_OSS_120B = GPT_OSS_20B | {
    "num_hidden_layers": 36,
    "layer_types": GPT_OSS_20B["layer_types"][:2] * 18,
}
GEMMA_4_31B: Config = {
    "model_type": "gemma4_text", "num_hidden_layers": 60, "hidden_size": 5_376,
    "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4,
    "head_dim": 256, "global_head_dim": 512, "sliding_window": 1_024, "attention_k_eq_v": True,
    "max_position_embeddings": 262_144, "num_kv_shared_layers": 0,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
}  # fmt: skip
# Layers, numbers of a token in each, window: as the papers and the classes have them.
LAYOUTS: dict[str, tuple[Config, list[tuple[int, int, int | None]]]] = {
    "llama": (LLAMA, [(32, 2 * 8 * 128, None)]),
    "latent": (published_config("deepseek-v3"), [(61, 512 + 64, None)]),
    "window": (LLAMA | {"model_type": "mistral", "sliding_window": 100}, [(32, 2 * 8 * 128, 100)]),
    "two kinds": (published_config("gemma-3-4b"), [(5, 2 * 4 * 256, None), (29, 2 * 4 * 256, 1_024)]),
    "gpt-oss-120b": (GPT_OSS_120B, [(18, 2 * 8 * 64, None), (18, 2 * 8 * 64, 128)]),
    "gemma-4-31b": (GEMMA_4_31B, [(10, 2 * 4 * 512, None), (50, 2 * 16 * 256, 1_024)]),
}  # fmt: skip


LONGEST = 2_500  # tokens that are counted one by one


def touched(window: int) -> int:
    """Tokens in the blocks of 16 that a window touches, wherever it begins."""
    starts = range(16)
    return 16 * max(len({place // 16 for place in range(at, at + window)}) for at in starts)


def rows_by_length(window: int | None) -> dict[str, list[int]]:
    """Rows that a layer reserves for 1, 2, 3, ... tokens, counted one by one."""
    rows: dict[str, list[int]] = {name: [] for name in RESERVATIONS}
    cached: list[int] = []
    reserved = 0
    most = None if window is None else touched(window)
    for token in range(LONGEST):
        cached.append(token)
        if token == reserved:
            reserved += 16
        rows["every_token"].append(token + 1)
        rows["tokens"].append(len(cached if window is None else cached[-window:]))
        rows["blocks"].append(reserved if most is None else min(reserved, most))
    return rows


@pytest.mark.parametrize("name", LAYOUTS)
def test_tokens_that_fit_are_those_of_a_count_one_by_one(name: str) -> None:
    config, layout = LAYOUTS[name]
    drawn = random.Random(name)
    layers = [(count * width, rows_by_length(window)) for count, width, window in layout]
    for reservation in RESERVATIONS:
        numbers = [
            sum(each * rows[reservation][n] for each, rows in layers) for n in range(LONGEST)
        ]
        for length, batch in ((1, 1), (90, 1), (2, 3), (700, 3), (2_000, 8)):
            spare = drawn.randrange(4 * batch * numbers[0])
            memory = 4 * batch * numbers[length - 1] + spare
            budget = memory_budget(read_config(config), memory, batch=batch)
            for number_type, size in BYTES.items():
                fits = sum(batch * size * each <= memory for each in numbers)
                found = budget.tokens[reservation][number_type]
                assert found == fits if fits < LONGEST else found >= LONGEST


@pytest.mark.parametrize("name", [name for name, preset in MODELS.items() if preset.config])
def test_one_token_more_than_fits_does_not_fit(name: str) -> None:
    model = MODELS[name].read()
    drawn = random.Random(name)
    for _ in range(6):
        memory, batch = int(2 ** drawn.uniform(20, 44)), drawn.choice((1, 2, 7, 256))
        weights = drawn.randrange(memory)
        budget = memory_budget(model, memory, weights=weights, batch=batch)
        for reservation, kept in RESERVATIONS.items():
            for number_type, tokens in budget.tokens[reservation].items():

                def size(
                    length: int, windows: bool = kept.windows, block: int = kept.block,
                    each: int = batch * BYTES[number_type],
                ) -> int:  # fmt: skip
                    return each * model.cache_numbers(length, windows=windows, block=block)

                assert 0 <= tokens <= MAX_CONTEXT
                assert tokens == 0 or size(tokens) <= memory - weights
                assert tokens == MAX_CONTEXT or memory - weights < size(tokens + 1)


def test_sizes_of_public_reports_hold_their_tokens_and_a_byte_less_one_token_less() -> None:
    """hf-mem issue 60 and pull request 70; vllm-metal issue 505."""
    for config, length, reservation, bytes_of_all in (
        (GPT_OSS_120B, 131_072, "every_token", 73_728 * 131_072),
        (GPT_OSS_120B, 131_072, "tokens", 36_864 * (131_072 + 128)),
        (GEMMA_4_31B, 262_144, "every_token", 220 * GIB),
        (GEMMA_4_31B, 262_144, "tokens", 20 * GIB + 50 * 8_192 * 1_024 * 2),
    ):
        model = read_config(config)
        for spare, fits in ((0, length), (-1, length - 1)):
            budget = memory_budget(model, bytes_of_all + spare)
            assert budget.tokens[reservation]["bfloat16"] == fits


def test_more_memory_never_holds_less_and_more_sequences_or_weights_never_more() -> None:
    model = read_config(published_config("gemma-3-4b"))

    def fits(memory: int, weights: int = 0, batch: int = 1) -> list[int]:
        budget = memory_budget(model, memory, weights=weights, batch=batch)
        return [tokens for by_type in budget.tokens.values() for tokens in by_type.values()]

    of_memory = [fits(part * GIB // 8) for part in range(64)]
    of_weights = [fits(8 * GIB, part * GIB // 8) for part in range(80)][::-1]
    of_batch = [fits(8 * GIB, 0, batch) for batch in (1, 2, 3, 5, 8, 100, 65_536)][::-1]
    for steps in (of_memory, of_weights, of_batch):
        for before, after in itertools.pairwise(steps):
            assert all(less <= more for less, more in zip(before, after, strict=True))
        assert steps[0] != steps[-1]


def said(budget: MemoryBudget) -> str:
    sentence = budget_sentence(budget)
    assert sentence.endswith(".")
    assert ". " not in sentence  # one sentence
    return sentence


def test_budget_is_said_in_one_sentence() -> None:
    llama = read_config(LLAMA)  # 128 KiB a token in bfloat16, context of 8,192
    assert said(memory_budget(llama, "24GiB", weights="16GiB", batch=16)) == (
        "8 GiB hold 4,096 tokens of each of 16 sequences in bfloat16, not the context of 8,192."
    )
    assert said(memory_budget(llama, "1GiB")) == (
        "1 GiB hold the context of 8,192 tokens of one sequence in bfloat16, and up to 8,192."
    )
    assert said(memory_budget(llama, 2**30 - 1)).endswith("not the context of 8,192.")
    assert said(memory_budget(llama, "1GiB", context=8_193)).endswith("not the context of 8,193.")
    assert said(memory_budget(llama, "24GB", weights="24GB")) == (
        "Nothing fits: weights of 22.35 GiB take all of a memory of 22.35 GiB."
    )
    assert said(memory_budget(llama, "1MiB", batch=9)) == (
        "Nothing fits: 1 MiB are left, and one token of each of 9 sequences takes 1.125 MiB in bfloat16."
    )
    # A cache of windows alone never grows past them; a server may keep every token all the same.
    windows = read_config(published_config("mistral-7b-v0.1"))  # a context of 32,768
    assert said(memory_budget(windows, "1GiB")) == (
        "1 GiB hold the context of 32,768 tokens of one sequence in bfloat16, but only 8,192 tokens on a "
        "server that keeps every token of layers with a window."
    )
    assert said(memory_budget(windows, "5GiB")) == (
        "5 GiB hold the context of 32,768 tokens of one sequence in bfloat16, and up to 16,777,216."
    )
    assert said(memory_budget(windows, "2TiB")) == (
        "2,048 GiB hold 16,777,216 tokens of one sequence in bfloat16, the most that are counted."
    )
    assert said(memory_budget(llama, 131_072 * 8_200, context=8_200)) == (
        "1.001 GiB hold the context of 8,200 tokens of one sequence in bfloat16, but only 8,192 tokens in "
        "vLLM's blocks of 16."
    )
    without = dataclasses.replace(llama, context=None)
    assert said(memory_budget(without, "1GiB")) == (
        "1 GiB hold 8,192 tokens of one sequence in bfloat16."
    )


def test_size_is_read_with_its_unit() -> None:
    for text, size in (
        ("24GiB", 24 * 1024**3), ("24 GB", 24 * 1000**3), ("1.5gib", 1536 * 1024**2),
        ("0.5 KiB", 512), ("80000MB", 80 * 1000**3), ("2TiB", 2 * 1024**4), ("0GiB", 0),
        ("0.001kB", 1),
    ):  # fmt: skip
        assert parse_size("memory", text) == size
    for text in ("24", "GiB", "", "-1GiB", "1e3GiB", "nanGiB", "24Gi", "24 G", "24GiB ", "24  GiB",
                 "1,000GiB", "９GiB", "9" * 5_000 + "GiB", "1.GiB", "24GiB\n"):  # fmt: skip
        with pytest.raises(SchemeArgumentError) as error:
            parse_size("weights", text)
        assert "weights must be a number with a unit, KiB, MiB, GiB" in str(error.value)
        assert len(str(error.value)) < 160


def test_impossible_numbers_are_refused_by_their_name() -> None:
    llama = read_config(LLAMA)
    for fact, numbers in (
        ("memory", {"memory": -1}), ("memory", {"memory": 2**80}), ("weights", {"weights": -1}),
        ("batch", {"batch": 0}), ("batch", {"batch": 65_537}), ("context", {"context": 0}),
    ):  # fmt: skip
        with pytest.raises(SchemeArgumentError, match=f"^{fact} must be a whole number"):
            memory_budget(llama, **({"memory": GIB} | numbers))


def run(*words: str, config: Config = LLAMA) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["plan", "-", *words], input=json.dumps(config))
    return result.exit_code, result.output


def test_command_prints_the_numbers_of_the_library_with_and_without_a_plan() -> None:
    words = ["--memory", "24GiB", "--weights", "16GiB", "--batch", "2"]
    for config in (LLAMA, GPT_OSS_20B):
        model = read_config(config)
        for context in ([], ["--context", "4096", "--methods", "none"]):
            length = 4_096 if context else None
            budget = memory_budget(model, "24GiB", weights="16GiB", batch=2, context=length)
            status, text = run(*words, *context, "--json", config=config)
            assert status == 0
            assert json.loads(text)["memory"] == budget_record(budget)
            assert ("methods" in json.loads(text)) is bool(context)
            status, text = run(*words, *context, config=config)
            assert status == 0
            assert budget_sentence(budget) in text.splitlines()
            for row in budget_rows(budget):
                cells = [f"{x:,}" if isinstance(x, int) else x for x in row.values()]
                assert "  ".join(cells).split() in [line.split() for line in text.splitlines()]
    assert "no windows" in text
    assert "no windows" not in run(*words)[1]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ([], "--context, the tokens to read, or --memory"),
        (["--memory", "24"], "memory must be a number with a unit"),
        (["--memory", ""], "memory must be a number with a unit"),
        (["--memory", "24GiB", "--weights", ""], "weights must be a number with a unit"),
        (["--memory", "24GiB", "--batch", "0"], "batch must be a whole number"),
        (["--memory", "24GiB", "--methods", "yarn"], "go with --context"),
        (["--context", "4096", "--weights", "16GiB"], "go with --memory"),
        (["--context", "4096", "--batch", "2"], "go with --memory"),
        (["--context", "65536", "--memory", "24GiB", "--script", "yarn"], "none of --json"),
    ],
)
def test_command_refuses_in_one_sentence(words: list[str], fact: str) -> None:
    status, text = run(*words)
    assert status == 2
    (line,) = text.splitlines()
    assert line.startswith("Error: ")
    assert fact in line
