"""Process settings: read once, refused in words that name the variable and the nearest right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from webhook.settings import Settings, SettingsError, load_settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has set is not part of these tests."""
    import os

    for name in list(os.environ):
        if name.startswith("MUSTER_"):
            monkeypatch.delenv(name)


def problems(**overrides: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(**overrides)
    return caught.value.problems


def test_nothing_set_is_a_whole_configuration() -> None:
    """A container needs no more than its certificate."""
    settings = load_settings()

    assert (settings.bind, settings.source, settings.workers, settings.threads) == ("0.0.0.0:8443", "cluster", 2, 8)
    assert settings.folder is None


def test_environment_and_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command's option stands above the environment."""
    monkeypatch.setenv("MUSTER_THREADS", "4")
    monkeypatch.setenv("MUSTER_WORKERS", "3")
    monkeypatch.setenv("MUSTER_SOURCE", f"folder:{tmp_path}")
    monkeypatch.setenv("MUSTER_POLICY", f"{tmp_path}, {tmp_path}/")

    settings = load_settings(workers=1)

    assert (settings.workers, settings.threads) == (1, 4)
    assert settings.folder == tmp_path
    assert settings.policy == (tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MUSTER_THREDS", "3", 'MUSTER_THREDS is no setting; did you mean "MUSTER_THREADS"?'),
        ("MUSTER_THREADS", "0", 'MUSTER_THREADS is "0": input should be greater than or equal to 1'),
        ("MUSTER_THREADS", "many", 'MUSTER_THREADS is "many": input should be a valid integer'),
        ("MUSTER_BIND", "8443", 'MUSTER_BIND is "8443": must be ADDRESS:PORT'),
        ("MUSTER_BIND", "0.0.0.0:70000", "must be ADDRESS:PORT"),
        ("MUSTER_LOG_FORMAT", "jsn", 'MUSTER_LOG_FORMAT is "jsn", must be one of "json", "text"; did you mean "json"?'),
        ("MUSTER_SOURCE", "clustr", 'must be "cluster" or "folder:PATH"; did you mean "cluster"?'),
        ("MUSTER_SOURCE", "folder:", 'must be "cluster" or "folder:PATH"'),
        ("MUSTER_SOURCE", "folder:/no/such", 'no file or folder "/no/such"'),
        ("MUSTER_POLICY", "/no/such.yaml", 'MUSTER_POLICY is "/no/such.yaml": no file or folder "/no/such.yaml"'),
        ("MUSTER_TLS_CERT", "/no/such.crt", 'no file "/no/such.crt"'),
        ("MUSTER_NAMESPACE", "", "MUSTER_NAMESPACE"),
    ],
)
def test_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    """The variable, what it holds, what it may hold."""
    monkeypatch.setenv(name, value)

    (problem,) = problems()

    assert words in problem
    assert "invalid" not in problem.lower()


def test_a_repeatable_option_is_told_as_it_was_given() -> None:
    (problem,) = problems(policy=(Path("/no/such"), Path("/nor/this")))

    assert problem.startswith('MUSTER_POLICY is "/no/such,/nor/this": no file or folder "/no/such"')


def test_all_problems_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants to restart three times."""
    monkeypatch.setenv("MUSTER_THREADS", "0")
    monkeypatch.setenv("MUSTER_WORKERS", "0")
    monkeypatch.setenv("MUSTER_WOKERS", "2")

    assert len(problems()) == 3


def test_certificate_and_key_belong_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Half a pair would serve plain HTTP or nothing."""
    (tmp_path / "tls.crt").touch()
    monkeypatch.setenv("MUSTER_TLS_CERT", str(tmp_path / "tls.crt"))

    assert problems() == ("MUSTER_TLS_KEY is missing: MUSTER_TLS_CERT and MUSTER_TLS_KEY belong together",)


@pytest.mark.parametrize(
    "name",
    [
        "MUSTER_PORT",
        "MUSTER_PORT_443_TCP",
        "MUSTER_PORT_443_TCP_ADDR",
        "MUSTER_PORT_443_TCP_PORT",
        "MUSTER_PORT_443_TCP_PROTO",
        "MUSTER_SERVICE_HOST",
        "MUSTER_SERVICE_PORT",
        "MUSTER_SERVICE_PORT_HTTPS",
        "MUSTER_METRICS_SERVICE_HOST",
        "MUSTER_METRICS_PORT_9090_TCP_ADDR",
    ],
)
def test_service_links_are_nobodys_mistake(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """kubelet sets these in every Pod of a namespace with a Service called "muster" or "muster-...": no refusal."""
    monkeypatch.setenv(name, "tcp://10.0.0.1:443")

    assert load_settings().bind == "0.0.0.0:8443"


def test_no_setting_can_be_taken_for_a_service_link() -> None:
    """A variable that the kubelet could set as well would be overwritten."""
    from webhook.settings import _SERVICE_LINK

    assert [name for name in Settings.model_fields if _SERVICE_LINK.match(name.upper())] == []


def test_a_dotenv_file_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What happens to lie in the working directory changes nothing."""
    (tmp_path / ".env").write_text("MUSTER_THREADS=1\n")
    monkeypatch.chdir(tmp_path)

    assert load_settings().threads == 8


def test_every_setting_says_what_it_is() -> None:
    """The documentation is made from these."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
