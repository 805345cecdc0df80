"""The CEL subset against Google's own engine (cel-expr-python), on generated expressions: the second judge.

The first is kube-scheduler itself (tests/live/test_devices_cel.py), form by form; this one mixes the forms. Kubernetes'
quantity and semver are functions of ours there, on bytes. Where the subset says YES or NO, the engine must say the same;
an engine's error must be MAYBE.
"""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel as google
from cel_expr_python.ext import ext_strings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.feasibility.devices.objects import GPU, device
from webhook.feasibility.cel import Truth, selector
from webhook.feasibility.devices_stock import Values
from webhook.inventory.devices import Reader, Shape
from webhook.inventory.versions import Version
from webhook.objects.quantity import Quantity

A, C = f'device.attributes["{GPU}"]', f'device.capacity["{GPU}"]'
Type = google.Type


# ---- the engine ---------------------------------------------------------------------------------------------------
def coded(value: object) -> object:
    """Versions and quantities as bytes: the engine has no types of one's own in Python."""
    if isinstance(value, Version):
        return b"v" + value.text.encode()
    return b"q" + str(value.nano).encode() if isinstance(value, Quantity) else value


def compare(left: bytes, right: bytes) -> int:
    if left[:1] == b"v":
        one, other = Version.parse(left[1:].decode()), Version.parse(right[1:].decode())
        assert one is not None
        assert other is not None
        return one.compare(other)
    return (int(left[1:]) > int(right[1:])) - (int(left[1:]) < int(right[1:]))


def member(name: str, returns: Any, apply: Any) -> Any:
    overload = google.Overload(f"{name}_bytes", returns, [Type.BYTES, Type.BYTES], True, apply)
    return google.FunctionDecl(name, [overload])


def maker(name: str, make: Any) -> Any:
    return google.FunctionDecl(
        name, [google.Overload(f"{name}_string", Type.BYTES, [Type.STRING], False, lambda text: coded(make(text)))]
    )


ENGINE = google.NewEnv(
    variables={"device": Type.DYN},
    extensions=[ext_strings.ExtStrings()],
    functions=[
        maker("quantity", Quantity.parse),
        maker("semver", Version.parse),
        member("compareTo", Type.INT, compare),
        member("isGreaterThan", Type.BOOL, lambda left, right: compare(left, right) > 0),
        member("isLessThan", Type.BOOL, lambda left, right: compare(left, right) < 0),
    ],
)


def ask(text: str, shape: Shape) -> Truth:
    values = Values(shape)
    data = {
        "driver": shape.driver,
        "allowMultipleAllocations": shape.is_multiple,
        "attributes": {GPU: {name: coded(values.attribute((d, name))) for d, name in shape.attributes}},
        "capacity": {GPU: {name: coded(values.capacity((d, name))) for d, name in shape.capacities}},
    }
    found = ENGINE.compile(text).eval(data={"device": data}).value()
    return Truth.YES if found is True else Truth.NO if found is False else Truth.MAYBE


# ---- expressions --------------------------------------------------------------------------------------------------
TEXTS = st.sampled_from(["", "h100", "a100", "H100", "h", "100", "é", "a\\\\b", "0"])
INTS = st.integers(-3, 3)
NAMES = st.sampled_from(["model", "index", "healthy", "version", "missing"])
QUANTITIES = st.sampled_from(["1", "80Gi", "141Gi", "1.5", "500m", "1e3"])
VERSIONS = st.sampled_from(["1.0.0", "1.10.3", "2.0.0-rc.1", "2.0.0-rc.1.a", "2.0.0-2", "1.10.3+x"])
ORDERS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
EQUALITIES = st.sampled_from(["==", "!="])
FIELDS = st.one_of(NAMES.map(lambda name: f"{A}.{name}"), NAMES.map(lambda name: f'{A}["{name}"]'))

LEAVES = st.one_of(
    st.builds('device.driver {} "{}"'.format, EQUALITIES, st.sampled_from([GPU, "x", ""])),
    st.builds('{} {} "{}"'.format, FIELDS, EQUALITIES, TEXTS),
    st.builds("{} {} {}".format, FIELDS, EQUALITIES, INTS),
    st.builds(f'{A}.model {{}} "{{}}"'.format, ORDERS, TEXTS),
    st.builds(f"{A}.index {{}} {{}}".format, ORDERS, INTS),
    st.builds("{} in [{}, {}]".format, FIELDS, INTS, INTS),
    st.builds('{} in ["{}", "{}"]'.format, FIELDS, TEXTS, TEXTS),
    NAMES.map(lambda name: f"has({A}.{name})"),
    NAMES.map(lambda name: f'"{name}" in {A}'),
    st.just(f"{A}.healthy"),
    st.just("device.allowMultipleAllocations"),
    st.builds(f'{A}.model.{{}}("{{}}")'.format, st.sampled_from(["startsWith", "endsWith", "contains"]), TEXTS),
    st.builds(
        f'{A}.model{{}}.matches("{{}}")'.format,
        st.sampled_from(["", ".lowerAscii()", ".upperAscii()"]),
        st.sampled_from(["", "^h", "100$", "^.*1.+$", "^$", "H.*0", "."]),
    ),
    st.builds(f'{C}.memory.compareTo(quantity("{{}}")) {{}} 0'.format, QUANTITIES, ORDERS),
    st.builds(f'{C}.memory.isLessThan(quantity("{{}}"))'.format, QUANTITIES),
    st.builds(f'{A}.version.compareTo(semver("{{}}")) {{}} 0'.format, VERSIONS, ORDERS),
    st.builds(f'{A}.version.isGreaterThan(semver("{{}}"))'.format, VERSIONS),
    st.sampled_from(["true", "false"]),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("{} && {}".format, inner, inner),
        st.builds("{} || {}".format, inner, inner),
        st.builds("({} || {}) && {}".format, inner, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({}) ? ({}) : ({})".format, inner, inner, inner),
    ),
    max_leaves=6,
)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["model"] = draw(st.sampled_from(["h100", "a100", "", "é"]))
    if draw(st.booleans()):
        attributes["index"] = draw(INTS)
    if draw(st.booleans()):
        attributes["healthy"] = draw(st.booleans())
    if draw(st.booleans()):
        attributes["version"] = "v:" + draw(VERSIONS)
    capacity = {"memory": draw(QUANTITIES)} if draw(st.booleans()) else {}
    return Reader().shape(GPU, device("d", attributes, capacity, allowMultipleAllocations=draw(st.booleans())))


@settings(max_examples=500, deadline=None)
@given(EXPRESSIONS, shapes())
def test_a_known_answer_is_the_engines(text: str, shape: Shape) -> None:
    ours = selector(text)
    assert ours.is_whole
    answer, theirs = ours.of(Values(shape)), ask(text, shape)
    if answer is Truth.MAYBE:
        return  # not known, or an error in the engine too
    assert theirs is answer


def test_the_engine_errs_where_the_subset_may_match() -> None:
    """So that the test above is not about nothing."""
    shape = Reader().shape(GPU, device("d", {"index": 1}))
    for text in (f'{A}.missing == "x"', f'{A}.index < "x"', f"{A}.index"):
        assert selector(text).of(Values(shape)) is Truth.MAYBE
        assert ask(text, shape) is Truth.MAYBE
