"""`python -m tests.bench`: all benchmarks, one after the other."""

from __future__ import annotations

from tests.bench import http, steps

if __name__ == "__main__":
    steps.main()
    raise SystemExit(http.main())
