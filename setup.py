"""What pyproject.toml cannot say of the build: the wheel has config.toml of Streamlit in another place."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CONFIG = ".streamlit/config.toml"  # where `streamlit run` reads it


class BuildWithConfig(build_py):
    """Put the configuration of the server into the package, where `posenc app` reads it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(CONFIG, str(Path(self.build_lib, "dashboard", "config.toml")))

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), CONFIG]


setup(cmdclass={"build_py": BuildWithConfig})
