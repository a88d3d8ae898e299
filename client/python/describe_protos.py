"""Writes what the package knows of the protos: one FileDescriptorSet.

Classes of messages and stubs are made from it when the package is imported
(src/steadystate/_wire.py). So no generated code depends on the version of
protobuf that it meets: a set that the newest protoc has written is read by
Debian 12's protobuf 3.21, and the other way round.

    python3 describe_protos.py OUTPUT

needs grpcio-tools, or a protoc in the PATH.
"""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAME = "protos.binpb"  # within the package
PROTOS = (
    "google/rpc/error_details.proto",
    "google/rpc/status.proto",
    "grpc/health/v1/health.proto",
    "steadystate/v1/error_reason.proto",
    "steadystate/v1/generation.proto",
    "steadystate/v1/model.proto",
    "steadystate/v1/session.proto",
)


def proto_folder() -> pathlib.Path:
    """Where the protos are: in the sdist beside this file, else in the
    repository, of which the package is a part."""
    for folder in (HERE / "proto", HERE.parent.parent / "proto"):
        if (folder / PROTOS[-1]).is_file():
            return folder
    raise FileNotFoundError(
        f"no {PROTOS[-1]} in {HERE}/proto or {HERE.parent.parent}/proto: "
        "install from the whole repository, or from an sdist")


def describe(output: pathlib.Path) -> None:
    """Writes the set, with the protos that ours include."""
    arguments = [f"--proto_path={proto_folder()}",
                 f"--descriptor_set_out={output}", "--include_imports", *PROTOS]
    try:
        import grpc_tools.protoc
    except ImportError:
        program = shutil.which("protoc")
        if program is None:
            raise FileNotFoundError(
                "neither grpcio-tools nor protoc is here; "
                "install grpcio-tools, or Debian's protobuf-compiler") from None
        subprocess.run([program, *arguments], check=True)
        return
    # Google's own protos come with grpcio-tools.
    own = pathlib.Path(grpc_tools.protoc.__file__).parent / "_proto"
    status = grpc_tools.protoc.main(["protoc", f"--proto_path={own}",
                                     *arguments])
    if status != 0:
        raise RuntimeError(f"protoc ended with {status}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    describe(pathlib.Path(sys.argv[1]))
