"""Everything that keeps the API server from calling the webhook is found, and nothing that does not."""

import base64
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.tls.inspect import Severity, blocking, expiry, inspect_bundle, inspect_serving, probe
from webhook.tls.issue import Issued, ensure_development_certificates, make_authority, make_serving_certificate
from webhook.tls.reload import server_context

NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NAME = "muster.muster-system.svc"


@pytest.fixture(scope="module")
def authority() -> Issued:
    return make_authority("CA", now=NOW)


@pytest.fixture(scope="module")
def serving(authority: Issued) -> Issued:
    return make_serving_certificate(authority, dns_names=[NAME], ip_addresses=["127.0.0.1"], now=NOW)


def odd_certificate(authority: Issued, change: Callable[[x509.CertificateBuilder], x509.CertificateBuilder]) -> bytes:
    """A leaf signed by the authority that has only what `change` adds."""
    ca = x509.load_pem_x509_certificate(authority.certificate_pem)
    ca_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)]))
        .issuer_name(ca.subject)
        .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
        .serial_number(1)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + 30 * DAY)
    )
    return change(builder).sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def codes(
    chain: bytes, bundle: bytes | None, *, name: str = NAME, now: datetime = NOW, key: bytes | None = None
) -> list[str]:
    findings = inspect_serving(chain, server_name=name, ca_bundle_pem=bundle, key_pem=key, now=now)
    assert all(finding.message and finding.fix for finding in findings)
    return [finding.code for finding in findings]


def test_a_good_one(authority: Issued, serving: Issued) -> None:
    assert codes(serving.certificate_pem, authority.certificate_pem, key=serving.key_pem) == []
    assert codes(serving.certificate_pem, authority.certificate_pem, name="127.0.0.1") == []
    assert codes(serving.certificate_pem, authority.certificate_pem, name=NAME.upper()) == []
    assert expiry(serving.certificate_pem) == NOW + 90 * DAY


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (84 * DAY, ["expires-soon"]),
        (91 * DAY, ["expired"]),
        (-DAY, ["not-yet-valid", "ca-not-yet-valid", "untrusted"]),
        (3650 * DAY, ["expired", "ca-expired", "untrusted"]),
    ],
)
def test_time(authority: Issued, serving: Issued, after: timedelta, expected: list[str]) -> None:
    assert codes(serving.certificate_pem, authority.certificate_pem, now=NOW + after) == expected


def test_names(authority: Issued, serving: Issued) -> None:
    assert codes(serving.certificate_pem, authority.certificate_pem, name="other.svc") == ["san-mismatch"]
    assert codes(serving.certificate_pem, authority.certificate_pem, name="10.0.0.1") == ["san-mismatch"]
    bare = odd_certificate(authority, lambda builder: builder)
    assert codes(bare, authority.certificate_pem) == ["cn-without-san"]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*.muster-system.svc", True),
        ("*.svc", False),
        ("*.*.svc", False),
        ("m*.muster-system.svc", False),
        ("*", False),
    ],
)
def test_wildcards_as_in_go(authority: Issued, pattern: str, matches: bool) -> None:
    san = x509.SubjectAlternativeName([x509.DNSName(pattern)])
    chain = odd_certificate(authority, lambda builder: builder.add_extension(san, critical=False))
    assert codes(chain, authority.certificate_pem) == ([] if matches else ["san-mismatch"])


def test_usage(authority: Issued) -> None:
    san = x509.SubjectAlternativeName([x509.DNSName(NAME)])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    chain = odd_certificate(authority, lambda builder: builder.add_extension(san, False).add_extension(usage, False))
    assert codes(chain, authority.certificate_pem) == ["not-for-servers"]


def test_the_wrong_key(authority: Issued, serving: Issued) -> None:
    assert codes(serving.certificate_pem, None, key=authority.key_pem) == ["key-mismatch"]
    assert codes(serving.certificate_pem, None, key=b"garbage") == ["key-unreadable"]
    key = serialization.load_pem_private_key(serving.key_pem, password=None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    assert codes(serving.certificate_pem, None, key=locked) == ["key-unreadable"]


def test_the_wrong_bundle(authority: Issued, serving: Issued) -> None:
    other = make_authority("CA", now=NOW)  # the same name, another key: what a reinstallation leaves behind
    assert codes(serving.certificate_pem, other.certificate_pem) == ["untrusted"]
    assert codes(serving.certificate_pem, other.certificate_pem + authority.certificate_pem) == []
    assert codes(serving.certificate_pem, b"") == ["ca-unreadable"]
    assert codes(serving.certificate_pem, base64.b64encode(authority.certificate_pem)) == ["ca-unreadable"]
    assert codes(b"garbage", authority.certificate_pem) == ["unreadable"]


def test_one_old_ca_beside_a_good_one_is_no_error(authority: Issued, serving: Issued) -> None:
    old = make_authority("old", now=NOW - 100 * DAY, lifetime=DAY)
    findings = inspect_serving(
        serving.certificate_pem,
        server_name=NAME,
        ca_bundle_pem=old.certificate_pem + authority.certificate_pem,
        now=NOW,
    )
    assert [(finding.code, finding.severity) for finding in findings] == [("ca-expired", Severity.WARNING)]
    assert blocking(findings) == []
    assert blocking(inspect_bundle(old.certificate_pem, now=NOW))


def test_a_pinned_leaf_is_trusted_as_in_go(serving: Issued) -> None:
    assert codes(serving.certificate_pem, serving.certificate_pem) == []


def test_intermediates() -> None:
    root = trustme.CA()
    middle = root.create_child_ca()
    issued = middle.issue_cert(NAME)
    leaf = issued.cert_chain_pems[0].bytes()
    bundle, now = root.cert_pem.bytes(), datetime.now(UTC)
    assert codes(leaf + middle.cert_pem.bytes(), bundle, now=now) == []
    assert codes(leaf, bundle, now=now) == ["untrusted"]
    assert codes(leaf, middle.cert_pem.bytes(), now=now) == []


@pytest.mark.parametrize(
    ("name", "trusted", "expected"),
    [("localhost", True, []), ("elsewhere.svc", True, ["probe-untrusted"]), ("localhost", False, ["probe-untrusted"])],
)
def test_probe(tmp_path: Path, name: str, trusted: bool, expected: list[str]) -> None:
    paths = ensure_development_certificates(tmp_path)
    bundle = paths.ca.read_bytes() if trusted else make_authority("other", now=datetime.now(UTC)).certificate_pem
    context = server_context(paths.cert, paths.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as tls:
                    tls.recv(1)
            except (ssl.SSLError, OSError):
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        findings = probe("127.0.0.1", listener.getsockname()[1], server_name=name, ca_bundle_pem=bundle)
        thread.join()
    assert [finding.code for finding in findings] == expected


def test_probe_of_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    bundle = make_authority("CA", now=NOW).certificate_pem
    assert [finding.code for finding in probe("127.0.0.1", port, server_name=NAME, ca_bundle_pem=bundle)] == [
        "probe-failed"
    ]
    assert [finding.code for finding in probe("127.0.0.1", port, server_name=NAME, ca_bundle_pem=b"x")] == [
        "ca-unreadable"
    ]
