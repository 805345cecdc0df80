"""resource.Quantity of k8s.io/apimachinery v0.37.2, exact.

A Quantity is a whole number of nanos: apimachinery keeps nothing finer, what is written finer is rounded away from
zero. So sums and comparisons are integer arithmetic, and `value()` and `milli_value()` round as ScaledValue does.

Magnitudes are capped at 2^63-1, as the type's documentation says. (apimachinery caps only binary suffixes; what the
scheduler makes of a larger decimal, such as ``12E``, is an int64 overflow. `is_capped` tells, so that no rule proves
anything with such a number.)
"""

from __future__ import annotations

import re
from typing import Self

import msgspec

NANO = 10**9
CAP = 2**63 - 1
# More digits than any number in the range needs: longer text is refused, so that parsing stays cheap.
_DIGIT_COUNT_MAX = 1000

_GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)\Z")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,19})\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# unicode.IsSpace of Go, which Quantity.UnmarshalJSON trims.
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class QuantityError(ValueError):
    """The text is no quantity. The message says why, without naming the field."""


class Quantity(msgspec.Struct, frozen=True, order=True):
    """nano: the exact amount in billionths."""

    nano: int

    @classmethod
    def parse(cls, raw: str | float) -> Self:
        """A quantity as it stands in JSON: a string, or a number. Raises QuantityError."""
        if isinstance(raw, int) and not isinstance(raw, bool):
            return cls(_capped(raw * NANO))
        text = raw.strip(_SPACE) if isinstance(raw, str) else repr(raw)
        if text.isascii() and text.isdigit() and len(text) <= 18:  # by far the most common form
            return cls(int(text) * NANO)
        return cls(_nanos(text))

    def value(self) -> int:
        """Whole units, rounded away from zero (Quantity.Value)."""
        return _round_away(self.nano, NANO)

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero (Quantity.MilliValue)."""
        return _round_away(self.nano, NANO // 1000)

    def amount_of(self, resource: str) -> int:
        """In the units that the scheduler counts in: thousandths of cpu, whole units of everything else, rounded up."""
        return self.milli_value() if resource == "cpu" else self.value()

    @property
    def is_integer(self) -> bool:
        return self.nano % NANO == 0

    @property
    def is_capped(self) -> bool:
        """At or beyond the largest number of the type: nothing may be proved with it."""
        return abs(self.nano) >= CAP * NANO

    def rounded_to_milli(self) -> Quantity:
        """What the API server stores: it rounds every resource up to thousandths (SetDefaults_ResourceList)."""
        return self if self.nano % 1_000_000 == 0 else Quantity(self.milli_value() * 1_000_000)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nano * times)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        """Decimal: ``8``, ``1500m``, ``3n``."""
        for suffix, scale in (("", NANO), ("m", NANO // 1000), ("u", 1000)):
            if self.nano % scale == 0:
                return f"{self.nano // scale}{suffix}"
        return f"{self.nano}n"


ZERO = Quantity(0)


def text_of(resource: str, quantity: Quantity) -> str:
    """As a person would write it: bytes with a binary suffix where that is exact (``8Gi``), all else decimal."""
    is_bytes = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    if not is_bytes or not quantity.is_integer or not quantity:
        return str(quantity)
    amount, suffix = quantity.value(), ""
    for larger in _BINARY:
        if amount % 1024:
            break
        amount, suffix = amount // 1024, larger
    return f"{amount}{suffix}"


def _nanos(text: str) -> int:
    match = _GRAMMAR.match(text)
    if match is None or not text:
        raise QuantityError(f'"{text[:40]}" is not a number with a suffix such as m, k, M, Gi or e3')
    sign, whole, fraction, suffix = match[1], match[2].lstrip("0"), match[3] or "", match[4]
    if len(whole) + len(fraction) > _DIGIT_COUNT_MAX:
        raise QuantityError(f'"{text[:40]}..." has more than {_DIGIT_COUNT_MAX} digits')
    # No digits at all ("m", ".") is zero, as it is to apimachinery.
    mantissa = int((whole + fraction) or "0")
    binary = _BINARY.get(suffix)
    exponent = 9 - len(fraction) if binary is not None else 9 - len(fraction) + _decimal_exponent(suffix, text)
    if binary is not None:
        mantissa <<= binary
    if mantissa == 0:
        return 0
    nanos = _shift(mantissa, exponent)
    return -_capped(nanos) if sign == "-" else _capped(nanos)


def _decimal_exponent(suffix: str, text: str) -> int:
    known = _DECIMAL.get(suffix)
    if known is not None:
        return known
    match = _EXPONENT.match(suffix)
    if match is None:
        raise QuantityError(
            f'"{text[:40]}" has the suffix "{suffix}", which is none of n u m k M G T P E Ki Mi Gi Ti Pi Ei eN'
        )
    return int(match[1])


def _shift(mantissa: int, exponent: int) -> int:
    """mantissa * 10**exponent, rounded up to a whole number, without ever computing an absurd power."""
    if exponent >= 0:
        return mantissa * int(10**exponent) if exponent <= 40 else CAP * NANO
    if exponent < -_DIGIT_COUNT_MAX - 40:
        return 1
    return _round_away(mantissa, int(10**-exponent))


def _capped(nanos: int) -> int:
    return max(-CAP * NANO, min(CAP * NANO, nanos))


def _round_away(amount: int, unit: int) -> int:
    """amount / unit, rounded away from zero."""
    return -(-amount // unit) if amount >= 0 else amount // unit
