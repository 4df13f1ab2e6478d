"""`python tether.py PARENT COMMAND…`: becomes COMMAND, which the kernel kills as soon as process PARENT is gone.

So nothing is left behind even when the launcher is killed with no chance to clean up. The kernel keeps the request
across exec, but ties it to the thread that started this process: the launcher starts everything from its main thread.
Where there is no prctl (other systems than Linux) the command simply runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl failed")
        if os.getppid() != parent:
            return  # it was gone before the request stood
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
