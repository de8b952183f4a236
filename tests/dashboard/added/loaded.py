"""A plugin of pytest that loads a plugin of posenc before anything imports the dashboard."""

from pathlib import Path

from posenc import load_plugin

load_plugin(Path(__file__).with_name("one_hook_each.py"))
