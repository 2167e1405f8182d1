"""A download handler that stops its process at the worst moment, when told to."""

import os
import signal
from pathlib import Path

from crawlprio.demo.handler import LoopbackHandler


class StoppingHandler(LoopbackHandler):
    """Stops its process between the middlewares and the connection, once `stop-PID` is there."""

    async def download_request(self, request):
        order = Path(f"stop-{os.getpid()}")
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return await super().download_request(request)
