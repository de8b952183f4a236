"""Deliberate faults in what is shared by visitors: kept readings, sockets, uploads, the queue's lock."""

from tests.mutants.runs import Mutant

_ELSEWHERE = "queue.py::test_process_of_the_same_number_on_another_machine_does_not_hang_here"

MUTANTS_OF_LOAD = (
    Mutant("one visitor fills the queue", "lab/jobs.py",
           "and len(own) >= owner_limit", "and len(own) > owner_limit", ("queue",)),
    Mutant("a cached result can be written", "dashboard/compute/result_cache.py",
           "result.flags.writeable = False", "result.flags.writeable = True", ("result_cache",)),
    Mutant("a session that takes long waits with all others", "dashboard/server/run_queue.py",
           "if session.long:", "if False:", ("turns",)),
    Mutant("a script that is called off goes to the end of the queue", "dashboard/server/run_queue.py",
           "self._waiting.appendleft if session.anew else", "self._waiting.append if True else",
           ("turns",)),
    Mutant("the time of others makes a session's script long", "dashboard/server/run_queue.py",
           """worked = time.thread_time()  # not the time that others took meanwhile
            try:
                yield
            finally:
                session.long = time.thread_time()""",
           """worked = time.monotonic()
            try:
                yield
            finally:
                session.long = time.monotonic()""", ("turns",)),
    Mutant("words put into a library's message are logged", "dashboard/server/log_lines.py",
           "str(record.msg)[:200] if record.args", "record.getMessage() if record.args", ("logs",)),
    Mutant("a server's setting is told to visitors", "dashboard/server/incidents.py",
           "except ServerSettingError as error:", "except ZeroDivisionError as error:",
           ("incidents",)),
    Mutant("a result that lacks a scheme is cached", "dashboard/compute/result_cache.py",
           'if not getattr(result, "reasons", None):', "if result:", ("result_cache",)),
    Mutant("one result for every setting", "dashboard/compute/result_cache.py",
           "key = read.__module__, read.__qualname__, *asked",
           "key = read.__module__, read.__qualname__", ("result_cache",)),
    Mutant("results cached without end", "dashboard/compute/result_cache.py",
           "super().__init__(max_bytes, getsizeof", "super().__init__(2**60, getsizeof", ("result_cache",)),
    Mutant("uploads fill the memory", "dashboard/controls/uploads.py",
           "if upload_limit.held() > limits.MAX_HELD_UPLOADS:", "if False:", ("uploads",)),
    Mutant("a file comes in though uploads are off", "dashboard/server/upload_limit.py",
           "if not allowed.uploads:", "if False:", ("upload_limits",)),
    Mutant("files that arrive are not counted", "dashboard/server/upload_limit.py",
           "self._arriving[session] += size", "pass", ("upload_limits",)),
    Mutant("a trusted header from everywhere", "dashboard/__main__.py",
           "if not _has_address(arguments):", "if False:", ("server_settings",)),
    Mutant("a process of another machine is taken for ours", "lab/jobs.py",
           'return f"{pid} {socket.gethostname()}"', 'return f"{pid}"', (_ELSEWHERE,)),
    Mutant("secrets that cannot be read are passed over", "dashboard/server/settings.py",
           'raise ServerSettingError(f"{place.name} cannot be read: {said}.") from None', "break",
           ("server_settings",)),
    Mutant("an address that the provider does not stand by", "dashboard/server/visitor.py",
           '.lower() == "true"', '.lower() != "false"', ("login",)),
    Mutant("a claim is taken for the proxy's header", "dashboard/server/visitor.py",
           "if settings.current().user_header:", "if st.user.get(KEY):", ("login",)),
    Mutant("a browser is sent to log in without having asked", "dashboard/frame/login.py",
           "st.session_state.pop(_LEAVING, None)", 'st.session_state.pop(_LEAVING, "")',
           ("login",)),
)  # fmt: skip
