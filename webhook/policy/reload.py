"""A policy that follows its files: a mounted ConfigMap is swapped under us, an editor writes in place.

No thread of its own: whoever asks for the policy pays for a stat of its files, at most once a second, and the one who
notices a change reads them anew while everybody else goes on with the old policy. A bad file keeps the old policy.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from webhook.policy.load import LoadedPolicies, PolicyError, policy_files

CHECK_INTERVAL_SECONDS = 1.0

# (path, device, inode, mtime in ns, size) of every file; a folder that cannot be read is its error's text.
Signature = tuple[tuple[str, int, int, int, int], ...] | str


class PolicyFiles:
    """Callable: the policy as it is now. Thread-safe.

    load: reads the files, for example ``partial(load_policies, paths, known=...)``; it is called here once, and what
    it raises then is the caller's to handle: there is no old policy to keep. on_reload(new, old) and on_error(error)
    are called in the thread that noticed, and must not raise. clock: monotonic seconds.
    """

    def __init__(
        self,
        paths: Sequence[Path | str],
        load: Callable[[], LoadedPolicies],
        *,
        on_reload: Callable[[LoadedPolicies, LoadedPolicies], None] = lambda _new, _old: None,
        on_error: Callable[[PolicyError], None] = lambda _error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = tuple(paths)
        self._load = load
        self._on_reload = on_reload
        self._on_error = on_error
        self._clock = clock
        self._lock = threading.Lock()
        # Taken before reading: a file that changes while it is read looks changed at the next check.
        self._seen = signature(self._paths)
        self._current = load()
        self._checked_at = clock()
        self._error: PolicyError | None = None

    def __call__(self) -> LoadedPolicies:
        if self._clock() - self._checked_at >= CHECK_INTERVAL_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._check()
            finally:
                self._lock.release()
        return self._current

    @property
    def error(self) -> PolicyError | None:
        """Why the files as they are now cannot be used; None while the policy in force is what they say."""
        return self._error

    def _check(self) -> None:
        self._checked_at = self._clock()
        now = signature(self._paths)
        if now == self._seen:
            return
        self._seen = now
        try:
            new = self._load()
        except PolicyError as error:
            self._error = error
            self._on_error(error)
            return
        self._error = None
        old, self._current = self._current, new
        if new.version != old.version or new.warnings != old.warnings:
            self._on_reload(new, old)


def signature(paths: Sequence[Path | str]) -> Signature:
    """Changes whenever the content may have changed: a new inode behind the symlink, a new time, another file."""
    try:
        return tuple(_stat(path) for path in policy_files(paths))
    except (PolicyError, OSError) as error:
        return str(error)


def _stat(path: Path) -> tuple[str, int, int, int, int]:
    stat = os.stat(path)  # noqa: PTH116  follows symlinks, as intended
    return str(path), stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
