"""`python -m tests.bench`: all benchmarks, one after the other; each prints ratios within its own run.

Those that need the control plane come last; `--offline` leaves them out.
"""

from __future__ import annotations

import sys

from tests.bench import devices, feasibility, http, inventory, quota, scheduler, steps

if __name__ == "__main__":
    offline = "--offline" in sys.argv
    sys.argv = sys.argv[:1]
    for name, run in {
        "microseconds per step": steps.main,
        "requests per second, beside a bare Flask view": http.main,
        "feasibility on nodes, beside a naive scan": feasibility.main,
        "feasibility with devices": devices.main,
        "the live inventory of a replica": inventory.main,
        **({} if offline else {"feasibility, beside the real kube-scheduler": scheduler.main}),
        **({} if offline else {"charges per second, beside ResourceQuota": quota.main}),
    }.items():
        print(f"\n## {name}\n", flush=True)
        run()
