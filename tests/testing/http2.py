"""Bytes of HTTP/2, for tests that send what no library would."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack(">I", stream) + payload)


def integer(value, prefix_bits, first=0):
    """HPACK's integer, in a byte whose higher bits are those of `first`."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    encoded = [first | limit]
    value -= limit
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    return bytes(encoded + [value])


def literal(name, value):
    """A header that no table keeps, without Huffman's code."""
    return (b"\0" + integer(len(name), 7) + name +
            integer(len(value), 7) + value)


def request_headers(path):
    """The header block of a gRPC call."""
    return b"".join([
        b"\x83\x86",  # :method POST, :scheme http
        literal(b":path", path), literal(b":authority", b"x"),
        literal(b"te", b"trailers"),
        literal(b"content-type", b"application/grpc"),
    ])


def resets(first_stream, count, path):
    """Calls that are begun and reset at once, on streams of odd numbers."""
    headers = request_headers(path)
    return b"".join(
        frame(HEADERS, END_HEADERS, stream, headers) +
        frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
        for stream in range(first_stream, first_stream + 2 * count, 2))


def giant_header(size):
    """One header of `size` bytes, in many frames of one header block."""
    start = b"\x83\x86\0\x01x" + integer(size, 7)
    yield frame(HEADERS, 0, 1, start)
    for _ in range(0, size, 16384):
        yield frame(CONTINUATION, 0, 1, b"a" * 16384)
