"""Corpora: which files validate, hashes, cutting and decoding of text."""

import hashlib
import itertools
import math
import random
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posenc.errors import CorpusError
from posenc.lab.corpus import (
    PAIR_COUNT,
    decoded,
    from_files,
    from_text,
    library_code,
    library_prose,
    standard_library,
)
from tests.lab.small_runs import sentences


def make_files(count: int = 60) -> list[tuple[str, bytes]]:
    """Return files of 600 bytes; no two files have a byte in common, so that a side shows its files."""
    return [(f"folder/file {n}.txt", bytes([n]) * 600) for n in range(count)]


def as_bytes(side: torch.Tensor) -> bytes:
    return bytes(side.tolist())


def test_every_file_is_whole_on_exactly_one_side() -> None:
    corpus = from_files("many", make_files())
    sides = [as_bytes(corpus.train), as_bytes(corpus.validation)]
    counts = [[side.count(content) for side in sides] for _, content in make_files()]
    assert all(sorted(pair) == [0, 1] for pair in counts)
    assert {pair.index(1) for pair in counts} == {0, 1}
    for side in sides:  # nothing else but a new line between two files (file 10 is new lines)
        inside = [content for _, content in make_files() if content in side]
        assert len(side) == 600 * len(inside) + len(inside) - 1


def test_added_files_move_no_file_to_the_other_side() -> None:
    before = as_bytes(from_files("few", make_files(50)).validation)
    after = as_bytes(from_files("more", make_files(60)).validation)
    contents = [content for _, content in make_files(50)]
    assert [content in before for content in contents] == [content in after for content in contents]


def test_hash_depends_on_names_and_bytes_but_not_on_order() -> None:
    files = make_files()
    plain = from_files("many", files)
    again = from_files("another title", random.Random(0).sample(files, len(files)))
    assert again.sha256 == plain.sha256
    assert torch.equal(again.train, plain.train)
    assert torch.equal(again.validation, plain.validation)
    (one, first), (two, second), *others = files
    changed = [
        [(one, first[:-1] + b"!"), (two, second), *others],
        [(one, first + b"!"), (two, second), *others],
        [(one + "x", first), (two, second), *others],
        [(one, first[:-1]), (two, first[-1:] + second), *others],  # one byte moves to the next file
    ]
    assert len({plain.sha256, *(from_files("many", some).sha256 for some in changed)}) == 5
    contents = [sentences(), sentences() + b".", b"#" + sentences()[1:], sentences()[:-1] + b"#"]
    assert len({from_text("a text", content).sha256 for content in contents}) == 4


def test_text_is_cut_once_at_the_start_of_a_line() -> None:
    content = sentences()
    corpus = from_text("a text", content)
    train, validation = as_bytes(corpus.train), as_bytes(corpus.validation)
    assert train + validation == content
    assert train.endswith(b"\n")
    assert 0.05 * len(content) < len(validation) <= 0.1 * len(content)
    one_line = content.replace(b"\n", b" ")
    assert len(from_text("one line", one_line).validation) == len(content) // 10


@settings(max_examples=50)
@given(st.binary(max_size=60) | st.text(max_size=20).map(str.encode))
@example(b"\xed\xa0\x80 a lone surrogate")
@example("half of é".encode()[:-1])
@example(b"\xf0\x9f\x98")
def test_decoding_replaces_and_counts_bytes_that_are_no_utf8(content: bytes) -> None:
    text, replaced = decoded(content)
    assert text == content.decode("utf-8", errors="replace")
    covered, at = 0, 0  # bytes that belong to a whole character, by a plain loop
    while at < len(content):
        for size in (1, 2, 3, 4):
            try:
                if len(content[at : at + size].decode()) == 1:
                    covered, at = covered + size, at + size
                    break
            except UnicodeDecodeError:
                continue
        else:
            at += 1
    assert replaced == len(content) - covered


def test_many_bad_bytes_are_counted_in_linear_time() -> None:
    """Two million replacements: with a copy of the rest at each of them the test would time out."""
    text, replaced = decoded(b"abcde \xff\xfe \n" * 1_000_000)
    assert (len(text), replaced) == (10_000_000, 2_000_000)


def test_content_or_files_that_are_no_two_sides_of_text_are_refused() -> None:
    no_text = "no UTF-8 text"
    for content, message in (
        (b"", "empty"),
        (sentences()[:19_999], "at least 20,000 bytes"),
        (sentences() + b"\0", no_text),
        (random.Random(0).randbytes(50_000), no_text),
        (sentences().decode().encode("utf-16"), no_text),
    ):
        with pytest.raises(CorpusError, match=message):
            from_text("a text", content)
    assert from_text("short", sentences()[:19_996] + b"c\xe4t.").replaced == 1
    for files in ([], make_files(3), [("one.txt", sentences())]):
        with pytest.raises(CorpusError, match="at least 20,000 bytes"):
            from_files("few", files)


def test_loss_of_byte_pairs_is_that_of_their_counts() -> None:
    corpus = from_text("a text", sentences())
    train, validation = (bytes(side.tolist()) for side in (corpus.train, corpus.validation))
    pairs = Counter(itertools.pairwise(train))
    first = Counter(train[:-1])
    losses = [
        -math.log((pairs[a, b] + PAIR_COUNT) / (first[a] + 256 * PAIR_COUNT))
        for a, b in itertools.pairwise(validation)
    ]
    assert corpus.pair_loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)


def test_standard_library_leaves_out_tests_and_installed_packages() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    corpus = standard_library()
    assert corpus.replaced == 0
    whole = as_bytes(corpus.train), as_bytes(corpus.validation)

    def contains(path: Path) -> bool:
        content = path.read_bytes()
        return any(content in side for side in whole)

    for name in ("argparse.py", "json/decoder.py", "unittest/case.py"):
        assert contains(root / name), name
    # Some builds of Python come without its tests, some with those of few modules.
    tests = [path for path in sorted(root.glob("test/**/*.py")) if path.stat().st_size > 100][:5]
    outside = [Path(pytest.__file__), Path(torch.__file__), *root.glob("_sysconfigdata*.py")]
    for path in [*outside, *tests]:
        assert not contains(path), path


@pytest.mark.parametrize("shared", [64, 65, 300])
def test_sides_that_are_apart_have_no_window_in_common(shared: int) -> None:
    """By a plain loop over sets of windows; one byte less in common may stay."""
    draw = random.Random(shared)
    sides = {name: draw.randbytes(700) for name, _ in make_files()}
    validating = [name for name in sides if name_validates(name)]
    training = next(name for name in sides if not name_validates(name))
    first, second = validating[:2]
    common = sides[training][100 : 100 + shared]
    sides[first] = sides[first][:310] + common + sides[first][310:]
    sides[second] = sides[second][:310] + common[:63] + sides[second][310:]
    corpus = from_files("made up", sides.items(), apart=64)
    train, validation = as_bytes(corpus.train), as_bytes(corpus.validation)
    seen = windows(train, 64)
    assert not seen & windows(validation, 64)
    whole = from_files("made up", sides.items())
    assert as_bytes(whole.train) == train
    assert windows(as_bytes(whole.validation), 64) & seen
    assert corpus.sha256 != whole.sha256
    assert sides[second] in validation
    assert sides[first][:310] + b"\n" + sides[first][310 + len(common) :] in validation


def name_validates(name: str) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10 == 0


def windows(text: bytes, size: int) -> set[bytes]:
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def test_short_pieces_between_what_is_in_both_sides_go_too() -> None:
    draw = random.Random(1)
    names = [name for name, _ in make_files()]
    sides = {name: draw.randbytes(700) for name in names}
    validating = next(name for name in names if name_validates(name))
    training = next(name for name in names if not name_validates(name))
    piece, known = draw.randbytes(255), sides[training]
    sides[validating] = known[:100] + piece + known[200:300] + piece + b"+" + known[400:500]
    validation = as_bytes(from_files("made up", sides.items(), apart=64).validation)
    assert piece + b"+" in validation
    assert validation.count(piece) == 1


@pytest.mark.long  # a loop over 11 million bytes
def test_texts_of_the_library_are_apart_and_have_no_generated_table() -> None:
    code, prose = library_code(), library_prose()
    for corpus in (code, prose):
        train, validation = as_bytes(corpus.train), as_bytes(corpus.validation)
        own = windows(validation, 64)
        seen = sum(train[start : start + 64] in own for start in range(len(train) - 63))
        assert seen == 0
        assert b"decoding_table" not in train + validation
    assert b"def from_float(cls, f):" in as_bytes(code.train) + as_bytes(code.validation)
    sentences_of_both = as_bytes(prose.train) + as_bytes(prose.validation)
    assert b"Converts a float to a decimal number, exactly." in sentences_of_both  # a docstring
    assert b'The "assert" statement' in sentences_of_both  # a topic
    assert b"def from_float" not in sentences_of_both
