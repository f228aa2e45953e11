"""A server of files on this machine, whose answers a test writes."""

import http.server
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus

POLL_S = 0.02  # between two looks whether the server is closed


class ServedRequest:
    """A request as the server saw it."""

    def __init__(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}


Answer = Callable[[http.server.BaseHTTPRequestHandler, ServedRequest], None]


class FileServer:
    """A server on this machine alone, whose answers a test writes. What it has no answer for is not there."""

    def __init__(self) -> None:
        self.asked: list[ServedRequest] = []
        self.answers: dict[str, Answer] = {}
        files = self

        class FileHandler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = ServedRequest(self)
                files.asked.append(asked)
                if answer := files.answers.get(self.path):
                    answer(self, asked)
                else:
                    self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FileHandler)
        threading.Thread(target=self.server.serve_forever, args=[POLL_S], daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def say(self, path: str, body: bytes, kind: str = "text/html", status: int = 200, **headers: str) -> None:
        def answer(handler: http.server.BaseHTTPRequestHandler, _: ServedRequest) -> None:
            handler.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def answer_in_parts(body: bytes, cuts: Sequence[int], *, takes_ranges: bool = True) -> Answer:
    """Each answer breaks off after so many bytes of the file; the last is whole."""
    left = list(cuts)

    def answer(handler: http.server.BaseHTTPRequestHandler, asked: ServedRequest) -> None:
        start = int(asked.headers["range"][6:-1]) if takes_ranges and "range" in asked.headers else 0
        handler.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        handler.wfile.write(body[start : left.pop(0) if left else len(body)])
        handler.wfile.flush()

    return answer
