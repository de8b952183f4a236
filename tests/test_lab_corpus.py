"""Text as bytes: two sides that share nothing, a hash of everything, one sentence for what is no text."""

import math
import random
import sysconfig
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posenc import PosencError
from posenc.errors import CorpusError
from posenc.lab import specifications
from posenc.lab.corpus import Corpus, decoded, from_files, from_text, standard_library
from posenc.lab.train import train
from tests.small_runs import SIZES, sentences


def files(count: int = 60, seed: int = 0) -> list[tuple[str, bytes]]:
    """Files of 600 bytes; every byte of one file is that file's own, so that sides show their files."""
    return [(f"folder/file {n + 100 * seed}.txt", bytes([n]) * 600) for n in range(count)]


def as_bytes(side: torch.Tensor) -> bytes:
    return bytes(side.tolist())


def refusal(content: bytes) -> str:
    """The sentence with which a text is refused."""
    with pytest.raises(CorpusError) as caught:
        from_text("a text", content)
    return str(caught.value)


def test_every_file_is_whole_on_exactly_one_side() -> None:
    corpus = from_files("many", files())
    sides = [as_bytes(corpus.train), as_bytes(corpus.validation)]
    where = {name: [side.count(content) for side in sides] for name, content in files()}
    assert all(sorted(counts) == [0, 1] for counts in where.values())
    assert {counts.index(1) for counts in where.values()} == {0, 1}
    # Nothing is on either side but the files and a new line between two (file 10 is new lines).
    for side in sides:
        inside = [content for _, content in files() if content in side]
        assert len(side) == 600 * len(inside) + len(inside) - 1


def test_a_file_stays_on_its_side_when_others_come() -> None:
    before = as_bytes(from_files("few", files(50)).validation)
    after = as_bytes(from_files("more", files(60)).validation)
    contents = [content for _, content in files(50)]
    assert [content in before for content in contents] == [content in after for content in contents]


def test_the_hash_is_of_names_and_bytes_in_any_order() -> None:
    asked = files()
    plain = from_files("many", asked)
    shuffled = random.Random(0).sample(asked, len(asked))
    again = from_files("another title", shuffled)
    assert again.sha256 == plain.sha256
    assert torch.equal(again.train, plain.train)
    assert torch.equal(again.validation, plain.validation)

    hashes = {plain.sha256}
    for number in range(0, len(asked), 7):
        name, content = asked[number]
        for changed in (
            (name, content[:-1] + b"!"),
            (name, b"!" + content[1:]),
            (name, content + b"!"),
            (name + "x", content),
        ):
            hashes.add(from_files("many", [*asked[:number], changed, *asked[number + 1 :]]).sha256)
    # A byte that moves from one file's end to the next one's begin.
    (one, first), (two, second), *others = asked
    hashes.add(from_files("many", [(one, first[:-1]), (two, first[-1:] + second), *others]).sha256)
    assert len(hashes) == 1 + 4 * len(range(0, len(asked), 7)) + 1


def test_the_hash_of_a_text_changes_with_any_byte() -> None:
    content = sentences()
    plain = from_text("a text", content)
    assert from_text("another title", content).sha256 == plain.sha256
    hashes = {plain.sha256, from_text("a text", content + b".").sha256}
    for at in (0, 1, len(content) // 2, len(content) - 1):
        hashes.add(from_text("a text", content[:at] + b"#" + content[at + 1 :]).sha256)
    assert len(hashes) == 6


def test_a_text_is_cut_once_at_the_begin_of_a_line() -> None:
    content = sentences()
    corpus = from_text("a text", content)
    train, validation = as_bytes(corpus.train), as_bytes(corpus.validation)
    assert train + validation == content
    assert train.endswith(b"\n")
    assert 0.05 * len(content) < len(validation) <= 0.1 * len(content)
    one_line = content.replace(b"\n", b" ")
    assert len(from_text("one line", one_line).validation) == len(content) // 10


@given(st.binary(max_size=60) | st.text(max_size=20).map(str.encode))
@example(b"\xed\xa0\x80 a lone surrogate")
@example("half of é".encode()[:-1])
@example(b"\xf0\x9f\x98")
def test_decoding_replaces_and_counts_what_is_no_utf8(content: bytes) -> None:
    text, replaced = decoded(content)
    assert text == content.decode("utf-8", errors="replace")
    # Counted by hand: bytes that no whole character covers.
    covered, at = 0, 0
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


def test_replaced_bytes_are_counted_on_the_corpus() -> None:
    content = sentences().replace(b"cat", b"c\xe4t", 30)
    corpus = from_text("in Latin-1", content)
    assert corpus.replaced == 30
    whole = as_bytes(corpus.train) + as_bytes(corpus.validation)
    assert whole.decode().count("c\N{REPLACEMENT CHARACTER}t") == 30


@pytest.mark.timeout(20)
def test_many_bad_bytes_in_a_long_text_are_counted_at_once() -> None:
    """Two million replacements; a copy of the rest at each of them would take hours."""
    text, replaced = decoded(b"abcde \xff\xfe \n" * 1_000_000)
    assert (len(text), replaced) == (10_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"too short", "at least 20,000 bytes"),
        (sentences()[:19_999], "at least 20,000 bytes"),
        (sentences() + b"\0", "no UTF-8 text"),
        (random.Random(0).randbytes(50_000), "no UTF-8 text"),
        (b"\xff" * 50_000, "no UTF-8 text"),
        (sentences().decode().encode("utf-16"), "no UTF-8 text"),
    ],
    ids=["empty", "short", "one byte short", "a zero", "random", "no character", "utf-16"],
)
def test_what_is_no_text_gets_one_sentence(content: bytes, said: str) -> None:
    message = refusal(content)
    assert said in message
    assert message.endswith(".")
    assert "\n" not in message
    assert issubclass(CorpusError, PosencError)


def test_the_least_text_is_taken() -> None:
    assert isinstance(from_text("short", sentences()[:20_000]), Corpus)


@pytest.mark.parametrize("asked", [[], files(3), [("one.txt", sentences())]])
def test_files_that_leave_a_side_empty_are_refused(asked: list[tuple[str, bytes]]) -> None:
    with pytest.raises(CorpusError, match="at least 20,000 bytes"):
        from_files("few", asked)


def test_the_standard_library_leaves_out_tests_and_installed_packages() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    corpus = standard_library()
    assert corpus.replaced == 0
    whole = as_bytes(corpus.train), as_bytes(corpus.validation)

    def inside(path: Path) -> bool:
        content = path.read_bytes()
        return any(content in side for side in whole)

    for kept in ("argparse.py", "json/decoder.py", "unittest/case.py"):
        assert inside(root / kept), kept
    outside = [Path(pytest.__file__), Path(torch.__file__)]  # in site-packages
    outside += list(root.glob("test/test_[a-c]*.py"))[:20]
    outside += list(root.glob("_sysconfigdata*.py"))
    for left_out in outside:
        assert not inside(left_out), left_out


def test_the_standard_library_is_the_same_each_time() -> None:
    first, second = standard_library(), standard_library.__wrapped__()
    assert first is not second
    assert first.sha256 == second.sha256
    assert torch.equal(first.train, second.train)
    assert torch.equal(first.validation, second.validation)


FORMS = {
    "as it is": lambda part: part,
    "in lines": lambda part: part + b"\n",
    "in lines of Windows": lambda part: part + b"\r\n",
    "with a mark at its begin": lambda part: b"\xef\xbb\xbf" + part,
    "in UTF-16": lambda part: part.decode("latin-1").encode("utf-16"),
}


@given(
    part=st.binary(min_size=1, max_size=400)
    | st.text(min_size=1, max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from([b"a", b"\n", b"\0", b" ", b"\xff", "\N{GRINNING FACE}".encode()]),
    form=st.sampled_from(sorted(FORMS)),
    size=st.sampled_from([1, 19_999, 20_000, 20_001, 60_000]),
)
@settings(max_examples=60)
def test_any_bytes_are_a_corpus_that_trains_or_one_sentence(
    part: bytes, form: str, size: int
) -> None:
    piece = FORMS[form](part)
    content = (piece * (size // len(piece) + 1))[:size]
    said = ""
    try:
        corpus = from_text("a text", content)
    except CorpusError as error:
        said = str(error)
    if said:
        assert said.endswith(".")
        assert "\n" not in said
        text, replaced = decoded(content)
        whole = len(text.encode())
        assert b"\0" in content or 10 * replaced > len(content) or whole < 20_000
        return
    (specification,) = specifications(["rope"], widths=[16], corpus=corpus, **SIZES | {"steps": 3})
    training = train(specification, corpus)
    assert len(training.losses) == 3
    assert all(math.isfinite(loss) for loss in training.losses)
