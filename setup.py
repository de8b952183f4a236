"""What pyproject.toml cannot say of the build: files at the root that the wheel needs in other places."""

import re
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


def readme_without_relative_links() -> str:
    """Return README.md without pictures and links of the repository, which a wheel does not have."""
    text = re.sub(r"!\[[^]]*\]\([^)]*\)\n+", "", Path("README.md").read_text(encoding="utf-8"))
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


setup(
    cmdclass={"build_py": BuildWithConfig},
    long_description=readme_without_relative_links(),
    long_description_content_type="text/markdown",
)
