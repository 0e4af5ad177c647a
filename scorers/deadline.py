"""How long one turn may keep a worker process: an alarm that ends a scorer which does not end.

Pure Python and regular expressions are interrupted; compiled code is only when it returns. Without
`install` (and on systems without the timer) there is no deadline.
"""

from __future__ import annotations

import signal

SECONDS = 10.0

_installed = False
_running = False


class OutOfTime(BaseException):
    """The deadline passed. No Exception, so that a scorer cannot take it for its own."""


def install() -> None:
    """Let `start` set the alarm in this process. Only for the main thread of a worker process."""
    global _installed
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _ring)
        _installed = True


def start() -> None:
    """A scorer begins: it has `SECONDS` from the last `reset`."""
    global _running
    _running = True


def end() -> None:
    """The scorer ended: an alarm that comes between scorers waits for the next one."""
    global _running
    _running = False


def reset() -> None:
    """Begin the time anew."""
    if _installed:
        signal.setitimer(signal.ITIMER_REAL, SECONDS, 0.1)


def cancel() -> None:
    """No alarm until the next `reset`."""
    if _installed:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _ring(signum: int, frame: object) -> None:
    if _running:
        raise OutOfTime
