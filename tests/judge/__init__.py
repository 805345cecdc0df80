"""Judge 1: the real kube-scheduler of 1.37.2 as the oracle of the feasibility engine (docs/judge-scheduler.md)."""
