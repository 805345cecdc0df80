"""Becomes another program that dies with its parent: ``python launch.py PARENT_PID PROGRAM ARGUMENT...``.

prctl(PR_SET_PDEATHSIG) has to be called between fork and exec. Doing it here, in a fresh interpreter, avoids
``preexec_fn``, which is unsafe in a process with threads. Linux only, like the rest of this folder.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent_pid, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent died before the call took effect
        sys.exit(1)
    os.execv(program, sys.argv[2:])  # noqa: S606 - the point of this file
