"""What we issue is accepted by strict verifiers, and what is there is kept or renewed as it should be."""

import shutil
import ssl
import stat
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from webhook.tls.inspect import inspect_serving
from webhook.tls.issue import (
    Issued,
    ensure_development_certificates,
    make_authority,
    make_serving_certificate,
    service_names,
    write_pair,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)
NAMES = service_names("muster", "muster-system")

# Go's verifier is the judge in the cluster: the same call that kube-apiserver's TLS client makes.
GO_VERIFY = """
package main

import ("crypto/x509"; "encoding/pem"; "fmt"; "os"; "time")

func main() {
	ca, _ := os.ReadFile(os.Args[1])
	chain, _ := os.ReadFile(os.Args[2])
	now, _ := time.Parse(time.RFC3339, os.Args[3])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	block, _ := pem.Decode(chain)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil { fmt.Println(err); os.Exit(1) }
	for _, name := range os.Args[4:] {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
		fmt.Println(name, err)
	}
}
"""


@pytest.fixture(scope="module")
def authority() -> Issued:
    return make_authority("test CA", now=NOW)


@pytest.fixture(scope="module")
def serving(authority: Issued) -> Issued:
    return make_serving_certificate(
        authority, dns_names=[*NAMES, "localhost"], ip_addresses=["127.0.0.1", "::1"], now=NOW
    )


def test_service_names() -> None:
    assert NAMES == ("muster.muster-system.svc", "muster.muster-system.svc.cluster.local")


def test_extensions(authority: Issued, serving: Issued) -> None:
    leaf = x509.load_pem_x509_certificate(serving.certificate_pem)
    extensions = leaf.extensions
    san = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert san.get_values_for_type(x509.DNSName) == [*NAMES, "localhost"]
    assert [str(address) for address in san.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    ca = x509.load_pem_x509_certificate(authority.certificate_pem)
    identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == identifier


def test_accepted_by_a_strict_verifier(authority: Issued, serving: Issued) -> None:
    leaf, ca = (x509.load_pem_x509_certificate(issued.certificate_pem) for issued in (serving, authority))
    verifier = PolicyBuilder().store(Store([ca])).time(NOW).build_server_verifier(x509.DNSName(NAMES[0]))
    assert verifier.verify(leaf, []) == [leaf, ca]


def test_accepted_by_openssl_in_strict_mode(tmp_path: Path) -> None:
    paths = ensure_development_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(paths.cert, paths.key)
    client = ssl.create_default_context(cafile=str(paths.ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done = []
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
                done.append(side)
            except ssl.SSLWantReadError:
                pass
    assert set(done) == set(sides)


@pytest.mark.prove
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_accepted_by_go(tmp_path: Path, authority: Issued, serving: Issued) -> None:
    (tmp_path / "main.go").write_text(GO_VERIFY)
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    (tmp_path / "tls.crt").write_bytes(serving.certificate_pem)
    names = [*NAMES, "localhost", "127.0.0.1", "elsewhere"]
    files = [str(tmp_path / "ca.crt"), str(tmp_path / "tls.crt")]
    command = ["go", "run", str(tmp_path / "main.go"), *files, NOW.isoformat(), *names]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in said[:4]] == ["<nil>"] * 4
    assert "is valid for" in said[4]


def test_ends_no_later_than_its_authority() -> None:
    short = make_authority("short", now=NOW, lifetime=timedelta(days=10))
    leaf = x509.load_pem_x509_certificate(make_serving_certificate(short, dns_names=["a"], now=NOW).certificate_pem)
    assert leaf.not_valid_after_utc == NOW + timedelta(days=10)
    with pytest.raises(ValueError, match="lifetime is left"):
        make_serving_certificate(short, dns_names=["a"], now=NOW + timedelta(days=11))
    with pytest.raises(ValueError, match="at least one"):
        make_serving_certificate(short, dns_names=[], now=NOW)


def test_long_names_and_hidden_keys(authority: Issued) -> None:
    names = service_names("s" * 63, "n" * 63)
    issued = make_serving_certificate(authority, dns_names=names, now=NOW)
    assert not inspect_serving(
        issued.certificate_pem, server_name=names[0], ca_bundle_pem=authority.certificate_pem, now=NOW
    )
    assert b"PRIVATE" in issued.key_pem
    assert "PRIVATE" not in repr(issued)


def test_key_files_are_private_and_replaced_whole(tmp_path: Path, serving: Issued) -> None:
    cert, key = tmp_path / "new" / "tls.crt", tmp_path / "new" / "tls.key"
    for _ in range(2):
        write_pair(serving, cert, key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(path.name for path in cert.parent.iterdir()) == ["tls.crt", "tls.key"]
    assert key.read_bytes() == serving.key_pem


def test_development_certificates_are_kept_while_they_are_good(tmp_path: Path) -> None:
    paths = ensure_development_certificates(tmp_path, now=NOW)
    before = {path: path.read_bytes() for path in (paths.ca, paths.cert, paths.key)}
    assert ensure_development_certificates(tmp_path, now=NOW + timedelta(days=59)) == paths
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "spoil",
    ["late", "no key", "no cert", "garbage", "other key", "other names", "other CA"],
)
def test_development_certificates_are_renewed_when_they_are_not(tmp_path: Path, spoil: str, authority: Issued) -> None:
    paths = ensure_development_certificates(tmp_path, now=NOW)
    ca, cert = paths.ca.read_bytes(), paths.cert.read_bytes()
    now, service = NOW, "muster"
    match spoil:
        case "late":
            now = NOW + timedelta(days=61)
        case "no key":
            paths.key.unlink()
        case "no cert":
            paths.cert.unlink()
        case "garbage":
            paths.cert.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
        case "other key":
            paths.key.write_bytes(make_authority("x", now=NOW).key_pem)
        case "other names":
            service = "other"
        case "other CA":
            write_pair(authority, paths.ca, tmp_path / "ca.key")
            ca = authority.certificate_pem
    ensure_development_certificates(tmp_path, service=service, now=now)
    assert paths.cert.read_bytes() != cert
    assert paths.ca.read_bytes() == ca, "clients that trust the CA go on"
    findings = inspect_serving(
        paths.cert.read_bytes(),
        server_name=f"{service}.muster-system.svc",
        ca_bundle_pem=ca,
        key_pem=paths.key.read_bytes(),
        now=now,
    )
    assert findings == []


def test_a_lost_or_old_authority_is_replaced_with_what_it_signed(tmp_path: Path) -> None:
    paths = ensure_development_certificates(tmp_path, now=NOW)
    ca = paths.ca.read_bytes()
    later = NOW + timedelta(days=3649)
    ensure_development_certificates(tmp_path, now=later)
    assert paths.ca.read_bytes() != ca
    assert not inspect_serving(
        paths.cert.read_bytes(), server_name="localhost", ca_bundle_pem=paths.ca.read_bytes(), now=later
    )


def test_several_at_once_agree(tmp_path: Path) -> None:
    threads = [threading.Thread(target=ensure_development_certificates, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = ensure_development_certificates(tmp_path)
    assert not inspect_serving(
        paths.cert.read_bytes(),
        server_name="localhost",
        ca_bundle_pem=paths.ca.read_bytes(),
        key_pem=paths.key.read_bytes(),
        now=datetime.now(UTC),
    )
