"""When certificates are made anew; time is an argument."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from webhook.tls.issue import Issued, make_authority, make_serving_certificate
from webhook.tls.rotate import decide, merge_bundles, renewal_time

NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> Issued:
    return make_authority("old CA", now=NOW, lifetime=300 * DAY)


@pytest.fixture(scope="module")
def serving(authority: Issued) -> Issued:
    return make_serving_certificate(
        authority, dns_names=["a.b.svc", "localhost"], ip_addresses=["::1"], now=NOW, lifetime=90 * DAY
    )


def test_renewal_time() -> None:
    assert renewal_time(NOW, NOW + 90 * DAY) == NOW + 60 * DAY


@pytest.mark.parametrize(
    ("after", "expected", "reason"),
    [
        (DAY, (False, False), ""),
        (59 * DAY, (False, False), ""),
        (61 * DAY, (False, True), "serving certificate is due"),
        (91 * DAY, (False, True), "serving certificate expired"),
        (201 * DAY, (True, True), "CA is due"),
        (-DAY, (True, True), "valid only from"),
    ],
)
def test_by_time(
    authority: Issued, serving: Issued, after: timedelta, expected: tuple[bool, bool], reason: str
) -> None:
    rotation = decide(authority.certificate_pem, serving.certificate_pem, dns_names=["a.b.svc"], now=NOW + after)
    assert (rotation.authority, rotation.serving) == expected
    assert any(reason in text for text in rotation.reasons) == bool(reason)


@pytest.mark.parametrize(
    ("dns_names", "ip_addresses", "lacks"),
    [
        (["a.b.svc"], ["::1"], None),
        (["a.b.svc"], ["0:0:0:0:0:0:0:1"], None),
        (["a.b.svc", "c.d.svc"], [], "lacks c.d.svc"),
        ([], ["127.0.0.1"], "lacks 127.0.0.1"),
    ],
)
def test_by_names(
    authority: Issued, serving: Issued, dns_names: list[str], ip_addresses: list[str], lacks: str | None
) -> None:
    rotation = decide(
        authority.certificate_pem, serving.certificate_pem, dns_names=dns_names, ip_addresses=ip_addresses, now=NOW
    )
    assert rotation.serving == (lacks is not None)
    assert not rotation.authority
    assert lacks is None or lacks in rotation.reasons[0]


@pytest.mark.parametrize("bad", [None, b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"])
def test_what_is_missing_or_unreadable_is_due(authority: Issued, serving: Issued, bad: bytes | None) -> None:
    first = decide(bad, serving.certificate_pem, dns_names=["a.b.svc"], now=NOW)
    assert (first.authority, first.serving) == (True, True)
    second = decide(authority.certificate_pem, bad, dns_names=["a.b.svc"], now=NOW)
    assert (second.authority, second.serving) == (False, True)


def test_merged_bundle(authority: Issued) -> None:
    new = make_authority("new CA", now=NOW + 200 * DAY)
    bundle = authority.certificate_pem + authority.certificate_pem + new.certificate_pem

    def subjects(now: datetime) -> list[str]:
        merged = x509.load_pem_x509_certificates(merge_bundles(new.certificate_pem, bundle, now=now))
        return [ca.subject.rfc4514_string() for ca in merged]

    assert subjects(NOW + 200 * DAY) == ["CN=new CA", "CN=old CA"]
    assert subjects(NOW + 301 * DAY) == ["CN=new CA"]
    assert merge_bundles(new.certificate_pem, b"garbage", now=NOW) == new.certificate_pem
