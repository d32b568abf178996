"""A web server for one page on the loopback interface of this computer."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LOOPBACK = "127.0.0.1"


class PageServer(ThreadingHTTPServer):
    """A server for one page; `serve_forever` runs it until Ctrl-C.

    Args:
        page: The page.
        port: The port, 0 for a free one.

    Raises:
        OSError: The port is taken or not allowed.
    """

    daemon_threads = True
    # Another program could otherwise listen on the same port.
    allow_reuse_port = False

    def __init__(self, page: str, port: int) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.content = page.encode()

    @property
    def address(self) -> str:
        """The address for browsers."""
        return f"http://{_LOOPBACK}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of the Host header that browsers of this computer send."""
        names = (_LOOPBACK, "localhost")
        ports = (f":{self.server_port}", *([""] if self.server_port == 80 else []))
        return tuple(name + port for name in names for port in ports)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "ipu_tf"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        # A page of another site can make a browser resolve its own name to this computer; the
        # browser then sends that name.
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "This server answers to this computer alone.")
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(HTTPStatus.NOT_FOUND, "This server has one page, at /.")
            return
        self.send_response(HTTPStatus.OK)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(self.server.content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if with_content:
            self.wfile.write(self.server.content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Leaves out the log of requests, which nobody asked for."""


def server(page: str, port: int = 0) -> PageServer:
    """Returns a server that listens; see `PageServer`."""
    return PageServer(page, port)
