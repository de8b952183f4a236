"""Deliberate faults in what is shared by visitors: kept readings, sockets, uploads, the queue's lock."""

from tests.mutants.runs import Mutant

_ELSEWHERE = "queue.py::test_process_of_the_same_number_on_another_machine_does_not_hang_here"

MUTANTS_OF_LOAD = (
    Mutant("a cached result can be written", "dashboard/cache.py",
           "result.flags.writeable = False", "result.flags.writeable = True", ("result_cache",)),
    Mutant("a long script keeps all others waiting", "dashboard/server/run_queue.py",
           "return max(0.0, self._began + self._longest - time.monotonic())", "return self._longest",
           ("run_queue",)),
    Mutant("the end of a long script ends the turn of the next", "dashboard/server/run_queue.py",
           "if self._running is mine:", "if True:", ("run_queue",)),
    Mutant("words put into a library's message are logged", "dashboard/server/output.py",
           "str(record.msg)[:200] if record.args", "record.getMessage() if record.args", ("logs",)),
    Mutant("a server's setting is told to visitors", "dashboard/server/incidents.py",
           "except ServerSettingError as error:", "except ZeroDivisionError as error:",
           ("incidents",)),
    Mutant("a result that lacks a scheme is cached", "dashboard/cache.py",
           'if not getattr(result, "reasons", None):', "if result:", ("result_cache",)),
    Mutant("one result for every setting", "dashboard/cache.py",
           "key = function.__module__, function.__qualname__, *arguments, *sources",
           "key = function.__module__, function.__qualname__", ("result_cache",)),
    Mutant("results cached without end", "dashboard/cache.py",
           "super().__init__(max_bytes, getsizeof", "super().__init__(2**60, getsizeof", ("result_cache",)),
    Mutant("uploads fill the memory", "dashboard/controls/uploads.py",
           "if upload_limit.held_bytes() > limits.MAX_HELD_UPLOADS:", "if False:", ("uploads",)),
    Mutant("a file comes in though uploads are off", "dashboard/server/upload_limit.py",
           "if not allowed.uploads:", "if False:", ("upload_limits",)),
    Mutant("files that arrive are not counted", "dashboard/server/upload_limit.py",
           "self._arriving[session] += size", "pass", ("upload_limits",)),
    Mutant("the shipped options count more than the user's file", "dashboard/__main__.py",
           "if not config.is_manually_set(name)", "if True", ("server_settings",)),
    Mutant("a process of another machine is taken for ours", "lab/jobs.py",
           'return f"{pid} {socket.gethostname()}"', 'return f"{pid}"', (_ELSEWHERE,)),
    Mutant("secrets that cannot be read are passed over", "dashboard/server/settings.py",
           'raise ServerSettingError(f"{place.name} cannot be read: {reason}.") from None', "break",
           ("server_settings",)),
    Mutant("a header that the operator does not name is believed", "dashboard/server/identity.py",
           'if settings.current().user_header else ""', 'if st.user.get(KEY) else ""', ("identity",)),
)  # fmt: skip
