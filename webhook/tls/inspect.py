"""Look at certificates as kube-apiserver will: what `muster doctor` and readiness report.

The judge is Go's crypto/x509, so its rules are followed where they differ from others: the common name is never a name,
a certificate in the CA bundle is trusted even when it is not a CA, SHA-1 signatures are refused. Everything found is
returned, not only the first; nothing here raises on bad input, because bad input is what it is for.
"""

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

EXPIRY_WARNING: Final = timedelta(days=7)
_CHAIN_LENGTH_MAX: Final = 8


class Severity(StrEnum):
    """`error`: the API server cannot call the webhook. `warning`: it can today."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. `code` is permanent (`san-missing`), `message` says what was seen, `fix` what to do."""

    code: str
    severity: Severity
    message: str
    fix: str


def blocking(findings: Iterable[Finding]) -> list[Finding]:
    """Those findings that make calls fail now."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def expiry(pem: bytes) -> datetime:
    """When the first certificate of a PEM chain ends (aware, UTC). Raises ValueError when it is not readable."""
    return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc


def inspect_serving(
    chain_pem: bytes,
    *,
    server_name: str,
    ca_bundle_pem: bytes | None,
    key_pem: bytes | None = None,
    now: datetime,
    near: timedelta = EXPIRY_WARNING,
) -> list[Finding]:
    """What is wrong with a serving certificate (leaf first, then intermediates), for a client that connects to
    `server_name` (a DNS name or an IP address) and trusts `ca_bundle_pem`.

    Leave out the bundle or the key (None) when they are not known here; they are then not judged. Empty list: the API
    server will accept it.
    """
    chain, finding = _load("certificate", chain_pem)
    if finding is not None:
        return [finding]
    leaf = chain[0]
    findings = _validity("certificate", leaf, now, near)
    findings += _names(leaf, server_name)
    findings += _usage(leaf)
    if key_pem is not None:
        findings += _key(leaf, key_pem)
    if ca_bundle_pem is not None:
        findings += inspect_bundle(ca_bundle_pem, now=now, near=near)
        findings += _trust(chain, ca_bundle_pem, now)
    return findings


def inspect_bundle(ca_bundle_pem: bytes, *, now: datetime, near: timedelta = EXPIRY_WARNING) -> list[Finding]:
    """What is wrong with a CA bundle by itself. One expired CA beside a good one is a warning: Go skips it."""
    bundle, finding = _load("caBundle", ca_bundle_pem)
    if finding is not None:
        return [finding]
    usable = [ca for ca in bundle if ca.not_valid_before_utc <= now < ca.not_valid_after_utc]
    findings: list[Finding] = []
    for ca in bundle:
        for found in _validity("ca", ca, now, near):
            severity = Severity.WARNING if usable else found.severity
            findings.append(Finding(found.code, severity, found.message, found.fix))
    return findings


def probe(
    host: str, port: int, *, server_name: str, ca_bundle_pem: bytes, timeout_seconds: float = 5.0
) -> list[Finding]:
    """Connect as the API server does: TLS to host:port, verified for `server_name` against the bundle. Empty list: it
    works. Needs the network; waits at most about twice `timeout_seconds`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False  # as Go
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: any certificate in the bundle is an anchor
    try:
        context.load_verify_locations(cadata=ca_bundle_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return [_error("ca-unreadable", f"the caBundle cannot be loaded: {error}", "put a PEM CA certificate into it")]
    where = f"{host}:{port}"
    try:
        with (
            socket.create_connection((host, port), timeout=timeout_seconds) as connection,
            context.wrap_socket(connection, server_hostname=server_name),
        ):
            return []
    except ssl.SSLCertVerificationError as error:
        text = f"{where} does not verify as {server_name}: {error.verify_message}"
        return [_error("probe-untrusted", text, "compare the served certificate's issuer and SAN with the caBundle")]
    except OSError as error:
        return [_error("probe-failed", f"no TLS connection to {where}: {error}", "check that the server runs there")]


def _load(what: str, pem: bytes) -> tuple[list[x509.Certificate], Finding | None]:
    code = "ca-unreadable" if what == "caBundle" else "unreadable"
    fix = "give PEM (BEGIN CERTIFICATE); in a webhook configuration the PEM is base64-encoded once more"
    try:
        return x509.load_pem_x509_certificates(pem), None
    except ValueError as error:
        return [], _error(code, f"the {what} holds no readable PEM certificate: {error}", fix)


def _validity(what: str, certificate: x509.Certificate, now: datetime, near: timedelta) -> list[Finding]:
    prefix = "ca-" if what == "ca" else ""
    label = f"{'CA' if what == 'ca' else 'certificate'} {certificate.subject.rfc4514_string() or '(no subject)'}"
    ends, begins = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    if now >= ends:
        return [_error(f"{prefix}expired", f"the {label} expired at {ends.isoformat()}", "issue a new one")]
    if now < begins:
        text = f"the {label} is valid only from {begins.isoformat()}"
        return [_error(f"{prefix}not-yet-valid", text, "check the clock of the machine that issued it")]
    if ends - now <= near:
        text = f"the {label} expires at {ends.isoformat()}"
        return [Finding(f"{prefix}expires-soon", Severity.WARNING, text, "renew it; see certs/README.md")]
    return []


def _names(leaf: x509.Certificate, server_name: str) -> list[Finding]:
    fix = f"issue it with the SAN {server_name}"
    try:
        san = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = [str(attribute.value) for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if common:
            text = f"the certificate has only the common name {common[0]!r} and no SAN; Go ignores the common name"
            return [_error("cn-without-san", text, fix)]
        return [_error("san-missing", "the certificate has no SAN", fix)]
    except (ValueError, x509.DuplicateExtension) as error:
        return [_error("san-unreadable", f"the certificate's SAN cannot be read: {error}", fix)]
    dns = san.get_values_for_type(x509.DNSName)
    addresses = san.get_values_for_type(x509.IPAddress)
    try:
        matches = ipaddress.ip_address(server_name) in addresses
    except ValueError:
        matches = any(_dns_matches(pattern, server_name) for pattern in dns)
    if matches:
        return []
    seen = ", ".join([*dns, *(str(address) for address in addresses)]) or "none"
    return [_error("san-mismatch", f"the certificate is for {seen}, not for {server_name}", fix)]


def _dns_matches(pattern: str, name: str) -> bool:
    """As Go: labels compared without case; `*` stands for exactly the first label."""
    want, have = name.rstrip(".").lower().split("."), pattern.lower().split(".")
    if len(want) != len(have) or not want[0]:
        return False
    return want[1:] == have[1:] and (have[0] in ("*", want[0]))


def _usage(leaf: x509.Certificate) -> list[Finding]:
    try:
        usages = set(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return []  # Go accepts any use then
    except (ValueError, x509.DuplicateExtension) as error:
        return [_error("extensions-unreadable", f"the certificate's extensions cannot be read: {error}", "reissue it")]
    if usages & {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}:
        return []
    text = "the certificate's extended key usage does not include serverAuth"
    return [_error("not-for-servers", text, "issue it with the usage 'server auth'")]


def _key(leaf: x509.Certificate, key_pem: bytes) -> list[Finding]:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return [_error("key-unreadable", f"the private key cannot be read: {error}", "give an unencrypted PEM key")]
    if key.public_key() == leaf.public_key():
        return []
    return [_error("key-mismatch", "the private key does not belong to the certificate", "mount both from one Secret")]


def _trust(chain: Sequence[x509.Certificate], ca_bundle_pem: bytes, now: datetime) -> list[Finding]:
    try:
        anchors = x509.load_pem_x509_certificates(ca_bundle_pem)
    except ValueError:
        return []  # inspect_bundle has said so
    if _chains(chain[0], chain[1:], anchors, now, depth=0):
        return []
    issuer = chain[0].issuer.rfc4514_string()
    known = "; ".join(ca.subject.rfc4514_string() for ca in anchors)
    text = f"the caBundle does not verify the certificate: it was issued by {issuer}, the bundle holds {known}"
    return [
        _error(
            "untrusted",
            text,
            "put the CA that issued the certificate into caBundle (and any intermediate into tls.crt)",
        )
    ]


def _chains(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    anchors: Sequence[x509.Certificate],
    now: datetime,
    depth: int,
) -> bool:
    """Whether a path leads from the certificate to an anchor. `depth` is the number of CAs below it on this path."""
    if certificate in anchors:
        return True
    if depth > _CHAIN_LENGTH_MAX:
        return False
    if any(_issued(certificate, anchor, now, depth) for anchor in anchors):
        return True
    rest = [other for other in intermediates if other != certificate]
    return any(
        _issued(certificate, issuer, now, depth) and _chains(issuer, rest, anchors, now, depth + 1) for issuer in rest
    )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate, now: datetime, depth: int) -> bool:
    if not issuer.not_valid_before_utc <= now < issuer.not_valid_after_utc:
        return False
    if isinstance(certificate.signature_hash_algorithm, hashes.SHA1):
        return False  # Go since 1.18
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not constraints.ca or (constraints.path_length is not None and constraints.path_length < depth):
            return False
        certificate.verify_directly_issued_by(issuer)
    except (
        ValueError,
        TypeError,
        InvalidSignature,
        UnsupportedAlgorithm,
        x509.ExtensionNotFound,
        x509.DuplicateExtension,
    ):
        return False
    try:
        return issuer.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return True


def _error(code: str, message: str, fix: str) -> Finding:
    return Finding(code, Severity.ERROR, message, fix)
