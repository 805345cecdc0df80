"""The context follows the files, takes only matching pairs, and looks cheaply."""

import os
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from webhook.tls.issue import Issued, make_authority, make_serving_certificate, write_pair
from webhook.tls.reload import CertificateError, ReloadingContext, ReloadState, server_context

NOW = datetime.now(UTC)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(scope="module")
def pairs() -> list[Issued]:
    authority = make_authority("CA", now=NOW)
    return [make_serving_certificate(authority, dns_names=[f"{name}.svc"], now=NOW) for name in ("one", "two", "three")]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def served(context: ssl.SSLContext) -> str:
    """The DNS name in the certificate that this context serves, by a handshake in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = client.wrap_bio(to_client, to_server)
    right = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (left, right):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = left.getpeercert(binary_form=True)
    assert certificate is not None
    return next(name for name in ("one", "two", "three") if f"{name}.svc".encode() in certificate)


def mount(directory: Path, issued: Issued, revision: int) -> None:
    """Put a pair there as kubelet does: a new directory, then one link swapped."""
    target = directory / f"..{revision}"
    target.mkdir()
    (target / "tls.crt").write_bytes(issued.certificate_pem)
    (target / "tls.key").write_bytes(issued.key_pem)
    (directory / "..new").symlink_to(target.name)
    (directory / "..new").rename(directory / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(Path("..data") / name)


def test_a_mounted_secret(tmp_path: Path, pairs: list[Issued], clock: Clock) -> None:
    mount(tmp_path, pairs[0], 1)
    seen: list[ReloadState] = []
    context = ReloadingContext(tmp_path / "tls.crt", tmp_path / "tls.key", clock=clock, on_change=seen.append)
    first = context()
    mount(tmp_path, pairs[1], 2)
    assert context() is first, "not looked at again within a second"
    clock.seconds += 1.0
    second = context()
    assert (served(first), served(second)) == ("one", "two")
    clock.seconds += 1.0
    assert context() is second
    assert seen == [ReloadState(loads=2, error=None)] == [context.state]


@pytest.mark.parametrize("first", ["cert", "key"])
def test_half_a_pair_keeps_the_old(tmp_path: Path, pairs: list[Issued], clock: Clock, first: str) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(pairs[0], cert, key)
    seen: list[ReloadState] = []
    context = ReloadingContext(cert, key, clock=clock, on_change=seen.append)
    writes = [lambda: cert.write_bytes(pairs[1].certificate_pem), lambda: key.write_bytes(pairs[1].key_pem)]
    if first == "key":
        writes.reverse()
    writes[0]()
    for _ in range(3):
        clock.seconds += 1.0
        assert served(context()) == "one"
    assert context.state.error is not None
    assert "does not belong" in context.state.error
    writes[1]()
    clock.seconds += 1.0
    assert served(context()) == "two"
    assert [state.loads for state in seen] == [1, 2], "an error is told once"


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_bad_or_missing_file_keeps_the_old(tmp_path: Path, pairs: list[Issued], clock: Clock, content: bytes) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(pairs[0], cert, key)
    context = ReloadingContext(cert, key, clock=clock)
    cert.write_bytes(content)
    clock.seconds += 1.0
    assert served(context()) == "one"
    assert context.state.error
    cert.unlink()
    clock.seconds += 1.0
    assert served(context()) == "one"
    assert "No such file" in str(context.state.error)
    write_pair(pairs[2], cert, key)
    clock.seconds += 1.0
    assert served(context()) == "three"
    assert context.state == ReloadState(loads=2, error=None)


def test_a_renewal_for_the_same_key(tmp_path: Path, clock: Clock) -> None:
    """cert-manager's `rotationPolicy: Never`: the key file never changes."""
    authority = make_authority("one.svc", now=NOW)
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(authority, cert, key)
    context = ReloadingContext(cert, key, clock=clock)
    cert.write_bytes(authority.certificate_pem + authority.certificate_pem)
    clock.seconds += 1.0
    context()
    assert context.state == ReloadState(loads=2, error=None)


def test_a_file_that_comes_back_clears_the_error(tmp_path: Path, pairs: list[Issued], clock: Clock) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(pairs[0], cert, key)
    context = ReloadingContext(cert, key, clock=clock)
    cert.rename(tmp_path / "aside")
    clock.seconds += 1.0
    context()
    assert context.state.error
    (tmp_path / "aside").rename(cert)
    clock.seconds += 1.0
    context()
    assert context.state == ReloadState(loads=1, error=None)


def test_looks_once_a_second_from_many_threads(
    tmp_path: Path, pairs: list[Issued], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(pairs[0], cert, key)
    context = ReloadingContext(cert, key, clock=clock)
    looks: list[str] = []
    stat = os.stat

    def counting(path: str) -> os.stat_result:
        looks.append(path)
        return stat(path)

    monkeypatch.setattr("webhook.tls.reload.os.stat", counting)
    clock.seconds += 1.0
    threads = [threading.Thread(target=lambda: [context() for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert looks == [str(cert), str(key)]


def test_the_first_load_says_what_is_wrong(tmp_path: Path, pairs: list[Issued]) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    with pytest.raises(CertificateError, match=r"tls\.crt.*No such file"):
        ReloadingContext(cert, key)
    write_pair(pairs[0], cert, key)
    key.write_bytes(pairs[1].key_pem)
    with pytest.raises(CertificateError, match="does not belong"):
        ReloadingContext(cert, key)
    locked = serialization.load_pem_private_key(pairs[0].key_pem, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    key.write_bytes(locked)
    with pytest.raises(CertificateError, match="encrypted"):
        ReloadingContext(cert, key)


def test_context(tmp_path: Path, pairs: list[Issued]) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_pair(pairs[0], cert, key)
    context = server_context(cert, key)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
