"""A server on a real socket that takes every report, for agents that are processes of their own."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class SmallServer:
    """Its address, and the reports that it was sent."""

    address: str
    reports: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def small_server() -> Iterator[SmallServer]:
    """Serve on any free port of this machine until the block ends."""
    taken = SmallServer("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            reports = json.loads(body)["reports"]
            taken.reports.extend(reports)
            results = [{"report_id": report["report_id"], "outcome": "created", "errors": []} for report in reports]
            answer = json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # the library's name
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        taken.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield taken
        finally:
            server.shutdown()
            thread.join()
