"""A connection to a server that tests can hold up and break."""

import contextlib
import socket
import threading


class BreakableProxy:
    """Carries the bytes of connections on within a `with` block; address is
    where it listens. Thread-safe."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._connections = []  # pairs of sockets
        self._threads = []
        self._lock = threading.Lock()
        self._answers_pass = threading.Event()
        self._answers_pass.set()

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *error):
        # Wakes accept(), which close() alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._answers_pass.set()
        for thread in self._threads:
            thread.join()

    def hold_answers(self):
        """What the server says from now on waits here."""
        self._answers_pass.clear()

    def pass_answers(self):
        self._answers_pass.set()

    def cut(self):
        """Breaks the connections that are there; what waits here is lost."""
        with self._lock:
            pairs, self._connections = self._connections, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._connections.append((client, server))
            ends = [client, server]
            self._start(self._carry, client, server, None, ends)
            self._start(self._carry, server, client, self._answers_pass, ends)

    def _carry(self, source, sink, may_pass, ends):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if may_pass is not None:
                    may_pass.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            ends.pop()
            if not ends:  # the other direction has ended, too
                source.close()
                sink.close()
