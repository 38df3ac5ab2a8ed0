"""Enough of Google's services to submit to: an object store and Dataflow's job API, which keep what they are sent."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_OBJECT = re.compile(r"/storage/v1/b/([^/]+)/o/(.+)")


class Google:
    """A server on loopback, as long as a with-block.

    Args:
        state: what becomes of every job, such as "JOB_STATE_FAILED".
        error: the message that a job leaves.

    `objects` holds what was stored by "bucket/name", `requests` the bodies of the jobs that were created.
    """

    def __init__(self, state: str, error: str):
        self.state, self.error = state, error
        self.objects: dict[str, bytes] = {}
        self.requests: list[bytes] = []

    def __enter__(self) -> Google:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"google": self}))
        self.endpoint = f"http://localhost:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    google: Google

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _answer(self, content: object, status: int = 200, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.endswith("/messages"):
            error = {"id": "1", "time": "2026-01-01T00:00:00Z", "messageText": self.google.error}
            self._answer({"jobMessages": [{**error, "messageImportance": "JOB_MESSAGE_ERROR"}]})
        elif path.endswith("/metrics"):
            self._answer({"metrics": []})
        elif "/jobs/" in path:
            self._answer({"id": "job-1", "currentState": self.google.state})
        elif (found := _OBJECT.fullmatch(path)) and f"{found[1]}/{unquote(found[2])}" not in self.google.objects:
            self._answer({"error": {"code": 404, "message": "no such object"}}, 404)
        else:
            self._answer({"name": path.rpartition("/")[2]})

    def do_POST(self) -> None:
        url, body = urlsplit(self.path), self._body()
        if url.path.startswith("/upload/"):
            bucket = url.path.split("/b/")[1].split("/")[0]
            query = parse_qs(url.query)
            name = query["name"][0] if "name" in query else json.loads(body)["name"]
            self._answer({"name": name}, Location=f"{self.google.endpoint}/put/{bucket}/{name}")
        elif url.path.endswith("/jobs"):
            self.google.requests.append(body)
            self._answer({"id": "job-1", "projectId": "project", "location": "us-central1"})
        else:
            self._answer({})

    def do_PUT(self) -> None:
        name, body = unquote(urlsplit(self.path).path).removeprefix("/put/"), self._body()
        stored = self.google.objects.get(name, b"") + body
        self.google.objects[name] = stored
        if self.headers.get("Content-Range", "").endswith("/*"):  # more follows
            self._answer({}, 308, Range=f"bytes=0-{len(stored) - 1}")
        else:
            self._answer({"name": name, "size": str(len(stored)), "crc32c": _crc32c(stored)})


def _crc32c(data: bytes) -> str:
    """Return the checksum of an object as the store tells it: of Castagnoli's polynomial, big-endian, in base64."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return base64.b64encode((crc ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()
