"""The background process of a server: logs as the server does and works on the queue of jobs."""

import os

from dashboard.server import log_lines
from posenc.lab.worker import run_as_process

if __name__ == "__main__":
    log_lines.install(os.environ.get(log_lines.VARIABLE, ""))
    run_as_process()
