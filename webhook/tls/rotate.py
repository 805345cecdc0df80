"""When to make new certificates, and what clients must trust meanwhile. Pure: no files, no clock of its own."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

RENEW_FRACTION: Final = 2 / 3
"""A certificate is renewed once this part of its lifetime is over (cert-manager's default too): a 90-day certificate
leaves a month in which a failing renewal can be seen and mended."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What must be made anew, and why (texts for a log or an event). A new authority always means a new serving
    certificate."""

    authority: bool
    serving: bool
    reasons: tuple[str, ...]


def renewal_time(not_before: datetime, not_after: datetime) -> datetime:
    """The moment from which a certificate with these limits is due."""
    return not_before + (not_after - not_before) * RENEW_FRACTION


def decide(
    authority_pem: bytes | None,
    serving_pem: bytes | None,
    *,
    dns_names: Sequence[str],
    ip_addresses: Sequence[str] = (),
    now: datetime,
) -> Rotation:
    """Compare what there is (PEM, None when missing) with what there should be at `now`. Never raises on bad PEM: what
    cannot be read is due."""
    authority_reason = _due("CA", authority_pem, now)
    serving_reason = _due("serving certificate", serving_pem, now)
    if serving_reason is None and serving_pem is not None:
        serving_reason = _names_differ(serving_pem, dns_names, ip_addresses)
    if authority_reason is not None and serving_reason is None:
        serving_reason = "the serving certificate is signed by the old CA"
    reasons = tuple(reason for reason in (authority_reason, serving_reason) if reason is not None)
    return Rotation(authority_reason is not None, serving_reason is not None, reasons)


def merge_bundles(new_authority_pem: bytes, bundle_pem: bytes, *, now: datetime) -> bytes:
    """The caBundle to publish before anything is served under a new CA: it first, then those of the old bundle that have
    not expired, without duplicates.

    Order of a CA change: publish this, wait until API servers use it, serve the new certificate, drop the old CA when
    no replica serves the old one. Raises ValueError when the new CA is not PEM; an unreadable old bundle is left out.
    """
    merged = [x509.load_pem_x509_certificate(new_authority_pem)]
    try:
        old = x509.load_pem_x509_certificates(bundle_pem)
    except ValueError:
        old = []
    merged += [ca for ca in dict.fromkeys(old) if ca != merged[0] and ca.not_valid_after_utc > now]
    return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in merged)


def _due(what: str, pem: bytes | None, now: datetime) -> str | None:
    if pem is None:
        return f"the {what} is missing"
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return f"the {what} is not a PEM certificate"
    due = renewal_time(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    if now >= certificate.not_valid_after_utc:
        return f"the {what} expired at {certificate.not_valid_after_utc.isoformat()}"
    if now < certificate.not_valid_before_utc:
        return f"the {what} is valid only from {certificate.not_valid_before_utc.isoformat()}"
    return f"the {what} is due since {due.isoformat()}" if now >= due else None


def _names_differ(pem: bytes, dns_names: Sequence[str], ip_addresses: Sequence[str]) -> str | None:
    try:
        names = (
            x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except (ValueError, x509.ExtensionNotFound):
        return "the serving certificate has no readable SAN"
    missing = set(dns_names) - set(names.get_values_for_type(x509.DNSName))
    wanted = {ipaddress.ip_address(address) for address in ip_addresses}
    missing |= {str(address) for address in wanted - set(names.get_values_for_type(x509.IPAddress))}
    return f"the serving certificate lacks {', '.join(sorted(missing))}" if missing else None
