"""A visitor without a browser: one websocket, and as much of the page as is needed to turn a control.

Checked against Streamlit 1.67, whose protobuf modules are private: tests/server/test_load.py fails first.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_KEPT_RUNS = 2  # that a browser keeps a message which no run has used since
_EARLY = ForwardMsg.ScriptFinishedStatus.FINISHED_EARLY_FOR_RERUN
_BROKEN = ForwardMsg.ScriptFinishedStatus.FINISHED_WITH_COMPILE_ERROR


@dataclass(frozen=True)
class Answer:
    """One run of the script: seconds from the request to its end, and the bytes that came."""

    seconds: float
    size: int


@dataclass
class Dial:
    """A control with stops, as the page drew it last."""

    widget: str
    stops: tuple[str, ...]
    fragment: str


@dataclass
class Visitor:
    """A browser tab. `faults` holds what a person would have seen go wrong.

    address: of the app, such as http://127.0.0.1:8501 or with a base path. page: its url path, "" for
    the first. query: what stands in the address behind the question mark.
    """

    address: str
    page: str = ""
    query: str = ""
    patience: float = 60.0
    faults: list[str] = field(default_factory=list)
    dials: dict[str, Dial] = field(default_factory=dict)
    _script: str = ""
    _turned: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    _runs: int = 0
    _socket: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        parts = urlsplit(self.address)
        scheme = "wss" if parts.scheme == "https" else "ws"
        self._socket = await connect(
            f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/_stcore/stream",
            # The protocol, and the place of a token that only a login needs.
            subprotocols=[Subprotocol("streamlit"), Subprotocol("none")],
            max_size=None,
            compression=None,
            open_timeout=self.patience,
            ping_interval=None,
        )
        return self

    async def __aexit__(self, *fault: object) -> None:
        assert self._socket is not None
        await self._socket.close()

    async def look(self) -> Answer:
        """Open the page, or run it again as it is."""
        return await self._run("")

    async def turn(self, label: str, step: int) -> Answer:
        """Set the control of that label to the stop of number `step`, counted around."""
        dial = self.dials[label]
        self._turned[dial.widget] = dial.stops[step % len(dial.stops)]
        return await self._run(dial.fragment)

    async def _run(self, fragment: str) -> Answer:
        assert self._socket is not None
        began = time.perf_counter()
        await self._socket.send(BackMsg(rerun_script=self._state(fragment)).SerializeToString())
        async with asyncio.timeout(self.patience):
            size = await self._read()
        return Answer(time.perf_counter() - began, size)

    def _state(self, fragment: str) -> ClientState:
        state = ClientState(query_string=self.query, fragment_id=fragment)
        state.context_info.timezone = "UTC"
        state.context_info.locale = "en"
        state.context_info.url = f"{self.address}/{self.page}"
        if self._script:
            state.page_script_hash = self._script
        else:
            state.page_name = self.page
        for widget, stop in self._turned.items():
            held = WidgetState(id=widget)
            held.string_array_value.data.append(stop)
            state.widget_states.widgets.append(held)
        state.cached_message_hashes.extend(self._kept)
        return state

    async def _read(self) -> int:
        """Take messages up to the end of the run; their bytes."""
        assert self._socket is not None
        size = 0
        while True:
            raw = await self._socket.recv(decode=False)
            size += len(raw)
            message = ForwardMsg.FromString(raw)
            what = message.WhichOneof("type")
            if what == "new_session":
                self._script = message.new_session.page_script_hash or self._script
                self._runs += 1
            elif what == "navigation":
                self._script = message.navigation.page_script_hash or self._script
            elif what == "page_not_found":
                self.faults.append(f"no page {self.page}")
            elif what == "delta":
                self._drawn(message)
            elif what == "ref_hash" and message.ref_hash not in self._kept:
                self.faults.append("a message that this visitor never had")
            elif what == "script_finished" and message.script_finished != _EARLY:
                if message.script_finished == _BROKEN:
                    self.faults.append("a script that does not compile")
                # A browser keeps messages of the last runs.
                self._kept = {n: r for n, r in self._kept.items() if self._runs - r < _KEPT_RUNS}
                return size
            name = message.ref_hash if what == "ref_hash" else message.hash
            if name and (what == "ref_hash" or message.metadata.cacheable):
                self._kept[name] = self._runs

    def _drawn(self, message: ForwardMsg) -> None:
        if message.delta.WhichOneof("type") != "new_element":
            return
        element: Element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.faults.append(f"{element.exception.type}: {element.exception.message[:80]}")
        elif kind == "alert" and element.alert.format == Alert.ERROR:
            self.faults.append(element.alert.body[:120])
        elif kind == "slider" and element.slider.options:
            slider = element.slider
            stops, fragment = tuple(slider.options), message.delta.fragment_id
            self.dials[slider.label] = Dial(slider.id, stops, fragment)
