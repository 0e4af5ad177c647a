"""Which services are called by others whose spans come here too.

At first every parent in another process is waited for. After `PATIENCE` traces of a service in
which none came, none is expected any more, until one does, be it too late for its own trace.
"""

from __future__ import annotations

PATIENCE = 20
MAX_SERVICES = 1000
MAX_TRACES = 10_000


class RemoteParents:
    """What was learned, by service. It only moves the end of waiting, so it need not be kept."""

    def __init__(self) -> None:
        self._absent: dict[str, int] = {}
        self._closed_without: dict[bytes, str] = {}

    def expected(self, service: str) -> bool:
        """Whether a remote parent of the service's spans is worth waiting for."""
        return self._absent.get(service, 0) < PATIENCE

    def closed(self, trace_id: bytes, service: str, came: bool) -> None:
        """A trace was closed in which the remote parent of a span of `service` came, or did not."""
        if came:
            self._absent.pop(service, None)
        elif service in self._absent or len(self._absent) < MAX_SERVICES:
            self._absent[service] = self._absent.get(service, 0) + 1
            self._closed_without[trace_id] = service
            if len(self._closed_without) > MAX_TRACES:
                del self._closed_without[next(iter(self._closed_without))]

    def late(self, trace_id: bytes) -> None:
        """Spans came for a trace that is closed."""
        service = self._closed_without.pop(trace_id, None)
        if service is not None:
            self._absent.pop(service, None)
