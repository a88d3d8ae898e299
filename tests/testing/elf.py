"""What an ELF file of 64 bits says about how it was compiled and linked."""

import struct

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_STRSZ, DT_FLAGS, DT_FLAGS_1 = 5, 10, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW = 8, 1
ET_DYN = 3
PF_X = 1


def program_headers(data):
    """(type, flags, offset, address, size in the file) of each segment."""
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, flags, at, address, _, in_file = struct.unpack_from(
            "<IIQQQQ", data, offset + i * size)
        yield kind, flags, at, address, in_file


def dynamic_entries(data):
    """The dynamic section, tags to values."""
    for kind, _, at, _, size in program_headers(data):
        if kind == PT_DYNAMIC:
            return dict(struct.iter_unpack("<QQ", data[at:at + size // 16 * 16]))
    return {}


def dynamic_names(data):
    """The names of symbols that it takes from libraries, and of its own."""
    entries = dynamic_entries(data)
    if DT_STRTAB not in entries:
        return set()
    for kind, _, at, address, size in program_headers(data):
        if kind == PT_LOAD and 0 <= entries[DT_STRTAB] - address < size:
            start = at + entries[DT_STRTAB] - address
            return set(data[start:start + entries[DT_STRSZ]].decode()
                       .split("\0"))
    return set()


def missing_guards(data):
    """Which of the guards against overruns a program or library lacks."""
    assert data[:6] == b"\x7fELF\2\1", "not ELF of 64 bits, little-endian"
    entries = dynamic_entries(data)
    names = dynamic_names(data)
    segments = {kind: flags for kind, flags, *_ in program_headers(data)}
    present = {
        "stack protector": "__stack_chk_fail" in names,
        "FORTIFY": any(name.startswith("__") and name.endswith("_chk")
                       for name in names),
        "BIND_NOW": (entries.get(DT_FLAGS, 0) & DF_BIND_NOW != 0 or
                     entries.get(DT_FLAGS_1, 0) & DF_1_NOW != 0),
        "RELRO": PT_GNU_RELRO in segments,
        "no code on the stack":
            segments.get(PT_GNU_STACK, PF_X) & PF_X == 0,
        "any address":
            struct.unpack_from("<H", data, 16)[0] == ET_DYN,
    }
    return {name for name, is_there in present.items() if not is_there}
