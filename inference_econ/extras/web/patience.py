"""Deadline for requests: close connections with incomplete requests, and limit the connections of a client address."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

#: Maximum number of connections of one address [1]; the server has several times as many.
PER_ADDRESS = 64
#: Maximum time from the first byte of a request to the last [s].
PATIENCE_SECONDS = 10.0


class Impatient(H11Protocol):
    """HTTP/1.1 protocol with a request deadline and a limit on connections per client address.

    uvicorn itself limits only idle connections, and the total number of connections.
    """

    _open: ClassVar[Counter[str]] = Counter()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for a request.

        If the client address has too many connections, the new connection is closed.
        """
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._open[self._address] += 1
        if self._open[self._address] > PER_ADDRESS:
            transport.abort()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; the deadline remains until the request is complete."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of a closed connection."""
        self._stop_waiting()
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address]
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
