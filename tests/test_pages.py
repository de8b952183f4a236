"""Every page without a browser: it draws, says what it shows, downloads, and fails in one sentence."""

import ast
import csv
import io
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.testing.v1 import AppTest

from dashboard import compute, pca
from dashboard.choices import PAGE_CHOICES
from posenc import limits
from posenc.errors import SchemeArgumentError
from tests.pages import (
    DASHBOARD,
    KINDS,
    LABELS,
    PAGES,
    SCHEME_PAGES,
    as_read,
    captions,
    charts,
    drawn,
    headline,
    matrices,
    notices,
    of,
    opened,
    rows_of_matrices,
    setting,
    table,
    visit,
)

# A visitor's pages, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


LONGEST, WIDEST = limits.MAX_SHOWN_LENGTH, limits.MAX_SHOWN_DIM
LEGAL = {
    "defaults": {},
    "equal width": {"equal_width": "true"},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16", "alibi_head": "3"},
    "longest": {
        "length": str(LONGEST),
        "dim": str(limits.MAX_SHOWN_ELEMENTS // LONGEST),
        "heads": "64",
        "train_length": str(limits.MAX_TRAIN_LENGTH),
    },
    "widest": {
        "dim": str(WIDEST),
        "length": str(limits.MAX_SHOWN_ELEMENTS // WIDEST),
        "heads": "1",
        "precision": "bfloat16",
    },
    "largest base": {"base": "1e12", "length": "2048", "train_length": "2048"},
    "smallest base": {"base": "2", "seed": "2147483647"},
    "halves": {"sinusoidal.layout": "half", "rope.layout": "half"},
    "partial rotary": {"rope.partial_rotary_factor": "0.25"},
    "own choices": {
        "reference": "255",
        "fit": "all",
        "offset": "64",
        "second": "64",
        "reach": "16",
        "pair": "2047",
        "start": "xavier",
        "scaled": "false",
        "notation": "t, k",
        "substituted": "true",
    },
}


@pytest.mark.parametrize("page", SCHEME_PAGES)
@pytest.mark.parametrize("name", LEGAL)
def test_every_page_draws_any_legal_link_without_a_notice(page: str, name: str) -> None:
    at = drawn(visit(page, LEGAL[name]))
    assert notices(at) == []
    assert len(charts(at)) >= 1


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kinds", [(kind,) for kind in KINDS] + [KINDS], ids=",".join)
def test_every_page_draws_any_choice_of_schemes(page: str, kinds: tuple[str, ...]) -> None:
    at = drawn(visit(page, schemes=list(kinds)))
    assert notices(at) == []
    assert setting(at).schemes == kinds
    if page == "check_my_encoding":
        return  # its headline names the scheme of a table, whichever are chosen
    for kind in KINDS:
        named = LABELS[kind] in headline(at)
        assert named <= (kind in kinds)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("trained", ["1", "2"])
def test_every_page_draws_the_smallest_legal_setting(page: str, trained: str) -> None:
    link = {"dim": "2", "heads": "1", "length": "2", "train_length": trained, "base": "2"}
    at = drawn(visit(page, link, schemes=list(KINDS)))
    assert notices(at) == []
    assert setting(at).length == 2


@pytest.mark.parametrize("page", PAGES)
def test_every_page_draws_a_real_trained_table(page: str) -> None:
    at = drawn(visit(page, {"length": "600", "train_length": "64"}, learned_source="minilm"))
    assert notices(at) == []
    assert setting(at).learned_source == "minilm"


# What is said -------------------------------------------------------------------------------------

NOTES = {
    "sinusoidal": "width 512; heads change nothing here",
    "rope": "width 64 = 512 / 8",
    "alibi": "mean of 8 heads; model dimension and base change nothing here",
    "none": "model dimension, base and heads change nothing here",
}


def notes(at: AppTest) -> list[str]:
    """What is written under a panel's title, or of every scheme in a list."""
    subtitles = [
        panel["subtitle"] for header, _ in rows_of_matrices(at) for panel in header["panels"]
    ]
    lines = [line for caption in captions(at) for line in caption.split("\n")]
    return subtitles + [
        re.sub(rf"^- (?:{'|'.join(LABELS.values())}): ", "", line) for line in lines
    ]


@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_each_panel_says_its_real_width_and_what_it_ignores(page: str) -> None:
    at = drawn(visit(page, schemes=list(KINDS)))
    assert [note for note in NOTES.values() if note not in notes(at)] == []
    assert any(note.endswith("base and heads change nothing here") for note in notes(at))
    at = drawn(visit(page, {"equal_width": "true", "alibi_head": "3"}, schemes=list(KINDS)))
    # RoPE has the whole dimension then, and what sinusoidal says: heads change nothing.
    assert notes(at).count(NOTES["sinusoidal"]) == 2
    assert "head 3 of 8 heads; model dimension and base change nothing here" in notes(at)


@pytest.mark.parametrize(
    "page",
    SCHEME_PAGES,
)
def test_a_trained_table_is_given_its_own_width(page: str) -> None:
    at = drawn(visit(page, schemes=["learned"], learned_source="minilm"))
    ignored = "model dimension, base and heads change nothing here"
    (note,) = [note for note in notes(at) if note.endswith(ignored)]
    assert "384" in note
    assert "width 512" not in note


@pytest.mark.parametrize(
    "page",
    PAGES,
)
def test_a_panel_says_that_it_is_rounded_where_its_numbers_are(page: str) -> None:
    link = {"dim": "64", "length": "48", "train_length": "32"}
    exact = drawn(visit(page, link, schemes=["sinusoidal"]))
    coarse = drawn(visit(page, link | {"precision": "float16"}, schemes=["sinusoidal"]))
    pairs = zip(charts(exact), charts(coarse), strict=True)
    moved = any(not one.equals(other) for one, other in pairs)
    assert any("rounded to float16" in note for note in notes(coarse)) == moved
    assert not any("rounded" in note for note in notes(exact))


def test_learned_is_blank_past_the_training_length_and_says_so() -> None:
    link = {"length": "64", "train_length": "20", "reference": "30", "learned_source": "random"}
    at = drawn(visit("similarity", link, from_one_position=True))
    header, shown = matrices(at)
    blank = np.isnan(shown["Learned"])
    assert not blank[:20, :20].any()
    assert blank[20:].all()
    assert blank[:, 20:].all()
    assert not np.isnan(shown["RoPE"]).any()
    assert {panel["boundary"] for panel in header["panels"]} == {20}
    assert "Learned: no row exists at position 30." in captions(at)
    assert of(charts(at)[1], "learned").empty
    at = drawn(visit("pca", link))
    assert any("fitted on 20 positions, 0 past them" in caption for caption in captions(at))


def test_an_untrained_table_is_called_noise_and_a_trained_one_is_not() -> None:
    at = drawn(visit("overview", learned_source="random"))
    assert sum("Untrained: this is noise" in text.value for text in at.markdown) == 1
    for trained in ("trained", "minilm"):
        at = drawn(visit("overview", learned_source=trained))
        assert not any("Untrained" in text.value for text in at.markdown)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_its_formula_its_source_and_how_to_read_it(page: str) -> None:
    at = drawn(visit(page, definition=True))
    labels = [one.label for one in at.expander]
    assert "How to read this" in labels
    (definition,) = [one for one in at.expander if one.label == "Definition and code"]
    assert definition.latex
    assert definition.code
    for code in definition.code:
        ast.parse(code.value)


# Downloads ----------------------------------------------------------------------------------------

DOWNLOADS = [
    ("start", "start curves"),
    ("overview", "overview curves"),
    ("overview", "measured properties"),
    ("encoding", "first entries"),
    ("encoding", "pairs"),
    ("encoding", "waves"),
    ("encoding", "worked example"),
    ("encoding", "position beside content"),
    ("similarity", "similarity by distance"),
    ("similarity", "similarity to one position"),
    ("pca", "scores"),
    ("pca", "explained variance"),
    ("relative_offsets", "one matrix per offset"),
    ("relative_offsets", "map errors by offset"),
    ("relative_offsets", "offset only"),
    ("relative_offsets", "straight line"),
    ("extrapolation", "past the training length"),
    ("extrapolation", "nearest seen position"),
    ("extrapolation", "turns per pair"),
    ("extrapolation", "frequencies"),
    ("why_position", "difference by word"),
    ("why_position", "outputs by word"),
    ("why_position", "attention weights"),
    ("claims", "claims"),
    ("context_planner", "methods"),
    ("context_planner", "pairs"),
    ("context_planner", "expected logit to the target"),
    ("context_planner", "base bound by distance"),
    ("context_planner", "position resolution"),
    ("check_my_encoding", "what this table is"),
    ("check_my_encoding", "largest difference by column"),
    ("check_my_encoding", "scores of two layouts"),
    ("check_my_encoding", "probes of positions"),
]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Every file that a page holds ready for download, by name."""
    kept: dict[str, bytes] = {}
    real = MemoryMediaFileStorage.load_and_get_id

    def keep(self: Any, data: Any, mimetype: str, kind: Any, filename: str | None = None) -> str:
        kept[str(filename)] = data
        return real(self, data, mimetype, kind, filename)

    monkeypatch.setattr(MemoryMediaFileStorage, "load_and_get_id", keep)
    return kept


@pytest.mark.parametrize(("page", "name"), DOWNLOADS)
def test_a_download_holds_the_numbers_of_its_table(
    page: str, name: str, files: dict[str, bytes]
) -> None:
    link = {"dim": "32", "heads": "4", "length": "24", "train_length": "16"}
    shown = table(drawn(visit(page, link, **opened(name))), name)
    ((filename, content),) = files.items()
    assert re.fullmatch(r"posenc-[a-z-]+\.csv", filename)
    first, *again = csv.reader(io.StringIO(content.decode()))
    assert first == list(shown)
    assert len(again) == len(shown)
    for column, texts in zip(shown, zip(*again, strict=True), strict=True):
        if shown[column].dtype.kind in "fi":
            numbers = [float(text or "nan") for text in texts]
            assert np.array_equal(numbers, shown[column].astype(float), equal_nan=True)
        else:
            assert list(texts) == shown[column].astype(str).tolist()


@pytest.mark.parametrize("page", PAGES)
def test_every_download_is_tested_and_nothing_travels_before_it_is_opened(
    page: str, files: dict[str, bytes]
) -> None:
    at = drawn(visit(page))
    numbers = {one.label.removeprefix("Numbers: ") for one in at.expander if "Numbers" in one.label}
    assert numbers == {name for path, name in DOWNLOADS if path == page}
    assert files == {}


# Faults -------------------------------------------------------------------------------------------

# What each page computes at its heart.
CENTRE = {
    "start": (compute, "cosine"),
    "overview": (compute, "cosine"),
    "encoding": (compute, "provenance"),
    "similarity": (compute, "reference_row"),
    "pca": (pca, "projected"),
    "relative_offsets": (compute, "offset_claims"),
    "extrapolation": (compute, "past"),
}
SECRET = "/home/someone/secret/token.txt"


def broken(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        *((page, RuntimeError) for page in SCHEME_PAGES),
        ("overview", KeyError),
        ("similarity", OSError),
        ("extrapolation", ZeroDivisionError),
    ],
)
def test_a_fault_is_one_sentence_with_an_incident_that_the_log_explains(
    page: str,
    fault: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(*CENTRE[page], broken(fault(f"cannot read {SECRET}")))
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit(page)
    assert not at.exception
    (box,) = at.error
    assert re.fullmatch(r"[^\n]*incident [0-9a-f]{8}[^\n]*\.", box.value)
    incident = re.search(r"incident ([0-9a-f]{8})", box.value)
    assert incident
    elements = [*at.main, *at.sidebar]
    everything = " ".join(str(one.proto) for one in elements if hasattr(one, "proto"))
    for part in (SECRET, "Traceback", "site-packages", fault.__name__, str(DASHBOARD)):
        assert part not in everything
    (record,) = [entry for entry in caplog.records if entry.name == "dashboard"]
    assert incident[1] in record.getMessage()
    assert SECRET in record.getMessage()


@pytest.mark.parametrize("fault", [MemoryError, ImportError])
def test_no_memory_and_no_module_are_incidents_too(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*CENTRE["pca"], broken(fault(SECRET)))
    at = visit("pca")
    assert not at.exception
    assert len(at.error) == 1


@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_an_error_of_the_library_is_shown_in_its_own_words(
    page: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "length must be a whole number from 1 to 9, got 10."
    monkeypatch.setattr(*CENTRE[page], broken(SchemeArgumentError(sentence)))
    at = visit(page)
    assert not at.exception
    assert [as_read(box.value) for box in at.error] == [sentence]
    assert not [entry for entry in caplog.records if entry.name == "dashboard"]


def test_a_fault_on_one_page_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*CENTRE["pca"], broken(RuntimeError("no")))
    at = visit("pca", {"base": "500"})
    assert len(at.error) == 1
    at.switch_page("views/extrapolation.py").run()
    assert setting(drawn(at)).base == 500


# Caches and what must not be in the code ----------------------------------------------------------


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(DASHBOARD.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_every_cache_is_bounded_and_keyed_by_parameters() -> None:
    shared = {"CACHE": compute.CACHE, "MANY": compute.MANY}
    # Numbers and words, and frozen dataclasses of nothing else, which Streamlit keys field by field.
    keys = {"Query", "Setting", "int", "float", "str", "bool", "tuple[str, ...]", "tuple[int, ...]"}
    keys |= {choice.__name__ for choice in PAGE_CHOICES}
    cached = 0
    for path, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if "cache_data" not in text and "cache_resource" not in text:
                    continue
                cached += 1
                where = f"{path.name}: {node.name}"
                assert isinstance(decorator, ast.Call), where
                options = {word.arg for word in decorator.keywords}
                for word in decorator.keywords:
                    if word.arg is None:
                        options |= set(shared[ast.unparse(word.value)])
                assert "max_entries" in options, where
                for argument in node.args.args:
                    if argument.arg.startswith("_"):
                        continue  # Streamlit makes no key of it
                    kind = ast.unparse(argument.annotation) if argument.annotation else ""
                    assert kind in keys, f"{where} takes {kind or 'anything'}"
    assert cached >= 10


def test_the_dashboard_draws_no_raw_html_and_runs_no_foreign_code() -> None:
    banned = {"html", "eval", "exec", "iframe", "load"}
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = (
                    node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else ast.unparse(node.func)
                )
                assert name not in banned, f"{path.name}:{node.lineno} calls {name}"
                assert not any(word.arg == "unsafe_allow_html" for word in node.keywords)
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "pickle" not in ast.unparse(node)
