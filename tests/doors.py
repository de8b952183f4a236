"""Every door that takes a file, without a page around it, and what may come out of each.

A door reads a file or raises an error of posenc. What it read is compared with what another reader
makes of the same bytes: numpy, safetensors, json, pyarrow, or Python's own decoder.
"""

import io
import json
import os
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
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
from click.testing import CliRunner

from dashboard import training
from posenc.__main__ import main
from posenc.errors import PickleRefused, PosencError
from posenc.identification.given import Given
from posenc.interop import find_position_tables, read_header, read_position_table, sources
from posenc.interop.models.config_word import config_word
from posenc.interop.models.json_text import read_object
from posenc.interop.number_tables import NumberTable, read_number_table
from posenc.interop.position_tables import PositionTable
from posenc.interop.run_parameters import RunParameters, run_parameters
from posenc.interop.run_parameters import _read as run_parameters_of
from posenc.interop.safetensors_file import FLOATS
from posenc.interop.sources import named_table
from posenc.lab.corpus import Corpus
from posenc.lab.run import Run
from posenc.lab.runs import Store
from posenc.lab.sweep import read_text
from posenc.run_files import ENVIRONMENT
from posenc.shared_model import SharedModel, shared_model

SECONDS = 2.0  # that any answer may take
SAFETENSORS_SECONDS = 0.2
RUN_ID = "0123456789abcdef0123"  # of a file that lies in the store without a run


def busy() -> float:
    """How much longer the same work takes where more processes run than there are cores.

    They share caches and execution units: a thread's own seconds grow, too, by up to four times here.
    """
    return 1.0 if os.getloadavg()[0] < 1.5 * (os.cpu_count() or 1) else 4.0


@dataclass(frozen=True)
class Door:
    """kind: of the files it is for. enter: reads a file's bytes; the path holds the same bytes.

    check: asserts that what was read is what the file holds, by another reader. served: whether the
    process of the pages has it; commands and paths are those of a person's own.
    """

    name: str
    kind: str
    enter: Callable[[bytes, Path], object]
    check: Callable[[bytes, object], None]
    served: bool = True


# What is read ---------------------------------------------------------------------------------------


def _learned_table(content: bytes, path: Path) -> object:
    """As the uploader of the sidebar does."""
    found = find_position_tables(read_header(content))
    return read_position_table(content, found[0].name, file_name="model.safetensors")


def _number_table(content: bytes, path: Path) -> object:
    """As Check my encoding does."""
    read = read_number_table(content)
    Given.of(read.table, read.sines)
    return read


def _model(content: bytes, path: Path) -> object:
    """As the model's paste and upload do."""
    return shared_model(config_word(content))


def _text(content: bytes, path: Path) -> object:
    """As the Train page does."""
    return training.corpus_of((content, '"a text"'))


@contextmanager
def _stored(content: bytes, name: str, path: Path) -> Iterator[Store]:
    """A store that holds one file."""
    folder = path.parent / "runs"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    # A run never changes, so what was read of one is kept; here another lies in its place.
    sources._run_table.cache_clear()
    run_parameters_of.cache_clear()
    with patch.dict("os.environ", {ENVIRONMENT: str(folder)}):
        yield Store(folder)
    for one in folder.rglob(f"{name}*"):
        one.unlink()


def _run(content: bytes, path: Path) -> object:
    # By the name that its own specification gives, where it has one: the name is checked, too.
    try:
        note = json.loads(pq.read_schema(io.BytesIO(content)).metadata[b"posenc"])
        from posenc.lab.specification import Specification

        run_id = Specification.from_record(note["specification"]).run_id
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, RecursionError):
        run_id = RUN_ID
    with _stored(content, f"{run_id}.parquet", path) as store:
        return store.read(run_id)


def _run_table(content: bytes, path: Path) -> object:
    with _stored(content, f"{RUN_ID}.safetensors", path):
        return named_table(f"run-{RUN_ID}")


def _run_parameters(content: bytes, path: Path) -> object:
    with _stored(content, f"{RUN_ID}.safetensors", path):
        return run_parameters(f"run-{RUN_ID}", "learned")


def _run_tensors(content: bytes, path: Path) -> object:
    with _stored(content, f"{RUN_ID}.safetensors", path) as store:
        return store.tables(RUN_ID)


class Said(PosencError):
    """What a command said instead of an answer."""


def _commanded(*words: str) -> Callable[[bytes, Path], object]:
    def enter(content: bytes, path: Path) -> object:
        done = CliRunner().invoke(main, [word.replace("FILE", str(path)) for word in words])
        if done.exit_code == 0:
            return done.output
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        said = done.output.removeprefix("Error: ").rstrip("\n")
        # The two lines that convert a pickle are said as they are.
        sentence, _, conversion = said.partition("\n")
        if conversion:
            raise PickleRefused(sentence, conversion)
        raise Said(said)

    return enter


# What another reader makes of the same bytes ------------------------------------------------------


def _floats(content: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint as float64, by the library; those that are numbers."""
    found = safetensors.torch.load(content)
    return {name: value for name, value in found.items() if value.is_floating_point()}


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal as float32 numbers, NaN where there is NaN."""
    one, other = ours.to(torch.float32), theirs.to(torch.float32).reshape(ours.shape)
    return bool(torch.equal(one.isnan(), other.isnan())) and bool(
        torch.equal(one.nan_to_num(0.0), other.nan_to_num(0.0))
    )


def check_learned(content: bytes, read: object) -> None:
    assert isinstance(read, PositionTable)
    held = _floats(content)[read.tensor]
    rows = held.reshape(-1, held.shape[-1])[read.first_row :]
    assert _same(read.table, rows)


def check_numbers(content: bytes, read: object) -> None:
    assert isinstance(read, NumberTable)
    if content.startswith(b"\x93NUMPY"):
        array = np.load(io.BytesIO(content), allow_pickle=False)
        ours = read.table.numpy() if read.sines is None else torch.stack((read.table, read.sines))
        np.testing.assert_array_equal(np.asarray(ours), array.astype(array.dtype.newbyteorder("=")))
        return
    tensors = _floats(content)
    parts = [read.table] if read.sines is None else [read.table, read.sines]
    for part in parts:
        assert any(_same(part, one) for one in tensors.values() if one.numel() == part.numel())


def check_model(content: bytes, read: object) -> None:
    """A config is read where json reads one object, and no key of it twice."""
    assert isinstance(read, SharedModel)
    theirs = json.loads(content.decode("utf-8-sig"))
    assert isinstance(theirs, dict)
    assert read_object(content) == theirs
    written = theirs.get("text_config") or theirs
    for name in ("hidden_size", "num_hidden_layers"):
        ours = {"hidden_size": read.config.hidden_size, "num_hidden_layers": read.config.layers}
        if name in written and str(written.get("model_type")).startswith("llama"):
            assert ours[name] == written[name]


def check_text(content: bytes, read: object) -> None:
    assert isinstance(read, Corpus)
    whole = read.train.numpy().tobytes() + read.validation.numpy().tobytes()
    assert whole == content.decode("utf-8", "replace").encode()
    assert len(read.validation) >= 1_000


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


def check_said(content: bytes, read: object) -> None:
    """A command that answered did so in words."""
    assert isinstance(read, str)
    assert read.strip()
    assert read.replace("\n", "").isprintable()  # or the terminal would be told to do something


DOORS = (
    Door("learned table", "checkpoint", _learned_table, check_learned),
    Door("Check my encoding", "numbers", _number_table, check_numbers),
    Door("learned table by its path", "checkpoint",
         lambda _, path: read_position_table(path), check_learned, False),
    Door("numbers by their path", "numbers", lambda _, path: read_number_table(path), check_numbers, False),
    Door("config", "config", _model, check_model),
    Door("text", "text", _text, check_text),
    Door("text by its path", "text", lambda _, path: read_text(str(path)), check_text, False),
    Door("run", "run", _run, check_run),
    Door("table of a run", "parameters", _run_table, check_learned),
    Door("parameters of a run", "parameters", _run_parameters, check_parameters),
    Door("tensors of a run", "parameters", _run_tensors, check_parameters),
    Door("inspect", "config", _commanded("inspect", "FILE"), check_said, False),
    Door("plan", "config", _commanded("plan", "FILE", "--context", "65536"), check_said, False),
    Door("identify", "numbers", _commanded("identify", "FILE"), check_said, False),
)  # fmt: skip

assert set(FLOATS) >= {"F32", "F16"}  # what `_floats` counts as numbers is what is read


# What may be said -----------------------------------------------------------------------------------

_TYPE_NAME = re.compile(
    r"\b(?!(?:Error|Warning)\b)[A-Z]\w*(?:Error|Exception|Warning|Interrupt)\b|"
    r"\bArrow[A-Z]\w+|<class |NoneType|__\w+__\("
)
_SERVER = re.compile(
    r"Traceback|site-packages|\.py\b|/home/|/tmp/|/usr/|line \d+, in|"
    # wherever this checkout and its interpreter are
    + "|".join(re.escape(str(place)) for place in (Path(__file__).parents[1], sys.prefix))
)


def assert_plain(sentence: str) -> None:
    """One sentence for people: no path of the server, no trace, no name of a type."""
    assert sentence.isprintable(), sentence
    assert sentence.endswith((".", ":")), sentence
    assert len(sentence) < 1_200, len(sentence)
    assert _SERVER.search(sentence) is None, sentence
    assert _TYPE_NAME.search(sentence) is None, sentence


def tried(door: Door, content: bytes, path: Path) -> str | None:
    """Give a file to a door; return what it said, None where it read the file rightly.

    Anything but an error of posenc goes through.
    """
    try:
        read = door.enter(content, path)
    except PosencError as error:
        refused = error
    else:
        door.check(content, read)
        return None
    sentence = refused.sentence if isinstance(refused, PickleRefused) else str(refused)
    assert_plain(sentence)
    assert str(path.parent) not in str(refused), sentence
    return sentence
