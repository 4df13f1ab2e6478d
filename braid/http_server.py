"""uvicorn inside a running event loop."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The slice handles signals itself."""
        yield


class HttpServer:
    """Serves one ASGI application; `options` go to uvicorn."""

    def __init__(self, app: Any, host: str, port: int, **options: Any) -> None:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            **options,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Returns the port it listens on; `OSError` says why it cannot."""
        self._task = asyncio.create_task(self._serve())
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise OSError(f"cannot listen on {self._server.config.host}:{self._server.config.port}")
            await asyncio.sleep(0.01)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    async def _serve(self) -> None:
        try:
            await self._server.serve()
        except SystemExit:
            # uvicorn leaves the process when its port is taken; a slice has things to close first.
            config = self._server.config
            raise OSError(f"cannot listen on {config.host}:{config.port}; is the port in use?") from None

    async def stop(self) -> None:
        """Lets calls under way finish for a moment."""
        self._server.should_exit = True
        if self._task is not None:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._task
