"""Laws that do not hold for a scheme, each with the reason; every other law of the contract does.

EXEMPT: such a law is run all the same and must fail (a strict xfail), so that no entry outlives its
reason. LEFT_OUT: laws of what a scheme says it has not, such as vectors; tests/test_left_out.py holds
these to what is run.
"""

import re
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Exempt:
    """law: a pattern of the test's name. schemes: a pattern of kinds, which stands for their variants too.

    asked: a pattern that the rest of the test's name must hold, where the law fails for a part only.
    """

    law: str
    schemes: str
    reason: str
    asked: str = ""

    def holds(self, law: str, scheme: str, name: str) -> bool:
        """Whether this is about the test of this law, scheme and full name."""
        return (
            re.fullmatch(self.law, law) is not None
            and re.fullmatch(rf"(?:{self.schemes})(?:\..*)?", scheme) is not None
            and re.search(self.asked, name) is not None
        )


GROWS = "keys of xPos grow with their position: it says where a number no longer holds them"
SCALES = "xPos scales pairs by their position, it does not only turn them"

EXEMPT = (
    Exempt(
        "|".join(
            (
                "test_the_kernel_at_any_offsets_is_its_curve_there",
                "test_kernels_of_a_shorter_range_are_bitwise_prefixes",
                "test_the_kernel_is_what_its_definition_over_the_hooks_gives",
                "test_the_offset_curve_is_every_diagonal_of_the_kernel",
                "test_a_kernel_without_a_last_position_is_finite_at_the_largest",
                "test_a_rounded_kernel_differs_by_no_more_than_the_rounding",
                "test_rounding_to_float32_moves_no_similarity_by_a_millionth",
                "test_every_scheme_has_one_matrix_of_float64_or_none_at_all",
                "test_a_low_precision_rounds_every_entry_once",
            )
        ),
        "shaw|cope",
        "it has no position kernel: what position adds depends on the query",
    ),
    Exempt(
        "test_softmax_scale_is_one_over_the_root_of_the_head_width",
        "t5",
        "T5 does not divide its scores by the root of the head width",
    ),
    Exempt(
        "test_a_scheme_that_is_not_stationary_fails_shift_invariance",
        "fire",
        "FIRE depends on the offset alone up to its threshold, here 300",
    ),
    Exempt(
        "test_a_kernel_that_has_no_offset_curve_changes_along_a_diagonal",
        "fire",
        "FIRE depends on the offset alone up to its threshold, here 300",
    ),
    Exempt(
        "test_a_bias_by_distance_alone_is_blind_to_the_mirrored_order",
        "fire",
        "FIRE reads distances alone up to its threshold, though not by a bias of the offset",
    ),
    Exempt(
        "test_chosen_positions_give_the_bits_of_the_whole",
        "cope",
        "CoPE counts the keys between, and here some of them are left out",
        "any order|falling",
    ),
    Exempt(
        "test_queries_and_keys_may_stand_at_different_positions",
        "cope",
        "CoPE counts the keys between, and here some of them are left out",
    ),
    Exempt(
        "test_a_stationary_scheme_is_shift_invariant",
        "xpos",
        GROWS,
        "1073741823",
    ),
    Exempt("test_rotation_keeps_every_norm", "xpos", SCALES, r"-[1-9]\d*$|origin=64-0$"),
    Exempt(
        "test_rotations_compose_to_the_sum_of_their_positions",
        "xpos",
        "xPos counts from its origin, and refuses positions too far from it",
        "1048576|origin",
    ),
    Exempt(
        "test_rotation_by_position_zero_changes_no_bit",
        "xpos",
        "what changes no bit is the origin of xPos",
        "origin",
    ),
    Exempt("test_the_gradient_of_a_rotation_is_the_rotation_back", "xpos", SCALES),
    Exempt(
        "test_half_precision_adds_one_rounding_to_the_exact_answer_at_any_position",
        "xpos",
        GROWS,
        r"2147483628|70000-dtype1|^xpos(?!\.scale).*70000-dtype0",
    ),
    Exempt(
        "test_error_in_every_precision_is_at_most_twice_that_of_torch_s_own_path",
        "xpos",
        GROWS,
        r"70000-dtype3|^xpos(?!\.scale).*70000-dtype[12]",
    ),
)


@dataclass(frozen=True)
class LeftOut:
    """schemes: a pattern of kinds, which stands for their variants too. reason: what they have not.

    laws: not run for these schemes. instead: run for these alone, and left out for all others.
    """

    schemes: str
    reason: str
    laws: tuple[str, ...]
    instead: tuple[str, ...] = ()

    def about(self, variant: str) -> bool:
        """Whether this is about the scheme of this name."""
        return re.fullmatch(rf"(?:{self.schemes})(?:\..*)?", variant) is not None


NOT_BY_OFFSET = r"learned|fire|rope_sections(?!\.grid=0)"  # on a grid: by two coordinates
CONTENT = "shaw|cope"
NOT_SYMMETRIC = "transformer_xl|t5|fire|xpos"
NO_CLOSED_FORM = "kerple_log|kerple_power|sandwich"
NO_VECTORS = f"none|{CONTENT}|{NOT_SYMMETRIC}|{NO_CLOSED_FORM}"

LEFT_OUT = (
    LeftOut(
        NOT_BY_OFFSET,
        "what position does here is no function of the offset",
        (
            "test_a_stationary_scheme_is_shift_invariant",
            "test_the_kernel_at_any_offsets_is_its_curve_there",
            "test_rotations_compose_to_the_sum_of_their_positions",
            "test_kernels_of_a_shorter_range_are_bitwise_prefixes",
            "test_the_offset_curve_is_every_diagonal_of_the_kernel",
        ),
        (
            "test_a_scheme_that_is_not_stationary_fails_shift_invariance",
            "test_a_kernel_that_has_no_offset_curve_changes_along_a_diagonal",
        ),
    ),
    LeftOut(
        NO_VECTORS,
        "no kernel at all, one that is not symmetric, a constant, or no closed form of its vectors",
        (
            "test_vectors_of_a_shorter_range_are_bitwise_prefixes",
            "test_inner_products_of_the_vectors_are_the_kernel",
            "test_a_kernel_made_of_vectors_is_symmetric_and_positive",
        ),
        ("test_a_scheme_without_vectors_says_why",),
    ),
    LeftOut(
        f"alibi|{NO_VECTORS}",
        "no vectors, or of the exact bias alone: ALiBi's rounded bias is no straight line",
        ("test_rounded_vectors_give_the_rounded_kernel",),
        ("test_a_scheme_without_rounded_vectors_refuses_them",),
    ),
    LeftOut(
        f"{NOT_BY_OFFSET}|{NO_VECTORS}",
        "no vectors, or vectors that no one matrix takes an offset further",
        (
            "test_vectors_of_a_stationary_scheme_all_have_one_norm",
            "test_the_closed_form_of_an_offset_takes_every_vector_that_far",
        ),
    ),
    LeftOut(
        f"learned|sinusoidal|alibi|none|{CONTENT}|transformer_xl|t5|fire|{NO_CLOSED_FORM}",
        "the kernel is no mean of scores over content",
        ("test_the_logit_kernel_is_the_mean_over_random_unit_content",),
    ),
    LeftOut(
        "learned",
        "a table ends",
        (
            "test_a_scheme_without_a_last_position_takes_the_largest",
            "test_a_kernel_without_a_last_position_is_finite_at_the_largest",
        ),
        ("test_a_scheme_with_a_last_position_says_so",),
    ),
)

# Their bias is a matrix product, which is summed in another order for another number of rows: what
# is bit for bit the same for all other schemes is the same up to rounding for these.
SUMMED = ("fire", "shaw", "transformer_xl", "cope")


def mark(item: pytest.Item) -> None:
    """Expect the failure of a law that does not apply."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return
    scheme = callspec.params.get("variant", callspec.params.get("kind"))
    law = getattr(item, "originalname", item.name)
    # Imported late: shape checks must be on before anything of posenc is.
    from posenc.errors import PosencError

    failures = (AssertionError, PosencError, pytest.fail.Exception)
    for one in EXEMPT:
        if isinstance(scheme, str) and one.holds(law, scheme, callspec.id):
            item.add_marker(pytest.mark.xfail(strict=True, reason=one.reason, raises=failures))
