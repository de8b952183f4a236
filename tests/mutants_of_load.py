"""Deliberate faults in what is shared by visitors: kept readings, sockets, uploads, the queue's lock."""

from tests.mutant_runs import Mutant

_BUSY = "lab_queue.py::test_a_queue_that_another_process_holds_is_read_and_says_so_when_changed"
_FORGET = "lab_queue.py::test_a_worker_that_cannot_forget_what_it_has_made_leaves_it_to_the_next"
_FRESH = "hostile_uploads.py::test_files_under_fresh_ids_never_fill_the_memory"

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
    Mutant("files that no page asks for fill the memory", "../dashboard/uploads.py",
           "if kept + _size(file) > most_held():", "if False:", ("page_uploads",)),
    Mutant("a file comes in though uploads are off", "../dashboard/uploads.py",
           "if not _allowed():", "if False:", ("page_uploads",)),
    Mutant("the keeper of files is not bounded by the app", "../dashboard/app.py",
           "    uploads.bound()\n", "", (_FRESH,)),
    Mutant("a visitor reads the name of another's file", "interop/held_numbers.py",
           "shown = (table.shape, table.dtype, source, held.notes, files, tensor)",
           "shown = (table.shape, table.dtype)", ("page_check",)),
    Mutant("uploaded tables in use without a bound in bytes", "interop/held.py",
           "len(self._values) > self._most or self._bytes > self._most_bytes",
           "len(self._values) > self._most", ("held",)),
    Mutant("a kept reading outlives its uploaded table", "../dashboard/kept.py",
           ", *filter(is_gone, sources)", "", ("page_uploads",)),
    Mutant("cached results outlive their uploaded table", "../dashboard/compute.py",
           "if is_gone(source) else", "if not source else", ("page_uploads",)),
    Mutant("a result with slots cannot be kept", "../dashboard/kept.py",
           "[getattr(one, part.name) for part in dataclasses.fields(one)]", "vars(one).values()",
           ("kept",)),
    Mutant("a start beside somebody who holds the queue", "lab/queue.py",
           "            with self._alone():\n                for entry in self.entries():",
           "            with contextlib.nullcontext():\n                for entry in self.entries():",
           (_BUSY,)),
    Mutant("made runs marked as failed while the queue is held", "lab/worker.py",
           "    except QueueBusy:\n", "    except ZeroDivisionError:\n", (_FORGET,)),
)  # fmt: skip
