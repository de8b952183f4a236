"""Headers of safetensors files: whatever the library's reader takes or refuses."""

import itertools

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.interop import safetensors_header
from posenc.interop.safetensors_file import read_header
from posenc.interop.safetensors_header import BITS
from tests.crafted_files import checkpoint, container
from tests.safetensors_readings import (
    assert_agrees_with_library,
    assert_steps_agree,
    library_accepts,
    refused_for,
)

FIELDS = ('"dtype":"F32"', '"shape":[1,2]', '"data_offsets":[0,8]')


def test_three_fields_are_taken_in_any_order_and_no_field_twice() -> None:
    for fields in itertools.product(FIELDS, repeat=3):
        content = container(f'{{"a":{{{",".join(fields)}}}}}', bytes(8))
        assert_steps_agree(content)
        assert (refused_for(content) is None) == (set(fields) == set(FIELDS))


@pytest.mark.parametrize("wrong", ["", ";", ",,", "{", "}", "},", ',"x":1,', ":"])
def test_fields_are_separated_by_one_comma_and_end_without_one(wrong: str) -> None:
    for ends in ((wrong, ",", ""), (",", wrong, ""), (",", ",", wrong or ","), (",", ",", " ,")):
        text = "".join(field + end for field, end in zip(FIELDS, ends, strict=True))
        content = container(f'{{"a":{{{text}}}}}', bytes(8))
        assert_steps_agree(content)
        assert refused_for(content) is not None


def test_a_header_of_more_kinds_than_are_remembered_is_read_in_full() -> None:
    shapes = [(number, 0) for number in range(2 * safetensors_header.KINDS_REMEMBERED)]
    tensors = {f"{n}.{shape}": ("F32", shape, b"") for n in range(2) for shape in shapes}
    read = read_header(checkpoint(tensors)).tensors
    assert [entry.shape for entry in read.values()] == shapes * 2


names = st.text(st.characters(exclude_categories=("Cs",)), max_size=20).filter(
    lambda name: name != "__metadata__"
)


@settings(max_examples=60)
@given(
    # At least one tensor: for none and empty metadata, the library writes a header that is no JSON.
    st.dictionaries(names, st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6),
    st.dictionaries(names, st.text(st.characters(exclude_categories=("Cs",)))),
    st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]),
)
def test_what_the_library_writes_is_read_with_names_shapes_and_metadata(
    shapes: dict[str, list[int]], metadata: dict[str, str], dtype: torch.dtype
) -> None:
    tensors = {name: torch.ones(shape).to(dtype) for name, shape in shapes.items()}
    content = safetensors.torch.save(tensors, metadata)
    header = read_header(content)
    assert {name: list(entry.shape) for name, entry in header.tensors.items()} == shapes
    assert header.metadata == metadata
    assert_agrees_with_library(content)


def test_every_accepted_header_form_agrees_with_the_library() -> None:
    field = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    spaced = '{ "a" :\n{ "shape" : [ 2 ] ,\t"data_offsets" : [ 0 , 8 ] , "dtype" : "F32" } }  \r\n '
    headers = [
        f'{{"a":{field}}}',
        spaced,
        f'{{"":{field}}}',
        f'{{"\\ud83d\\ude00\\u00e9\\/\\n":{field}}}',
        f'{{"naïve.重み":{field}}}',
        f'{{"a":{field},"__metadata__":{{}}}}',
        f'{{"__m\\u0065tadata__":{{"format":"pt"}},"a":{field}}}',
    ]
    for header in headers:
        content = container(header, bytes(8))
        assert len(read_header(content).tensors) == 1
        assert_agrees_with_library(content)
    assert read_header(container("{}")).tensors == {}
    assert read_header(container(headers[-1], bytes(8))).metadata == {"format": "pt"}


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_of_the_library_has_the_librarys_size(dtype: str) -> None:
    content = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype]))})
    assert library_accepts(content)
    assert read_header(content).tensors["a"].dtype == dtype
    assert not library_accepts(checkpoint({"a": (dtype, (8,), bytes(BITS[dtype] + 1))}))
