"""Adds the protos to what setuptools builds; all else is in pyproject.toml."""

import pathlib
import shutil
import sys
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import describe_protos  # noqa: E402


class BuildWithProtos(build_py):
    """Writes the description of the protos into the package that is built."""

    def run(self):
        super().run()
        into = HERE / "src" if self.editable_mode else pathlib.Path(
            self.build_lib)
        describe_protos.describe(into / "steadystate" / describe_protos.NAME)


class SourcesWithProtos(sdist):
    """Carries the protos and the licence, which stand outside this folder."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        base = pathlib.Path(base_dir)
        protos = describe_protos.proto_folder()
        for name in describe_protos.PROTOS:
            into = base / "proto" / name
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(protos / name, into)
        for folder in (HERE, HERE.parent.parent):
            if (folder / "LICENSE").is_file():
                shutil.copyfile(folder / "LICENSE", base / "LICENSE")
                break


# A build leaves nothing in the repository, nor takes up what an earlier one
# left there.
scratch = tempfile.TemporaryDirectory(prefix="steadystate_build_")
setup(
    # Old and new versions of setuptools agree on no form in pyproject.toml.
    license="Apache-2.0",
    cmdclass={"build_py": BuildWithProtos, "sdist": SourcesWithProtos},
    options={"build": {"build_base": scratch.name},
             "egg_info": {"egg_base": scratch.name}},
)
