"""Quantity against apimachinery's own table (quantity_test.go, v0.37.2) and its rounding rules."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.quantity import CAP, NANO, Quantity, QuantityError, text_of

# From TestQuantityParse: text, mantissa, decimal exponent.
PARSED = [
    ("0", 0, 0), ("0n", 0, 0), ("0Ki", 0, 0), ("0T", 0, 0), ("1", 1, 0),
    ("1Ki", 1024, 0), ("8Ki", 8 * 1024, 0), ("7Mi", 7 * 1024**2, 0), ("6Gi", 6 * 1024**3, 0),
    ("5Ti", 5 * 1024**4, 0), ("4Pi", 4 * 1024**5, 0), ("3Ei", 3 * 1024**6, 0), ("100Ti", 100 * 1024**4, 0),
    ("5n", 5, -9), ("4u", 4, -6), ("3m", 3, -3), ("9", 9, 0), ("8k", 8, 3), ("50k", 5, 4), ("7M", 7, 6),
    ("6G", 6, 9), ("5T", 5, 12), ("300T", 3, 14), ("2P", 2, 15), ("1E", 1, 18),
    ("1E-3", 1, -3), ("1e3", 1, 3), ("1E6", 1, 6), ("1e14", 1, 14), ("1E18", 1, 18), ("100.035k", 100035, 0),
    ("0.001", 1, -3), ("0.0005k", 5, -1), ("0.05000", 5, -2), ("0.5e-2", 5, -3), ("10.035M", 10035, 3),
    ("1.2e3", 12, 2), ("1.3E+6", 13, 5), ("1.7E18", 17, 17), ("9.01", 901, -2), ("6.987654321G", 6987654321, 0),
    ("3.001n", 4, -9), ("1.1E-9", 2, -9), ("0.0000000001", 1, -9), ("0.9n", 1, -9), ("0.00000012345", 124, -9),
    ("100.035Ki", 10243584, -2), ("0.5Mi", 524288, 0), ("0.025Ti", 274877906944, -1),
    ("0.000000000001Ki", 2, -9), (".001", 1, -3), (".0001k", 100, -3), ("1.", 1, 0), ("1.G", 1, 9),
]  # fmt: skip


@pytest.mark.parametrize(("text", "mantissa", "exponent"), PARSED)
@pytest.mark.parametrize(("sign", "factor"), [("", 1), ("+", 1), ("-", -1)])
def test_reads_what_apimachinery_reads(text: str, mantissa: int, exponent: int, sign: str, factor: int) -> None:
    expected = factor * Fraction(mantissa) * Fraction(10) ** exponent

    assert Fraction(Quantity.parse(sign + text).nano, NANO) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", "1 1", "0x10", "1_000", "1K",
        "nan", "inf", "--1", "1ee3", "1e3.5", "1e99999999999999999999", "٣", "1" * 1001, "${GPUS}",
    ],
)  # fmt: skip
def test_what_is_no_quantity_is_an_error_of_its_own(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize(("raw", "nano"), [(8, 8 * NANO), (0, 0), (-1, -NANO), (1.5, 3 * NANO // 2), (0.1, NANO // 10), (1e3, 1000 * NANO), (1e-7, 100)])  # fmt: skip
def test_reads_numbers_of_json(raw: float, nano: int) -> None:
    assert Quantity.parse(raw).nano == nano


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(True)


def test_space_around_the_text_is_trimmed_as_json_decoding_does() -> None:
    assert Quantity.parse(" 1Gi\n") == Quantity.parse("1Gi")


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("9.01", 10, 9010), ("1m", 1, 1), ("1n", 1, 1), ("0", 0, 0), ("1500m", 2, 1500), ("0.0001", 1, 1),
        ("-9.01", -10, -9010), ("-1n", -1, -1), ("1Gi", 2**30, 2**30 * 1000),
    ],
)  # fmt: skip
def test_values_are_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)

    assert quantity.value() == value
    assert quantity.milli_value() == milli


@pytest.mark.parametrize("text", ["9Ei", "9223372036854775807Ki", "12E", "1e30", "1e2147483647", "9223372036854775808"])
def test_a_number_beyond_the_range_is_capped_and_says_so(text: str) -> None:
    assert Quantity.parse(text).value() == CAP
    assert Quantity.parse(text).is_capped
    assert Quantity.parse("-" + text).value() == -CAP
    assert not Quantity.parse("9223372036854775806").is_capped


def test_a_tiny_exponent_is_the_smallest_amount_and_costs_no_time() -> None:
    assert Quantity.parse("1e-2147483648").nano == 1
    assert Quantity.parse("0e-2147483648").nano == 0


@pytest.mark.parametrize(("text", "whole"), [("8", True), ("8.0", True), ("8000m", True), ("500m", False), ("1.5", False), ("1Ki", True)])  # fmt: skip
def test_knows_whole_numbers(text: str, whole: bool) -> None:
    assert Quantity.parse(text).is_integer is whole


@pytest.mark.parametrize(("text", "stored"), [("1n", "1m"), ("1500u", "2m"), ("1500m", "1500m"), ("8", "8"), ("-1u", "-1m")])  # fmt: skip
def test_the_api_server_stores_thousandths(text: str, stored: str) -> None:
    assert Quantity.parse(text).rounded_to_milli() == Quantity.parse(stored)


@pytest.mark.parametrize(
    ("resource", "raw", "text"),
    [
        ("memory", "8Gi", "8Gi"), ("memory", "1536Mi", "1536Mi"), ("memory", "1000", "1000"), ("memory", "0", "0"),
        ("memory", "0.5", "500m"), ("hugepages-2Mi", "4Mi", "4Mi"), ("ephemeral-storage", "1024", "1Ki"),
        ("cpu", "1024", "1024"), ("cpu", "1.5", "1500m"), ("nvidia.com/gpu", "8", "8"), ("cpu", "1n", "1n"), ("cpu", "2u", "2u"),
    ],
)  # fmt: skip
def test_amounts_are_printed_as_people_write_them(resource: str, raw: str, text: str) -> None:
    assert text_of(resource, Quantity.parse(raw)) == text


AMOUNTS = st.integers(min_value=-CAP, max_value=CAP)


@given(nano=AMOUNTS)
def test_printing_and_reading_give_the_same_amount(nano: int) -> None:
    assert Quantity.parse(str(Quantity(nano))) == Quantity(nano)


@given(nano=AMOUNTS, resource=st.sampled_from(["cpu", "memory", "hugepages-1Gi"]))
def test_the_readable_form_is_exact_too(nano: int, resource: str) -> None:
    assert Quantity.parse(text_of(resource, Quantity(nano))) == Quantity(nano)


@given(first=AMOUNTS, second=AMOUNTS)
def test_sums_and_order_are_those_of_exact_numbers(first: int, second: int) -> None:
    one, other = Quantity(first), Quantity(second)

    assert (one + other) - other == one
    assert (one < other) is (first < second)
    assert bool(one) is (first != 0)
    assert (one * 3).nano == 3 * first


@given(nano=AMOUNTS)
def test_rounding_never_loses_and_adds_less_than_one(nano: int) -> None:
    quantity = Quantity(nano)

    assert abs(quantity.value()) * NANO >= abs(nano)
    assert abs(quantity.value()) * NANO - abs(nano) < NANO
    assert abs(quantity.milli_value()) * 10**6 - abs(nano) < 10**6


@given(text=st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert abs(quantity.nano) <= CAP * NANO


@given(whole=st.integers(0, 10**17), suffix=st.sampled_from(["", "k", "M", "Ki", "Mi"]))
def test_the_fast_path_and_the_grammar_agree(whole: int, suffix: str) -> None:
    assert Quantity.parse(f"{whole}{suffix}") == Quantity.parse(f"{whole}.0{suffix}")
