"""Compiles the modules of the hot path with mypyc, where HATCH_BUILD_HOOKS_ENABLE=1 asks for it; see CONTRIBUTING.md.

In a folder of its own: an extension module that is left in the source tree would be imported instead of its source.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface):
    """Puts extension modules beside the `modules` that pyproject.toml names."""

    def dependencies(self) -> list[str]:
        """Return what a build in an environment of its own installs for this."""
        return ["mypy[mypyc]>=2.4,<3"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; the files are taken into the wheel after this. Raises SystemExit where a compiler is missing."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="twotick-mypyc-")
        folder = Path(self._folder.name).resolve()
        for package in self.build_config.packages:
            shutil.copytree(Path(self.root, package), folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        options = ["--config-file", os.devnull, "--ignore-missing-imports", "--follow-imports=silent"]
        done = subprocess.run(  # noqa: S603 - our own files
            [sys.executable, "-m", "mypyc", *options, *self.config["modules"]],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}\nerror: mypyc failed; it needs a C compiler and Python's headers")
        shutil.rmtree(folder / "build")
        built = {str(path): str(path.relative_to(folder)) for path in folder.rglob("*.so")}
        build_data["force_include"].update(built)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()
