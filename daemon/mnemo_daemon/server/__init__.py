"""HTTP/1.1 on the Unix socket: sockets, router, OpenAPI, and service notification."""
