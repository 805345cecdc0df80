"""matchConditions: which objects reach Muster at all, rendered from the policy.

Promise 1: *ordinary* objects never do (no schedulingGroup, `spec.scheduling`, annotation of a group or of Muster's own,
resourceClaims, guarded resource or PriorityClass of a tier). Beside them only plain Jobs of a shape that 1.37 is known to trap get in, and a
PriorityClass that would trap all Jobs of the cluster.

Each condition reads "another kind, or something to look at", so that all can hold together; an object reaches Muster
when all of them are true. None may raise on an object that the API server accepts: with failurePolicy Fail an error
refuses it. Optional fields are therefore read by ``.?field`` inside a list, which leaves out what is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from webhook.policy.effective import GARBAGE_COLLECTORS, resolved_gates
from webhook.policy.model import Policy
from webhook.registration.expressions import all_of, among, any_of, literal, matches_any, some

Condition = dict[str, str]

_USERNAME = "request.userInfo.username"

# The job controller reads the first; the second is declared in 1.37 and read by nothing, which a user cannot know.
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-template-name", "scheduling.k8s.io/parent-compositepodgroup")

# Who writes one of these asks to be judged by it. By name, since looking for the prefix would take a step for each
# annotation, and how many those are is up to whoever writes the object: an expression that runs out of steps refuses it.
OWN_ANNOTATIONS = ("muster.dev/barrier", "muster.dev/checkpoint-interval", "muster.dev/expected-run-time")

# The Workload of a root Job has a template called "<job>-pgt-0", which must be a DNS label: 63 - 6.
JOB_NAME_LENGTH_MAX = 57

# Metadata whose change is judged; everything else of metadata is not (webhook/admission/scope.py).
_METADATA_THAT_MATTERS = ("labels", "annotations", "ownerReferences")


def is_trusted(policy: Policy) -> str:
    """Is the requester one of the policy's trusted controllers?"""
    return matches_any(_USERNAME, policy.spec.cluster.trusted_controllers)


def common_conditions() -> list[Condition]:
    """For validating entries, of all kinds."""
    differs = any_of(
        "object.?spec != oldObject.?spec",
        *(f"object.metadata.?{field} != oldObject.metadata.?{field}" for field in _METADATA_THAT_MATTERS),
    )
    return [
        {
            # Holding these up leaves namespaces terminating for ever.
            "name": "not-garbage-collection",
            "expression": f"request.operation != 'DELETE' || !({among(_USERNAME, GARBAGE_COLLECTORS)})",
        },
        {
            # Dropping a finalizer is an UPDATE too.
            "name": "something-changed",
            "expression": f"request.operation != 'UPDATE' || (!has(object.metadata.deletionTimestamp) && {differs})",
        },
    ]


def kind_conditions(policy: Policy) -> list[Condition]:
    """One per shape of object; ordinary objects of its kinds pass by. Kinds that are never ordinary have none."""
    shapes = _Shapes(policy)
    return [
        {
            "name": f"{kinds[0].lower()}-worth-a-look",
            "expression": f"{_is_no(*kinds)} || {look(shapes)}",
        }
        for kinds, look in KIND_CONDITIONS
    ]


def traps(policy: Policy) -> dict[str, str]:
    """By kind: when is a new object of it ordinary, except that 1.37 traps it? Only kinds that the policy's gates let
    anything be wrong with; not declared means that a gate may be on."""
    spec = policy.spec
    gates = resolved_gates({str(gate): on for gate, on in spec.cluster.feature_gates.items()})
    found = {}
    if gates.get("WorkloadWithJob") is not False:
        found["Job"] = all_of(_job_trap(), f"!({_job(_Shapes(policy))})")
    if gates.get("PodGroupPreemptionPolicy") is not False:
        found["PriorityClass"] = _priority_class_trap()
    return found


def trap_conditions(trapped: Mapping[str, str]) -> list[Condition]:
    """For the kinds of `traps`."""
    return [
        {"name": f"{kind.lower()}-trapped", "expression": f"{_is_no(kind)} || {condition}"}
        for kind, condition in trapped.items()
    ]


def _is_no(*kinds: str) -> str:
    return f"!({among('request.kind.kind', kinds)})"


class _Shapes:
    """The policy's part of the conditions, and the pieces they are made of. `o` is an object, `s` a Pod's spec."""

    def __init__(self, policy: Policy) -> None:
        spec = policy.spec
        classes = (name for tier in spec.tiers for name in tier.priority_classes)
        self._tier_class = all_of("has(s.priorityClassName)", among("s.priorityClassName", classes))
        self._guarded = _asks_for(matches_any("k", spec.guarded_resources))

    def pod_spec(self, *optionals: str) -> str:
        """Is there something to look at in one of these Pod specs?"""
        look = any_of("has(s.schedulingGroup)", "has(s.resourceClaims)", self._tier_class, self._guarded)
        return some("s", optionals, look)


def _asks_for(resource: str) -> str:
    """Does a container, or the Pod as a whole, ask for such a resource `k`? Requests count without limits, too: the
    API server accepts that in a template, though no Pod of it will be."""
    if resource == "false":
        return "false"
    amounts = some("r", ("c.?resources.?limits", "c.?resources.?requests"), f"r.exists(k, {resource})")
    return any_of(
        some("cs", ("s.?containers", "s.?initContainers"), f"cs.exists(c, {amounts})"),
        some("r", ("s.?resources.?limits", "s.?resources.?requests"), f"r.exists(k, {resource})"),
    )


def _annotated(*metadata: str) -> str:
    """Does one of these metadata hold an annotation that asks for a group, or for Muster?"""
    wanted = any_of(*(f"{literal(annotation)} in a" for annotation in (*GROUP_ANNOTATIONS, *OWN_ANNOTATIONS)))
    return some("a", (f"{at}.?annotations" for at in metadata), wanted)


def _now_or_before(condition: str) -> str:
    """An UPDATE counts when the object was worth a look before it, too: it may be losing its group."""
    return f"(request.operation == 'UPDATE' ? [object, oldObject] : [object]).exists(o, {condition})"


# -- kinds --------------------------------------------------------------------------------------------------------
def _pod(shapes: _Shapes) -> str:
    return any_of(shapes.pod_spec("object.?spec"), _annotated("object.?metadata"))


def _job(shapes: _Shapes) -> str:
    return _now_or_before(
        any_of(
            some("j", ("o.?spec",), any_of("has(j.scheduling)", shapes.pod_spec("j.?template.?spec"))),
            _annotated("o.?metadata", "o.?spec.?template.?metadata"),
        )
    )


def _job_trap() -> str:
    """With WorkloadWithJob on, every Job without a controller gets a Workload and a PodGroup, and these never start."""
    owners = ("object.metadata.?ownerReferences",)
    root = "!" + some("owners", owners, "owners.exists(w, has(w.controller) && w.controller)")
    name = some("n", ("object.metadata.?name",), f"size(n) > {JOB_NAME_LENGTH_MAX} || n.contains('.')")
    # nodeName is none: without a gang and a topology key such Pods run where they are told.
    fields = ("priorityClassName", "priority", "preemptionPolicy", "evictionResponders")
    template = some("s", ("object.?spec.?template.?spec",), any_of(*(f"has(s.{field})" for field in fields)))
    return all_of(root, any_of(name, template))


def _priority_class_trap() -> str:
    """As the global default it keeps the Job controller from making the group of any Job that names no class. Its
    fields are its own, with no spec around them, and `false` is left out of what is sent."""
    default = some("d", ("object.?globalDefault",), "d")
    return all_of(default, some("p", ("object.?preemptionPolicy",), "p == 'Never'"))


def _cron_job(shapes: _Shapes) -> str:
    # A CronJob's Jobs have a controller: no traps, but `spec.scheduling` is ignored, which somebody should say.
    inner = any_of(
        some("j", ("t.?spec",), any_of("has(j.scheduling)", shapes.pod_spec("j.?template.?spec"))),
        _annotated("t.?metadata", "t.?spec.?template.?metadata"),
    )
    return _now_or_before(any_of(some("t", ("o.?spec.?jobTemplate",), inner), _annotated("o.?metadata")))


def _replicated(shapes: _Shapes) -> str:
    """Deployment, ReplicaSet, StatefulSet."""
    return _now_or_before(
        any_of(shapes.pod_spec("o.?spec.?template.?spec"), _annotated("o.?metadata", "o.?spec.?template.?metadata"))
    )


def _job_set(shapes: _Shapes) -> str:
    inner = any_of(
        some("j", ("t.?template.?spec",), any_of("has(j.scheduling)", shapes.pod_spec("j.?template.?spec"))),
        _annotated("t.?template.?metadata", "t.?template.?spec.?template.?metadata"),
    )
    jobs = some("ts", ("o.?spec.?replicatedJobs",), f"ts.exists(t, {inner})")
    return _now_or_before(any_of(some("x", ("o.?spec.?scheduling",), "true"), jobs, _annotated("o.?metadata")))


def _leader_worker_set(shapes: _Shapes) -> str:
    inner = any_of(
        shapes.pod_spec("t.?workerTemplate.?spec", "t.?leaderTemplate.?spec"),
        _annotated("t.?workerTemplate.?metadata", "t.?leaderTemplate.?metadata"),
    )
    return _now_or_before(any_of(some("t", ("o.?spec.?leaderWorkerTemplate",), inner), _annotated("o.?metadata")))


KIND_CONDITIONS: tuple[tuple[tuple[str, ...], Callable[[_Shapes], str]], ...] = (
    (("Pod",), _pod),
    (("Job",), _job),
    (("CronJob",), _cron_job),
    (("Deployment", "ReplicaSet", "StatefulSet"), _replicated),
    (("JobSet",), _job_set),
    (("LeaderWorkerSet",), _leader_worker_set),
)

# Every object of these kinds is about groups.
NEVER_ORDINARY = frozenset({"Workload", "PodGroup", "CompositePodGroup"})
