"""`muster inventory export`: the capacity of a live cluster as a file, for `muster review --inventory`.

The format is that of `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o json`, with only those fields
that Muster reads. `--anonymize` replaces names of nodes everywhere, so that a tenant may have it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
import yaml

from webhook.cli.options import MUSTER_NAMESPACE, Kubeconfig, connection_to
from webhook.cluster.connection import PAGE_OBJECT_COUNT, Connection, ReadState
from webhook.cluster.marks_map import MarksMap, UnreadError
from webhook.inventory.devices import allocated_by
from webhook.inventory.marks import Marks, exported
from webhook.objects.words import plural

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Export what the nodes and devices of a cluster offer."
)

_READ_SECONDS = 60.0
# path of the list, apiVersion, kind; the ones behind may not be served.
_LISTS = (
    ("/api/v1/nodes", "v1", "Node"),
    ("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass"),
    ("/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass"),
    ("/apis/resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1", "ResourceSlice"),
    ("/apis/resource.k8s.io/v1/devicetaintrules", "resource.k8s.io/v1", "DeviceTaintRule"),
)
# What runs now, and what it holds.
_NOW = (
    ("/api/v1/pods", "v1", "Pod"),
    ("/apis/resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1", "ResourceClaim"),
)
# Annotations that the inventory reads: Muster's own, and signs of an autoscaler (webhook/inventory/build.py).
_ANNOTATIONS = ("muster.dev/", "karpenter.", "cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/")


class ExportError(Exception):
    """A list that cannot be read; the message says which and why."""


@app.callback()
def _family() -> None:
    pass


@app.command()
def export(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="json|yaml", help="any other word is a file to write JSON to")
    ] = "json",
    kubeconfig: Kubeconfig = None,
    anonymize: Annotated[bool, typer.Option("--anonymize", help="replace names of nodes and Pods")] = False,
    pods: Annotated[
        bool, typer.Option("--pods", help="also Pods and allocated ResourceClaims, for what fits now")
    ] = False,
    namespace: Annotated[
        str, typer.Option(*MUSTER_NAMESPACE, help="Muster's own, which holds what nodes had lately")
    ] = "muster-system",
) -> None:
    """Write the nodes, devices and classes of a cluster, as far as Muster reads them.

    Exit 2: they cannot be read.
    """
    connection = connection_to(kubeconfig, "read")
    try:
        listed = list(inventory_objects(connection, with_pods=pods))
    except ExportError as error:
        print(f"{connection.host}: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    objects = list(exported(listed, _marks(connection, namespace)))
    if anonymize:
        objects = anonymized(objects)
    document = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = as_yaml(document) if output == "yaml" else json.dumps(document, indent=1) + "\n"
    if output in ("json", "yaml"):
        print(text, end="")
    else:
        # -o FILE is how this was called before -o meant a format everywhere.
        try:
            Path(output).write_text(text)
        except OSError as error:
            print(f"{output}: cannot be written: {error.strerror}", file=sys.stderr)
            raise typer.Exit(2) from None
        print(f"{plural(len(objects), 'object')} in {output}", file=sys.stderr)


def _marks(connection: Connection, namespace: str) -> Marks:
    """What nodes and slices had in the last days. Who may not read it is told what is missing."""
    try:
        return MarksMap(connection, namespace).read()[0].without_old(time.time())
    except UnreadError as error:
        print(f"note: {error}; the export leaves it out", file=sys.stderr)
        return Marks()


def as_yaml(document: Any) -> str:
    """By the writer that quotes words such as "on", which the readers of Kubernetes take for true."""
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False))


def inventory_objects(connection: Connection, *, with_pods: bool = False) -> Iterator[dict[str, Any]]:
    """Everything, pruned. Raises ExportError."""
    for path, api_version, kind in (*_LISTS, *(_NOW if with_pods else ())):
        for raw in _list(connection, path, kind):
            if kind != "ResourceClaim" or any(allocated_by(raw)):
                yield {"apiVersion": api_version, "kind": kind, **_pruned(kind, raw)}


def _list(connection: Connection, path: str, kind: str) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        query = f"?limit={PAGE_OBJECT_COUNT}" + (f"&continue={quote(token)}" if token else "")
        read = connection.get(path + query, _READ_SECONDS)
        if read.state is ReadState.NOT_SERVED and kind != "Node":
            return
        if read.state is not ReadState.OK:
            raise ExportError(f"{kind}s cannot be listed: {read.reason}")
        page = msgspec.json.decode(read.body)
        yield from page.get("items") or ()
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return


# ---- only what is read --------------------------------------------------------------------------------------------
def _pruned(kind: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    metadata = raw.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(_ANNOTATIONS)}
    kept: dict[str, Any] = {"name": metadata.get("name")}
    if kind in ("Pod", "ResourceClaim"):
        kept["namespace"] = metadata.get("namespace")
    else:
        kept |= {"labels": metadata["labels"]} if metadata.get("labels") else {}
        kept |= {"annotations": annotations} if annotations else {}
    if metadata.get("deletionTimestamp"):
        kept["deletionTimestamp"] = metadata["deletionTimestamp"]
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    if kind == "Node":
        conditions = [c for c in status.get("conditions") or () if c.get("type") == "Ready"]
        ready = [{"type": "Ready", "status": c.get("status")} for c in conditions]
        return {
            "metadata": kept,
            "spec": _some(spec, "taints", "unschedulable"),
            "status": {**_some(status, "allocatable", "capacity"), "conditions": ready},
        }
    if kind == "Pod":
        return {"metadata": kept, "spec": _pod_spec(spec), "status": _some(status, "phase")}
    if kind == "ResourceClaim":
        results = [{"driver": driver, "pool": pool, "device": name} for driver, pool, name in allocated_by(raw)]
        return {"metadata": kept, "status": {"allocation": {"devices": {"results": results}}}}
    if kind == "RuntimeClass":
        return {"metadata": kept, **_some(raw, "handler", "overhead", "scheduling")}
    return {"metadata": kept, "spec": spec}


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    result = _some(spec, "nodeName", "overhead", "resources", "priority", "hostNetwork", "schedulingGroup")
    for part in ("containers", "initContainers"):
        if spec.get(part):
            result[part] = [_some(one, "name", "resources", "ports", "restartPolicy") for one in spec[part]]
    return result


def _some(raw: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: raw[name] for name in names if raw.get(name) not in (None, [], {})}


# ---- without names ------------------------------------------------------------------------------------------------
def anonymized(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Names of nodes replaced, in order ("node-1"), also inside longer texts of the same node (pool names); Pods, claims,
    namespaces and slices are numbered. Labels, taints and devices stay: by them a tenant's manifests are judged."""
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node"]
    aliases = {name: f"node-{number}" for number, name in enumerate(names, 1)}
    aliases |= _pool_aliases(objects, aliases)
    result: list[dict[str, Any]] = []
    for number, obj in enumerate(objects, 1):
        own = obj["metadata"]["name"] if obj["kind"] == "Node" else (obj.get("spec") or {}).get("nodeName")
        renamed: dict[str, Any] = _renamed(obj, aliases, own if own in aliases else None)
        if obj["kind"] in ("Pod", "ResourceClaim"):
            word = "pod" if obj["kind"] == "Pod" else "claim"
            renamed["metadata"] = {"name": f"{word}-{number}", "namespace": "anonymous"}
        elif obj["kind"] == "ResourceSlice":
            renamed["metadata"]["name"] = f"slice-{number}"
        result.append(renamed)
    return result


def _pool_aliases(objects: list[dict[str, Any]], aliases: Mapping[str, str]) -> dict[str, str]:
    """Pools with a node's name in theirs: claims and rules name them without the node."""
    found: dict[str, str] = {}
    for obj in objects:
        node = obj["spec"].get("nodeName") if obj["kind"] == "ResourceSlice" else None
        if node in aliases:
            pool = obj["spec"]["pool"]["name"]
            found[pool] = _renamed(pool, aliases, node)
    return {pool: alias for pool, alias in found.items() if pool != alias}


def _renamed(value: Any, aliases: Mapping[str, str], own: str | None) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(one, aliases, own) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, aliases, own) for one in value]
    if not isinstance(value, str):
        return value
    if value in aliases:
        return aliases[value]
    # A short name ("a") would be found inside everything; such texts are not made from it.
    return value.replace(own, aliases[own]) if own and len(own) > 3 else value
