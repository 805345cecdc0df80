"""One replica's ledger of the turn "ledger alone" of tests.bench.quota, as a process: charges one tier from many threads.

python -m tests.bench.charges KUBECONFIG TIER NAMESPACE THREADS COUNT

Says "ready" on standard output, starts when a line comes on standard input, and prints {"took_ms": [...]}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.builders import GPU
from webhook.cluster.connection import Connection
from webhook.cluster.quota_store import ClusterQuotaStore
from webhook.quota.advance import Advances
from webhook.quota.book import Order
from webhook.quota.ledger import Granted, Ledger, in_thread

SECONDS_MAX = 60.0


def main() -> int:
    kubeconfig, tier, namespace, thread_count, count = sys.argv[1:6]
    ledger = Ledger(ClusterQuotaStore(Connection(Path(kubeconfig))), is_live=True, aside=in_thread, advances=Advances())

    def one(number: int) -> float:
        uid = f"{os.getpid()}-{number}"
        order = Order(id=uid, uid=uid, kind="Job", namespace=namespace, name=f"j-{uid}", amounts={GPU: 1})
        started = time.monotonic()
        outcome = ledger.charge(tier, order, {}, started + SECONDS_MAX)
        assert isinstance(outcome, Granted), outcome
        return (time.monotonic() - started) * 1000

    one(-1)
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(int(thread_count)) as threads:
        took = list(threads.map(one, range(int(count))))
    print(json.dumps({"took_ms": took}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
