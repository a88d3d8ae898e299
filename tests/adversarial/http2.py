"""Speaks HTTP/2 and gRPC's framing over a socket, as badly as a test wishes.

Nothing happens behind a test's back: no window is opened, nothing is read and
no frame is answered unless the test says so.
"""

import socket
import struct
import time

from testing.http2 import (
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS,
    frame, request_headers)

PING, WINDOW_UPDATE = 6, 8
ACK = 1
INITIAL_WINDOW_SIZE = 4  # a setting
INITIAL_WINDOW = 65535
MAX_WINDOW = (1 << 31) - 1
MAX_FRAME = 16384
CANCEL = 8


def grpc_message(body, missing=0):
    """A message of which so many bytes are missing at its end."""
    return b"\0" + struct.pack(">I", len(body) + missing) + body


class Http2Client:
    """One connection. Use it as a context manager, or close() it."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self.closed = False
        self._next_stream = 1
        self._received = b""
        self._initial_window = INITIAL_WINDOW
        self._windows = {0: INITIAL_WINDOW}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.socket.close()

    def go_deaf(self):
        """Opens HTTP/2's windows, so that only TCP, which has room for little
        here, holds up what the server sends to whoever does not read."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.send(frame(SETTINGS, 0, 0,
                        struct.pack(">HI", INITIAL_WINDOW_SIZE, MAX_WINDOW)) +
                  frame(WINDOW_UPDATE, 0, 0,
                        struct.pack(">I", MAX_WINDOW - INITIAL_WINDOW)))

    def send(self, data):
        """False, now and ever after, if the server has closed."""
        if not self.closed:
            try:
                self.socket.sendall(data)
            except OSError:
                self.closed = True
        return not self.closed

    def open(self, path, end=False):
        """Begins a call; returns its stream."""
        stream = self._next_stream
        self._next_stream += 2
        self._windows[stream] = self._initial_window
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0),
                        stream, request_headers(path.encode())))
        return stream

    def send_message(self, stream, body, end=False, timeout_s=20, missing=0):
        """Sends one gRPC message, or all of it but its end, as the server's
        windows allow. False if they did not within the time, or the server has
        closed."""
        rest = grpc_message(body, missing)
        deadline = time.monotonic() + timeout_s
        while rest:
            room = min(self._windows[0], self._windows[stream], MAX_FRAME)
            if room <= 0:
                if time.monotonic() > deadline or self.closed:
                    return False
                self.read(0.05)
                continue
            part, rest = rest[:room], rest[room:]
            self._windows[0] -= len(part)
            self._windows[stream] -= len(part)
            flags = END_STREAM if end and not rest else 0
            if not self.send(frame(DATA, flags, stream, part)):
                return False
        return True

    def reset(self, stream):
        self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def read(self, timeout_s):
        """Reads what is there, or arrives in time: windows are noted, settings
        and pings answered. Data is thrown away and its window not opened."""
        self.socket.settimeout(timeout_s)
        try:
            data = self.socket.recv(1 << 16)
            if not data:
                self.closed = True
            self._received += data
        except (TimeoutError, BlockingIOError):
            pass
        except OSError:
            self.closed = True
        finally:
            self.socket.settimeout(20)
        while len(self._received) >= 9:
            length = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + length:
                return
            kind, flags = self._received[3], self._received[4]
            stream = int.from_bytes(self._received[5:9], "big")
            payload = self._received[9:9 + length]
            self._received = self._received[9 + length:]
            self._note(kind, flags, stream, payload)

    def _note(self, kind, flags, stream, payload):
        if kind == WINDOW_UPDATE:
            self._windows[stream] = (self._windows.get(stream, 0) +
                                     int.from_bytes(payload, "big"))
        elif kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[i:i + 6])
                if name == INITIAL_WINDOW_SIZE:
                    self._set_initial_window(value)
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))

    def _set_initial_window(self, window):
        for stream in self._windows:
            if stream != 0:
                self._windows[stream] += window - self._initial_window
        self._initial_window = window
