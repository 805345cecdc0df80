"""Random pairs, weighted to the edges: small numbers, and a quorum that the engine says just fits or just does not.

`generate(seed, index)` is the same pair for the same arguments. Every feature that the engine models occurs, alone and
together with others. The engine only chooses the *size* here; what is right is decided by the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.judge.pairs import GroupSpec, LeafSpec, Pair, Raw, SetSpec, TreeSpec

RACK, BLOCK, HOSTNAME = "topo.example.com/rack", "topo.example.com/block", "kubernetes.io/hostname"
GPU, HUGE = "example.com/gpu", "hugepages-2Mi"
SIZE_MAX = 12
Answer = Callable[[Pair], str]  # "never", "feasible" or "unknown"


def generate(seed: str, index: int, answer: Answer) -> Pair:
    """answer: the engine's word, to find the edge."""
    rng = random.Random(f"{seed}/{index}")
    draft = _Draft(rng, f"p{index}")
    # Most plans of which not even one Pod fits are drawn again: there is little to learn from them.
    while answer(draft.pair(1)) == "never" and rng.random() < 0.9:
        draft = _Draft(rng, f"p{index}")
    last = 0
    for size in range(1, SIZE_MAX + 1):
        if answer(draft.pair(size)) == "never":
            break
        last = size
    wanted = rng.choices((last, last + 1, last - 1, last + 2), (45, 45, 5, 5))[0]
    return replace(draft.pair(max(1, min(SIZE_MAX, wanted))), seed=f"{seed}/{index}")


class _Draft:
    """Everything random is drawn once; `pair(size)` builds from it, so that only the size differs."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng = rng
        self.name = name
        self.features: set[str] = set()
        self.nodes = tuple(self._nodes())
        self.shape = rng.choices(("identical", "mixed", "basic", "composite"), (45, 25, 10, 20))[0]
        self.key = self._key(0.6)
        self.extra = rng.choice((0, 0, 1, 2))
        set_count = {
            "mixed": rng.choice((2, 2, 3)),
            "composite": rng.choice((1, 1, 2)),
            "basic": rng.choice((1, 1, 2)),
        }.get(self.shape, 1)
        self.templates = [self._template(i) for i in range(set_count)]
        self.is_job = self.shape in ("identical", "basic") and set_count == 1 and rng.random() < 0.25
        self.first = rng.randint(1, 2) if self.shape == "identical" and not self.is_job and rng.random() < 0.3 else 0
        self.leaf_key = rng.choice((None, RACK, BLOCK))
        self.leaf_size = rng.choice((1, 2, 2, 3))
        self.grows_children = rng.random() < 0.5
        self.child_count = rng.choice((2, 3))
        self.is_deep = rng.random() < 0.3

    # ---- the plan -------------------------------------------------------------------------------------------------
    def pair(self, size: int) -> Pair:
        features = {*self.features, self.shape}
        if self.is_job:
            features.add("job")
        root = self._tree(size, features) if self.shape == "composite" else self._leaf(size, features)
        return Pair(name=self.name, nodes=self.nodes, root=root, features=tuple(sorted(features)), job=self.is_job)

    def _leaf(self, size: int, features: set[str]) -> LeafSpec:
        if self.key:
            features.add("topology key")
        first = self.first if self.first < size else 0
        if first:
            features.add("bound members")
        return LeafSpec(
            name=f"{self.name}-g",
            min_count=None if self.shape == "basic" else size,
            sets=self._sets(size + self.extra),
            key=self.key,
            first=first,
        )

    def _sets(self, total: int) -> tuple[SetSpec, ...]:
        counts = [total // len(self.templates)] * len(self.templates)
        for index in range(total % len(self.templates)):
            counts[index] += 1
        return tuple(
            SetSpec(role=f"role{index}", count=count, template=template)
            for index, (count, template) in enumerate(zip(counts, self.templates, strict=True))
            if count
        )

    def _tree(self, size: int, features: set[str]) -> TreeSpec:
        """`size` is the number of children needed, or the Pods of each leaf."""
        children = min(size, 5) if self.grows_children else self.child_count
        pods = self.leaf_size if self.grows_children else min(size, 5)
        if self.key and self.leaf_key:
            features.add("nested keys")

        def leaf(index: int) -> GroupSpec:
            template = self.templates[index % len(self.templates)]
            one = LeafSpec(
                name=f"{self.name}-l{index}",
                min_count=pods,
                sets=(SetSpec(role="", count=pods, template=template),),
                key=self.leaf_key,
            )
            if not self.is_deep:
                return one
            return TreeSpec(name=f"{self.name}-t{index}", min_group_count=1, children=(one,), key=None)

        total = children + min(1, self.extra)
        return TreeSpec(
            name=f"{self.name}-root",
            min_group_count=children,
            children=tuple(leaf(index) for index in range(total)),
            key=self.key,
        )

    def _key(self, share: float) -> str | None:
        return self.rng.choice((RACK, RACK, BLOCK, HOSTNAME)) if self.rng.random() < share else None

    def _with(self, share: float, feature: str) -> bool:
        """Is the feature in? Notes it."""
        if self.rng.random() >= share:
            return False
        self.features.add(feature)
        return True

    # ---- inventory ------------------------------------------------------------------------------------------------
    def _nodes(self) -> Iterator[Raw]:
        rng = self.rng
        shapes = [self._allocatable() for _ in range(rng.choice((1, 1, 2, 3)))]
        has_missing, has_empty = self._with(0.3, "missing label"), self._with(0.2, "empty label value")
        has_taints = self._with(0.3, "taints")
        racks = ["r1", "r2", *(["r3"] if rng.random() < 0.5 else []), *([""] if has_empty else [])]
        for index in range(rng.choice((1, 2, 3, 4, 4, 5, 6, 8))):
            name = f"{self.name}-n{index}"
            labels = {
                HOSTNAME: name,
                RACK: rng.choice(racks),
                "tier": rng.choice(("x", "y")),
                "gen": rng.choice("1359"),
            }
            # Blocks mostly hold whole racks, as topologies do; now and then they cross.
            labels[BLOCK] = "b1" if labels[RACK] in ("r1", "") or rng.random() < 0.1 else "b2"
            for key in (RACK, BLOCK, "tier", "gen"):
                if has_missing and rng.random() < 0.25:
                    del labels[key]
            taints = []
            if has_taints and rng.random() < 0.5:
                taints.append(
                    rng.choice(
                        (
                            {"key": "dedicated", "value": "infer", "effect": "NoSchedule"},
                            {"key": "dedicated", "value": "train", "effect": "NoExecute"},
                            {"key": "busy", "effect": "PreferNoSchedule"},
                        )
                    )
                )
            allocatable = rng.choice(shapes)
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made by tests.judge"}
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": taints},
                "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]},
            }

    def _allocatable(self) -> Raw:
        rng = self.rng
        allocatable = {
            "cpu": rng.choice(("2", "4", "4", "3500m", "8")),
            "memory": rng.choice(("4Gi", "8Gi", "8193Mi", "16Gi")),
            "ephemeral-storage": "100Gi",
            "pods": rng.choice(("110", "110", "3", "2", "1", "0")),
            GPU: rng.choice(("0", "1", "2", "4", "4")),
        }
        if rng.random() < 0.3:
            allocatable[HUGE] = rng.choice(("4Mi", "8Mi"))
        return allocatable

    # ---- Pods -----------------------------------------------------------------------------------------------------
    def _template(self, index: int) -> Raw:
        rng = self.rng
        labels = {"set": f"s{index}"}
        spec: Raw = {"containers": [self._container("main")], "terminationGracePeriodSeconds": 0}
        self._requests(spec)
        if self._with(0.2, "nodeSelector"):
            spec["nodeSelector"] = {rng.choice(("tier", RACK)): rng.choice(("x", "y", "r1", "r2"))}
        if self._with(0.25, "node affinity"):
            terms = [self._term() for _ in range(rng.choice((1, 1, 2)))]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec.setdefault("affinity", {})["nodeAffinity"] = required
        if self._with(0.3, "tolerations"):
            spec["tolerations"] = [self._toleration()]
        if self._with(0.1, "host ports"):
            port: Raw = {"containerPort": 8080, "hostPort": rng.choice((8080, 8080, 8081))}
            if rng.random() < 0.4:
                port["hostIP"] = rng.choice(("127.0.0.1", "127.0.0.2"))
            spec["containers"][0]["ports"] = [port]
        if self._with(0.15, "self anti-affinity"):
            wanted = rng.choice(({"set": f"s{index}"}, {"team": "judge"}))
            labels["team"] = "judge"
            key = rng.choice((HOSTNAME, HOSTNAME, RACK, BLOCK))
            term = {"topologyKey": key, "labelSelector": {"matchLabels": wanted}}
            anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec.setdefault("affinity", {})["podAntiAffinity"] = anti
        if self._with(0.15, "topology spread"):
            spec["topologySpreadConstraints"] = [self._spread(labels)]
        return {"metadata": {"labels": labels}, "spec": spec}

    def _container(self, name: str, share: float = 1.0) -> Raw:
        rng = self.rng
        requests: Raw = {}
        if rng.random() < 0.8 * share:
            requests["cpu"] = rng.choice(("500m", "1", "1001m", "1500m", "2", "1.0005"))
        if rng.random() < 0.5 * share:
            requests["memory"] = rng.choice(("1Gi", "2Gi", "1025Mi", "4Gi", "1073741825"))
        return {"name": name, "image": "pause:3.10", "resources": {"requests": requests}}

    def _requests(self, spec: Raw) -> None:
        rng = self.rng
        main = spec["containers"][0]["resources"]
        if self._with(0.45, "extended resource"):
            main["limits"] = {GPU: rng.choice(("1", "1", "2", "3"))}
        if self._with(0.08, "hugepages"):
            main.setdefault("limits", {})[HUGE] = rng.choice(("2Mi", "4Mi"))
            main["requests"].setdefault("cpu", "500m")
        if self._with(0.15, "init containers"):
            spec.setdefault("initContainers", []).append(self._container("init"))
        if self._with(0.15, "sidecars"):
            sidecars = spec.setdefault("initContainers", [])
            sidecars.insert(rng.randint(0, len(sidecars)), {**self._container("sidecar"), "restartPolicy": "Always"})
        if self._with(0.1, "overhead"):
            spec["runtimeClassName"] = "judge-overhead"
        if self._with(0.1, "pod-level resources"):
            # The API server wants them to cover what the containers ask together: 4 cores and 8 GiB always do.
            asked = rng.choice(({"cpu": "4"}, {"cpu": "4", "memory": "8Gi"}))
            spec["resources"] = {rng.choice(("requests", "requests", "limits")): asked}

    def _term(self) -> Raw:
        rng = self.rng
        if rng.random() < 0.15:
            self.features.add("matchFields")
            name = f"{self.name}-n{rng.randint(0, 3)}"
            return {
                "matchFields": [{"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [name]}]
            }
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        self.features.add(f"operator {operator}")
        key = "gen" if operator in ("Gt", "Lt") else rng.choice(("tier", RACK, BLOCK))
        expression: Raw = {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            expression["values"] = [rng.choice(("1", "3", "5"))]
        elif operator in ("In", "NotIn"):
            values = {"tier": ["x", "y"], RACK: ["r1", "r2", ""], BLOCK: ["b1", "b2"]}[key]
            expression["values"] = rng.sample(values, rng.choice((1, 1, 2)))
        return {"matchExpressions": [expression]}

    def _toleration(self) -> Raw:
        return dict(
            self.rng.choice(
                (
                    {"operator": "Exists"},
                    {"key": "dedicated", "operator": "Exists"},
                    {"key": "dedicated", "operator": "Equal", "value": "infer", "effect": "NoSchedule"},
                    {"key": "dedicated", "value": "train"},
                    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
                )
            )
        )

    def _spread(self, labels: Raw) -> Raw:
        rng = self.rng
        key = rng.choice((HOSTNAME, RACK, BLOCK))
        if key == self.key:
            self.features.add("spread over the own key")
        constraint: Raw = {
            "maxSkew": rng.choice((1, 1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"set": labels["set"]}},
        }
        if rng.random() < 0.4:
            constraint["minDomains"] = rng.choice((1, 2, 3, 4))
        if rng.random() < 0.15:
            constraint["labelSelector"] = rng.choice(({}, {"matchExpressions": [{"key": "set", "operator": "Exists"}]}))
        if rng.random() < 0.2:
            constraint["nodeTaintsPolicy"] = "Honor"
        if rng.random() < 0.2:
            constraint["nodeAffinityPolicy"] = "Ignore"
        return constraint
