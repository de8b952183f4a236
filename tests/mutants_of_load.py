"""Deliberate faults in what is shared by visitors: kept readings, sockets, uploads, the queue's lock."""

from tests.mutant_runs import Mutant

_BUSY = "lab_holder.py::test_a_queue_that_another_process_holds_is_read_and_says_so_when_changed"
_TRUSTED = "server_settings.py::test_whoever_trusts_a_header_listens_to_this_machine_unless_told"
_SECRETS = (
    "server_settings.py::"
    "test_secrets_that_cannot_be_read_end_the_server_and_never_open_it[no value]"
)
_FORGET = "lab_holder.py::test_a_worker_that_cannot_forget_what_it_has_made_leaves_it_to_the_next"
_FRESH = "hostile_uploads.py::test_files_under_fresh_ids_never_fill_the_memory"
_STOP = "lab_holder.py::test_a_stop_that_cannot_be_done_yet_is_no_attempt_and_no_end_of_the_worker"
_ELSEWHERE = "lab_holder.py::test_a_process_of_the_same_number_elsewhere_does_not_hang_here"
_OWNER = (
    "page_labels.py::"
    "test_the_owner_of_a_start_alone_stops_it_also_while_labels_cannot_be_written_or_read"
)

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
           "keeper.remove_file(run.session_id, file.file_id)", "pass",
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
    Mutant("kept readings are not told of", "../dashboard/counters.py",
           '{"kept_readings": kept.readings.size()}', '{"kept_readings": 0}', ("logs",)),
    Mutant("a start beside somebody who holds the queue", "lab/queue.py",
           "            with self._alone():\n                for entry in self.entries():",
           "            with contextlib.nullcontext():\n                for entry in self.entries():",
           (_BUSY,)),
    Mutant("a trusted header from everywhere", "../dashboard/__main__.py",
           "if not _has_address(arguments):", "if False:", (f"{_TRUSTED}[nothing]",)),
    Mutant("an address in the environment is not heard", "../dashboard/__main__.py",
           'os.environ.get("STREAMLIT_SERVER_ADDRESS") or config', "config",
           (f"{_TRUSTED}[environment]",)),
    Mutant("made runs marked as failed while the queue is held", "lab/worker.py",
           "    except QueueBusy:\n        _give_back", "    except ZeroDivisionError:\n        _give_back",
           (_FORGET,)),
    Mutant("waiting for the queue costs an attempt", "lab/worker.py",
           "queue.give_back(entry)", "pass", (_FORGET,)),
    Mutant("a queue held beside a stop ends the worker", "lab/worker.py",
           "        except QueueBusy:\n            _give_back",
           "        except ZeroDivisionError:\n            _give_back", (_STOP,)),
    Mutant("a process of another machine is taken for ours", "lab/holder.py",
           'if numbering in ("", _numbering()) else None', "if pid else None", (_ELSEWHERE,)),
    Mutant("a fault of the queue ends the watch over a process", "../dashboard/workers.py",
           "            except (PosencError, OSError):\n                if not said:",
           "            except ZeroDivisionError:\n                if not said:", ("crew",)),
    Mutant("a watch that ends early keeps all processes out", "../dashboard/workers.py",
           "        finally:  # one that stays in the list keeps all others out\n",
           "        except ZeroDivisionError:\n            pass\n        else:\n", ("crew",)),
    Mutant("what waits is looked for once", "../dashboard/workers.py",
           "server_workers().look()", "server_workers()", ("crew",)),
    Mutant("anybody stops a start", "../dashboard/run_labels.py",
           'return entry.owner in ("", visitor.name())', "return True", (_OWNER,)),
    Mutant("a start belongs to nobody", "../dashboard/training.py",
           "owner=visitor.name()", 'owner=""', (_OWNER,)),
    Mutant("a start of before is nobody's where a shell labelled it", "../dashboard/run_labels.py",
           'in labels} - {""}', "in labels}", ("page_labels",)),
    Mutant("servers of one process number share a socket", "../dashboard/counters.py",
           "-{secrets.token_hex(4)}.sock", ".sock", ("counters_folder",)),
    Mutant("a server ends before its trainings have saved", "../dashboard/workers.py",
           "process.wait(max(0.0, end - time.monotonic()))", "process.wait(0.0)",
           ("crew.py::test_a_server_that_ends_waits_until_its_processes_have_saved",)),
    Mutant("a training keeps the core that a page needs", "../dashboard/workers.py",
           "    if wholly:\n", "    if not wholly:\n",
           ("crew.py::test_a_training_gives_way_to_pages_wholly_on_a_shared_server[shared-SCHED_IDLE]",)),
    Mutant("secrets that cannot be read are passed over", "../dashboard/server_settings.py",
           'raise ServerSettingError(f"{place.name} cannot be read: {said}.") from None', "break",
           (_SECRETS,)),
)  # fmt: skip
