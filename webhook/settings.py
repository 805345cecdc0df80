"""Settings of the process, from environment variables `MUSTER_*`, read and checked once at start.

What admins decide about objects is no setting: it is in the policy file. Here is only how this process runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from webhook.policy.problems import did_you_mean

PREFIX: Final = "MUSTER_"

# kubelet sets such variables in every Pod for every Service of its namespace. A Service named "muster" makes MUSTER_PORT
# and MUSTER_SERVICE_HOST: they are nobody's typing mistake, and no setting may have such a name.
_SERVICE_LINK: Final = re.compile(
    r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)\Z"
)


class SettingsError(Exception):
    """Settings that cannot be used. `problems`: one line each, naming the variable, what it holds and what it may."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Settings(BaseSettings):
    """Each field is the variable MUSTER_<NAME>. Paths are not opened here, except that they must exist."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)

    bind: str = Field(default="0.0.0.0:8443", description="address and port to serve on")
    tls_cert: Path | None = Field(default=None, description="PEM certificate chain; without it and the key: plain HTTP")
    tls_key: Path | None = Field(default=None, description="PEM key of the certificate")
    tls_ca: Path | None = Field(default=None, description="PEM CA bundle that the API server is told to trust")
    policy: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(), description='policy files or folders, separated by ","; none: every rule at its default'
    )
    namespace: str = Field(
        default="muster-system", min_length=1, max_length=63, description="Muster's own namespace, never judged"
    )
    source: str = Field(
        default="cluster", description='where facts come from: "cluster", or "folder:PATH", all there is in the world'
    )
    kubeconfig: Path | None = Field(default=None, description="none: the Pod's service account")
    snapshot_dir: Path | None = Field(
        default=None, description="memory volume that the agent and the workers share; none: a temporary folder"
    )
    inventory: bool = Field(default=True, description="judge gangs by the nodes and devices that the cluster has")
    inventory_pods: bool = Field(
        default=True,
        description="watch Pods and what ResourceClaims hold too, to warn of gangs that fit but not now; the agent keeps "
        "about 0.4 kB per running Pod and 0.5 kB per allocated claim",
    )
    workers: int = Field(default=2, ge=1, le=64, description="worker processes")
    threads: int = Field(default=8, ge=1, le=256, description="threads of one worker")
    in_flight_max: int = Field(
        default=256, ge=1, le=100_000, description="requests one entry of a worker has in hand before it says 429"
    )
    reservation_seconds: float = Field(
        default=90.0,
        ge=5,
        le=3600,
        description="how long a quota waits for an admitted object; must be longer than kube-apiserver's --request-timeout",
    )
    log_format: Literal["json", "text"] = Field(default="json", description="of the request log")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="of the server's own log"
    )

    @field_validator("bind")
    @classmethod
    def _check_bind(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError('must be ADDRESS:PORT, for example "0.0.0.0:8443" or "[::]:8443"')
        return value

    @field_validator("policy", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _check_source(cls, value: str) -> str:
        word, colon, path = value.partition(":")
        if value == "cluster" or (word == "folder" and path):
            return value
        hint = "" if word in ("cluster", "folder") else did_you_mean(word, ("cluster", "folder"))
        raise ValueError(f'must be "cluster" or "folder:PATH"{hint if colon or word else ""}')

    @field_validator("tls_cert", "tls_key", "tls_ca", "kubeconfig")
    @classmethod
    def _check_file(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            raise ValueError(f'no file "{value}"')
        return value

    @field_validator("policy")
    @classmethod
    def _check_policy(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in value:
            if not path.exists():
                raise ValueError(f'no file or folder "{path}"')
        return value

    @model_validator(mode="after")
    def _check_pair(self) -> Settings:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "MUSTER_TLS_KEY" if self.tls_key is None else "MUSTER_TLS_CERT"
            raise ValueError(f"{missing} is missing: MUSTER_TLS_CERT and MUSTER_TLS_KEY belong together")
        if self.folder is not None and not self.folder.exists():
            raise ValueError(f'MUSTER_SOURCE: no file or folder "{self.folder}"')
        return self

    @property
    def folder(self) -> Path | None:
        """The folder of manifests that stands for the cluster; None where the source is the live cluster."""
        word, _, path = self.source.partition(":")
        return Path(path) if word == "folder" else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  pydantic's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given in code, then the environment; no .env file that happens to lie there."""
        return init_settings, env_settings


def load_settings(**overrides: Any) -> Settings:
    """From the environment, with `overrides` (a command's options) above it.

    Raises SettingsError with every problem: unknown variables with the nearest known one, and values that cannot be.
    """
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    problems = [
        f"{name} is no setting{did_you_mean(name, known)}"
        for name in sorted(os.environ)
        if name.startswith(PREFIX) and name not in known and not _SERVICE_LINK.match(name.removeprefix(PREFIX))
    ]
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems += [_problem(detail, overrides, known) for detail in error.errors(include_url=False)]
    if problems:
        raise SettingsError(problems)
    return settings


def _problem(detail: Any, overrides: Mapping[str, Any], known: Sequence[str]) -> str:
    """One pydantic error in our words."""
    reason = str(detail["msg"]).removeprefix("Value error, ")
    if not detail["loc"]:
        return reason
    name = str(detail["loc"][0])
    variable = PREFIX + name.upper()
    if detail["type"] == "extra_forbidden":
        return f"{variable} is no setting{did_you_mean(variable, known)}"
    seen = overrides.get(name, os.environ.get(variable))
    if isinstance(seen, tuple):  # of an option that is repeatable
        seen = ",".join(str(one) for one in seen)
    if detail["type"] == "literal_error":
        words = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        choices = ", ".join(f'"{word}"' for word in words)
        return f'{variable} is "{seen}", must be one of {choices}{did_you_mean(str(seen), words)}'
    return f'{variable} is "{seen}": {reason[:1].lower()}{reason[1:]}'
