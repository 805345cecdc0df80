"""An API version that 1.37 no longer serves.

## What it checks
`apiVersion: scheduling.k8s.io/v1alpha2` (1.36) or `v1alpha1` (1.35) of a Workload or PodGroup.

## Why
1.37 removed both versions: `kubectl apply` ends with "no matches for kind", and objects still stored in them have to
be deleted before the upgrade, since nothing can read them afterwards. The fields changed their names too:
`podGroupTemplateRef` is now `workloadRef`, `disruptionMode` is a struct. `muster review` denies such a manifest and
gives the rewritten one; a webhook that runs in a 1.36 cluster warns at each write.

## Fields read
`apiVersion`; the whole spec, for the rewritten manifest.

## Allowed
```yaml
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
spec: {workloadRef: {workloadName: train, templateName: workers}, schedulingPolicy: {gang: {minCount: 4}}}
```

## Denied
```yaml
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
spec:
  podGroupTemplateRef: {workload: {workloadName: train, podGroupTemplateName: workers}}
  schedulingPolicy: {gang: {minCount: 4}}
```

## Fix
Use the rewritten manifest. Before the upgrade of a cluster, delete what is stored in the old version.

## References
CHANGELOG-1.37 (scheduling.k8s.io/v1alpha2 removed); k8s.io/api scheduling/v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.facts.model import Facts, Phase
from webhook.objects.fieldpath import FieldPath
from webhook.objects.kinds import BY_NAME, split_api_version
from webhook.rules._rewrite import API_VERSION, compact, modern
from webhook.rules.meta import RuleMeta
from webhook.verdict import Action, Finding

META = RuleMeta(
    id="WAS307",
    name="retired-version",
    summary="an API version of scheduling.k8s.io that 1.37 no longer serves",
    kinds=frozenset({"Workload", "PodGroup"}),
)


def check(facts: Facts) -> Iterator[Finding]:
    if split_api_version(facts.api_version)[1] not in BY_NAME[facts.kind].retired:
        return
    rewritten = modern(facts.raw)
    spec = compact(rewritten.get("spec") or {})
    write = f"with spec {spec}" if spec else "as in the rewritten manifest of `muster review --output json`"
    review = facts.phase is Phase.REVIEW
    effect = (
        'the API server answers "no matches for kind"'
        if review
        else "delete the object before the upgrade to 1.37, which cannot read it"
    )
    yield Finding(
        field=FieldPath.of("apiVersion"),
        message=f'"{facts.api_version}" is not served by Kubernetes 1.37: {effect}',
        fix=f'write it as "{API_VERSION}" {write}',
        seen=facts.api_version,
        limit=API_VERSION,
        at_most=Action.DENY if review else Action.WARN,
        rewrite=rewritten,
    )
