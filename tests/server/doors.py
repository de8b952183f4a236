"""Every door: a function or command that reads a file, and a check of what it has read.

A door reads a file or raises an error of posenc. What it has read is compared with what another reader
makes of the same bytes: numpy, safetensors, json, pyarrow, or Python's own decoder.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
import torch
from click.testing import CliRunner

from dashboard import visitor_weights
from dashboard.settings import ChosenModel, chosen_model
from dashboard.training_text import TrainingText
from posenc.__main__ import main
from posenc.checkpoints import find_position_tables, read_header, read_position_table, sources
from posenc.checkpoints.array_files import NumberTable, read_number_table
from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.checkpoints.position_table import PositionTable
from posenc.checkpoints.sources import RunParameters, named_table, run_parameters
from posenc.checkpoints.sources import _run_parameters as run_parameters_of
from posenc.errors import PickleRefused, PosencError
from posenc.identification.columns import TableInput
from posenc.lab.corpus import Corpus
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification
from posenc.lab.sweep import read_text
from posenc.models import Projections, read_config, read_projections
from posenc.models.config_json import read_object
from posenc.models.config_token import config_token

RUN_ID = "0123456789abcdef0123"  # of a file in a store without a run
# Of a model whose one layer has 2 heads of 4 features, and as many heads of keys.
HEADS, HEAD_DIM = 2, 4
SMALL_MODEL = {
    "model_type": "llama", "hidden_size": 8, "num_attention_heads": HEADS, "head_dim": HEAD_DIM,
    "num_key_value_heads": HEADS, "num_hidden_layers": 1, "max_position_embeddings": 64,
    "rope_theta": 1e4,
}  # fmt: skip
PROJECTION = "layers.0.self_attn.{}_proj.weight"


@dataclass(frozen=True)
class Door:
    """kind: of the files it is for. enter: reads a file, given as its bytes and as its path.

    check: asserts that what was read is what the file holds, by another reader.
    """

    name: str
    kind: str
    enter: Callable[[bytes, Path], object]
    check: Callable[[bytes, object], None]


def _learned_table(content: bytes) -> object:
    found = find_position_tables(read_header(content))
    return read_position_table(content, found[0].name, file_name="model.safetensors")


def _number_table(content: bytes) -> object:
    read = read_number_table(content)
    TableInput.of(read.table, read.sines)
    return read


@contextmanager
def _stored(content: bytes, name: str, path: Path) -> Iterator[Store]:
    folder = path.parent / "runs"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    # A run never changes, so its reading is cached; here another takes its place.
    sources._run_table.cache_clear()
    run_parameters_of.cache_clear()
    with patch.dict("os.environ", {ENVIRONMENT: str(folder)}):
        yield Store(folder)
    for leftover in folder.rglob(f"{name}*"):
        leftover.unlink()


def _run(content: bytes, path: Path) -> object:
    # Under the name that its own specification gives, which is checked, too.
    try:
        note = json.loads(pq.read_schema(io.BytesIO(content)).metadata[b"posenc"])
        run_id = Specification.from_record(note["specification"]).run_id
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, RecursionError):
        run_id = RUN_ID
    with _stored(content, f"{run_id}.parquet", path) as store:
        return store.read(run_id)


def _of_run(read: Callable[[Store], object]) -> Callable[[bytes, Path], object]:
    def enter(content: bytes, path: Path) -> object:
        with _stored(content, f"{RUN_ID}.safetensors", path) as store:
            return read(store)

    return enter


def _command(*words: str) -> Callable[[bytes, Path], object]:
    def enter(content: bytes, path: Path) -> object:
        result = CliRunner().invoke(main, [word.replace("FILE", str(path)) for word in words])
        if result.exit_code == 0:
            return result.stdout
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        sentence, _, conversion = result.output.removeprefix("Error: ").strip().partition("\n")
        if conversion:  # of a pickle, in two lines
            raise PickleRefused(sentence, conversion)
        raise PosencError(sentence)

    return enter


def _of_small_model(*words: str) -> Callable[[bytes, Path], object]:
    """Return the door of a command that takes CONFIG, too."""

    def enter(content: bytes, path: Path) -> object:
        config = path.parent / "small.json"
        config.write_text(json.dumps(SMALL_MODEL))
        return _command(*(word.replace("CONFIG", str(config)) for word in words))(content, path)

    return enter


def _visitors_projections(content: bytes) -> object:
    held = visitor_weights.of_file("model.safetensors", content, None)
    return read_projections(held.checkpoint, read_config(SMALL_MODEL), 0)


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal as float32 numbers, NaN where there is NaN."""
    left, right = ours.to(torch.float32), theirs.to(torch.float32).reshape(ours.shape)
    return torch.allclose(left, right, rtol=0, atol=0, equal_nan=True)  # the stored numbers


def check_learned(content: bytes, read: object) -> None:
    assert isinstance(read, PositionTable)
    held = safetensors.torch.load(content)[read.tensor]
    assert _same(read.table, held.reshape(-1, held.shape[-1])[read.first_row :])


def check_numbers(content: bytes, read: object) -> None:
    assert isinstance(read, NumberTable)
    parts = [read.table] if read.sines is None else [read.table, read.sines]
    if content.startswith(b"\x93NUMPY"):
        array = np.load(io.BytesIO(content), allow_pickle=False)
        ours = np.asarray(parts[0] if len(parts) == 1 else torch.stack(parts))
        np.testing.assert_array_equal(ours, array.astype(array.dtype.newbyteorder("=")))
        return
    tensors = safetensors.torch.load(content).values()
    for part in parts:
        assert any(_same(part, one) for one in tensors if one.numel() == part.numel())


def check_model(content: bytes, read: object) -> None:
    """A config is read where json reads one object, and no key of it twice."""
    assert isinstance(read, ChosenModel)
    theirs = json.loads(content.decode("utf-8-sig"))
    assert isinstance(theirs, dict)
    assert read_object(content) == theirs
    written = theirs.get("text_config") or theirs
    if str(written.get("model_type")).startswith("llama"):
        sizes = {"hidden_size": read.config.hidden_size, "num_hidden_layers": read.config.layers}
        for key, size in sizes.items():
            if written.get(key) is not None:
                assert size == written[key]
            else:  # missing or null: the default of transformers, which is said
                assert any(key in sentence for sentence in read.config.assumed)


def check_text(content: bytes, read: object) -> None:
    assert isinstance(read, Corpus)
    whole = read.train.numpy().tobytes() + read.validation.numpy().tobytes()
    assert whole == content.decode("utf-8", "replace").encode()


def check_run(content: bytes, read: object) -> None:
    assert isinstance(read, Run)
    table = pq.read_table(io.BytesIO(content))
    said = [(row["measure"], row["value"]) for row in table.to_pylist()]
    ours = [(score.measure, score.value) for score in read.scores]
    ours += [("training", loss) for loss in read.losses]
    assert sorted(map(repr, ours)) == sorted(map(repr, said))


def check_parameters(content: bytes, read: object) -> None:
    tensors = read.tensors if isinstance(read, RunParameters) else read
    assert isinstance(tensors, dict)
    theirs = safetensors.torch.load(content)
    for name, value in tensors.items():
        held = theirs.get(f"scheme.{name}", theirs.get(name))
        assert held is not None
        assert _same(value, held)


def check_output(content: bytes, read: object) -> None:
    assert isinstance(read, str)
    assert read.strip()
    assert read.replace("\n", "").isprintable()  # else it might control the terminal


def check_projections(content: bytes, read: object) -> None:
    assert isinstance(read, Projections)
    held = safetensors.torch.load(content)
    for name, weight in zip(read.tensors, (read.queries, read.keys), strict=True):
        assert _same(weight, held[name])


def check_pairs(content: bytes, read: object) -> None:
    """Every bound is the product of two singular values over the root of the head's width."""
    assert isinstance(read, str)
    (told,) = json.loads(read)
    held = [safetensors.torch.load(content)[name].double().numpy() for name in told["tensors"]]
    for head, bounds in enumerate(told["bounds"]):
        for pair, bound in enumerate(bounds):
            rows = [head * HEAD_DIM + pair, head * HEAD_DIM + pair + HEAD_DIM // 2]
            norms = [np.linalg.svd(part[rows], compute_uv=False)[0] for part in held]
            np.testing.assert_allclose(bound, norms[0] * norms[1] / HEAD_DIM**0.5, rtol=1e-9)


def check_attention(content: bytes, read: object) -> None:
    """Keys are the queries, so that the length of each pair's part is the same in both."""
    assert isinstance(read, str)
    told = json.loads(read)
    array = np.load(io.BytesIO(content), allow_pickle=False).astype(np.float32)
    vectors = array.reshape(-1, *array.shape[-2:])
    assert told["tokens"] == vectors.shape[1]
    np.testing.assert_array_less(told["entropy"], np.log(vectors.shape[1]) + 1e-9)
    half = HEAD_DIM // 2
    for head, lengths in enumerate(told["query_lengths"]):
        parts = np.hypot(vectors[head, :, :half], vectors[head, :, half:]).astype(float)
        np.testing.assert_allclose(lengths, parts.mean(0), rtol=1e-5, atol=1e-30)


_TABLE_OF_RUN = _of_run(lambda _: named_table(f"run-{RUN_ID}"))
_PARAMETERS = _of_run(lambda _: run_parameters(f"run-{RUN_ID}", "learned"))
DOORS = (
    Door("learned table", "checkpoint", lambda given, _: _learned_table(given), check_learned),
    Door("Check my encoding", "numbers", lambda given, _: _number_table(given), check_numbers),
    Door("learned path", "checkpoint", lambda _, path: read_position_table(path), check_learned),
    Door("numbers path", "numbers", lambda _, path: read_number_table(path), check_numbers),
    Door("config", "config", lambda given, _: chosen_model(config_token(given)), check_model),
    Door("text", "text", lambda given, _: TrainingText(given, '"a text"').corpus, check_text),
    Door("text path", "text", lambda _, path: read_text(str(path)), check_text),
    Door("run", "run", _run, check_run),
    Door("table of a run", "parameters", _TABLE_OF_RUN, check_learned),
    Door("parameters of a run", "parameters", _PARAMETERS, check_parameters),
    Door("tensors of a run", "parameters", _of_run(lambda at: at.tables(RUN_ID)), check_parameters),
    Door("inspect", "config", _command("inspect", "FILE"), check_output),
    Door("plan", "config", _command("plan", "FILE", "--context", "65536"), check_output),
    Door("identify", "numbers", _command("identify", "FILE"), check_output),
    Door("pairs", "projections", _of_small_model("pairs", "FILE", "--config", "CONFIG", "--json"),
         check_pairs),
    Door("visitor's projections", "projections", lambda given, _: _visitors_projections(given),
         check_projections),
    Door("attention", "vectors",
         _of_small_model("attention", "FILE", "FILE", "--config", "CONFIG", "--json"),
         check_attention),
)  # fmt: skip


_TYPE_NAME = re.compile(
    r"\b(?!(?:Error|Warning)\b)[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b|"
    r"\bArrow[A-Z]\w+|<class |NoneType|__\w+__\("
)
_SERVER = re.compile(
    r"Traceback|site-packages|\.py\b|/home/|/tmp/|/usr/|line \d+, in|"
    # wherever this checkout and its interpreter are
    + "|".join(re.escape(str(place)) for place in (Path(__file__).parents[2], sys.prefix))
)


def answer(door: Door, content: bytes, path: Path) -> str | None:
    """Return the sentence with which a door refuses a file, None where it reads it right.

    It names no path of the server, no trace and no type; an error that is not of posenc goes through.
    """
    try:
        read = door.enter(content, path)
    except PosencError as error:
        refused = error
    else:
        door.check(content, read)
        return None
    sentence = refused.sentence if isinstance(refused, PickleRefused) else str(refused)
    assert sentence.isprintable(), sentence
    assert sentence.endswith((".", ":")), sentence
    assert len(sentence) < 1_200, len(sentence)
    assert _SERVER.search(sentence) is None, sentence
    assert _TYPE_NAME.search(sentence) is None, sentence
    assert str(path.parent) not in str(refused), sentence
    return sentence
