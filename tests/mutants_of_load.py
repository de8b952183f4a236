"""Deliberate faults in what is shared by visitors: kept readings, sockets, uploads, the queue's lock."""

from tests.mutant_runs import Mutant

_BUSY = "lab_queue.py::test_a_queue_that_another_process_holds_is_read_and_says_so_when_changed"
_TRUSTED = "server_settings.py::test_whoever_trusts_a_header_listens_to_this_machine_unless_told"
_FORGET = "lab_queue.py::test_a_worker_that_cannot_forget_what_it_has_made_leaves_it_to_the_next"

MUTANTS_OF_LOAD = (
    Mutant("a reading that lacks a scheme is kept", "../dashboard/kept.py",
           'if not getattr(found, "reasons", None):', "if found:", ("kept",)),
    Mutant("one reading for every setting", "../dashboard/kept.py",
           "key = read.__module__, read.__qualname__, *asked",
           "key = read.__module__, read.__qualname__", ("kept",)),
    Mutant("readings kept without end", "../dashboard/kept.py",
           "while self._bytes > self._most:", "while self._bytes < 0:", ("kept",)),
    Mutant("one curve for every word", "../dashboard/kept.py",
           "key = make.__module__, make.__qualname__, *asked, *named.items()",
           "key = make.__module__, make.__qualname__", ("kept",)),
    Mutant("another server's door is changed", "../dashboard/sockets.py",
           "if found.getsockname()[1] == port:", "if port:", ("sockets",)),
    Mutant("messages wait for one another", "../dashboard/sockets.py",
           "socket.TCP_NODELAY, 1)", "socket.TCP_NODELAY, 0)", ("sockets",)),
    Mutant("uploads fill the memory", "../dashboard/uploads.py",
           "if held() > limits.MAX_HELD_UPLOADS:", "if held() < 0:", ("page_uploads",)),
    Mutant("a file refused for want of room is held", "../dashboard/uploads.py",
           "run.uploaded_file_mgr.remove_file(run.session_id, file.file_id)", "pass",
           ("page_uploads",)),
    Mutant("a start beside somebody who holds the queue", "lab/queue.py",
           "            with self._alone():\n                for entry in self.entries():",
           "            with contextlib.nullcontext():\n                for entry in self.entries():",
           (_BUSY,)),
    Mutant("made runs marked as failed while the queue is held", "lab/worker.py",
           "    except QueueBusy:\n", "    except ZeroDivisionError:\n", (_FORGET,)),
    Mutant("a trusted header from everywhere", "../dashboard/__main__.py",
           "if not _has_address(arguments):", "if False:", (f"{_TRUSTED}[nothing]",)),
    Mutant("an address in the environment is not heard", "../dashboard/__main__.py",
           'os.environ.get("STREAMLIT_SERVER_ADDRESS") or config', "config",
           (f"{_TRUSTED}[environment]",)),
)  # fmt: skip
