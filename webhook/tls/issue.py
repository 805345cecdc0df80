"""Make certificates: a certificate authority of our own and serving certificates for the webhook's Service.

For development, the demo, tests and clusters without cert-manager. Keys are ECDSA P-256. What Go's verifier insists on
is here: the name in the SAN (Go never looks at the common name), serverAuth, key identifiers that chain, and a CA that
says it is one. Pure apart from `write_pair` and `ensure_development_certificates`; times are aware datetimes given by
the caller.
"""

import contextlib
import fcntl
import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.tls.inspect import blocking, inspect_serving
from webhook.tls.rotate import Rotation, decide

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=90)

# Clocks of nodes differ by seconds; a certificate "not yet valid" on one API server would fail every call from it.
_CLOCK_SKEW: Final = timedelta(minutes=5)
_COMMON_NAME_LENGTH_MAX: Final = 64  # RFC 5280, ub-common-name


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key (PKCS #8, not encrypted), both PEM. The key is not shown by repr()."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """PEM files for a server (`cert`, `key`) and for its clients (`ca`: what goes into caBundle)."""

    ca: Path
    cert: Path
    key: Path


def service_names(service: str, namespace: str, cluster_domain: str = "cluster.local") -> tuple[str, str]:
    """DNS names of a Service; the first is the one kube-apiserver checks when it calls a webhook."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.{cluster_domain}"


def make_authority(common_name: str, *, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Issued:
    """A self-signed CA that may sign serving certificates but no further CAs. Raises ValueError on a lifetime not above 0."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = _builder(name, name, key.public_key(), now, lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(sign_certificates=True), critical=True)
    return Issued(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def make_serving_certificate(
    authority: Issued,
    *,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str] = (),
    now: datetime,
    lifetime: timedelta = SERVING_LIFETIME,
) -> Issued:
    """A serving certificate signed by `authority`, for these names; it ends no later than the authority does.

    Raises ValueError for no name at all, an unreadable address or authority, or an authority that has expired.
    """
    if not dns_names and not ip_addresses:
        raise ValueError("a serving certificate needs at least one DNS name or IP address")
    ca = x509.load_pem_x509_certificate(authority.certificate_pem)
    ca_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    # A certificate that outlives its CA would look healthy in every listing and fail all the same.
    lifetime = min(lifetime, ca.not_valid_after_utc - now)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses]
    builder = _builder(_name(next(iter(dns_names), "muster")), ca.subject, key.public_key(), now, lifetime)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    ca_identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier), critical=False
    )
    return Issued(_pem(builder.sign(ca_key, hashes.SHA256())), _key_pem(key))


def write_pair(issued: Issued, cert_file: Path, key_file: Path) -> None:
    """Write both files so that no reader ever sees a half-written one, the key with mode 0600, the certificate 0644.

    The two are replaced one after the other (key first); webhook.tls.reload knows how to wait for the second. Missing
    directories are made with mode 0700. Raises OSError.
    """
    for path, content, mode in ((key_file, issued.key_pem, 0o600), (cert_file, issued.certificate_pem, 0o644)):
        _write_atomically(path, content, mode)


def ensure_development_certificates(
    directory: Path,
    *,
    service: str = "muster",
    namespace: str = "muster-system",
    extra_dns_names: Sequence[str] = ("localhost",),
    ip_addresses: Sequence[str] = ("127.0.0.1", "::1"),
    now: datetime | None = None,
) -> CertificatePaths:
    """Usable certificates in `directory` (ca.crt, ca.key, tls.crt, tls.key): what is there, or new ones.

    New when a file is missing or unreadable, a third of its lifetime or less is left, the names differ, or key and
    certificate do not match. Safe for several processes at once (a lock file); a CA that is still good is kept, so
    clients that trust it go on. Raises OSError when the directory cannot be written.
    """
    now = now or datetime.now(UTC)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = CertificatePaths(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    ca_key_file = directory / "ca.key"
    dns_names = [*service_names(service, namespace), *extra_dns_names]
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        authority = _read(paths.ca, ca_key_file)
        serving = _read(paths.cert, paths.key)
        rotation = _due(authority, serving, dns_names, ip_addresses, now)
        if rotation.authority or authority is None:
            authority = make_authority("Muster development CA", now=now)
            write_pair(authority, paths.ca, ca_key_file)
        if rotation.serving:
            serving = make_serving_certificate(authority, dns_names=dns_names, ip_addresses=ip_addresses, now=now)
            write_pair(serving, paths.cert, paths.key)
    return paths


def _due(
    authority: Issued | None,
    serving: Issued | None,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str],
    now: datetime,
) -> Rotation:
    rotation = decide(
        authority.certificate_pem if authority else None,
        serving.certificate_pem if serving else None,
        dns_names=dns_names,
        ip_addresses=ip_addresses,
        now=now,
    )
    if rotation.serving or authority is None or serving is None:
        return rotation
    findings = inspect_serving(
        serving.certificate_pem,
        server_name=dns_names[0],
        ca_bundle_pem=authority.certificate_pem,
        key_pem=serving.key_pem,
        now=now,
    )
    reasons = tuple(finding.message for finding in blocking(findings))
    return Rotation(rotation.authority, bool(reasons), (*rotation.reasons, *reasons))


def _read(cert_file: Path, key_file: Path) -> Issued | None:
    """A pair from disk; None when a file is missing or the key is not readable as one."""
    try:
        issued = Issued(cert_file.read_bytes(), key_file.read_bytes())
        serialization.load_pem_private_key(issued.key_pem, password=None)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return issued


def _write_atomically(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # Mode at creation, not after: there is no moment in which others could read the key.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_COMMON_NAME_LENGTH_MAX])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    if lifetime <= timedelta(0):
        raise ValueError(f"nothing of the certificate's lifetime is left: {lifetime}")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
