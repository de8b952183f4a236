"""The background process of a server: works on the queue of jobs, and logs no visitor's words."""

from dashboard.server import output
from posenc.lab.worker import run_as_process

if __name__ == "__main__":
    output.begin_log(quotes=False)
    run_as_process()
