"""The server's end of forwarded ports as kubectl speaks of them, by SPDY/3.1; for `fake_api_server`."""

import shutil
import socket
import struct
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

_SPDY_VERSION = 3
# SPDY compresses headers, of which only the number matters here: none, after the dictionary that both ends know.
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_LAST = 1


class Spdy:
    """The server's end of a connection by SPDY/3.1, for forwarded ports."""

    def __init__(self, stream: Any, connection: socket.socket, target: tuple[str, int]) -> None:
        self.stream, self.connection, self.target = stream, connection, target
        self.lock = threading.Lock()
        self.sockets: dict[int, socket.socket] = {}
        self.compress = zlib.compressobj(zdict=spdy_dictionary())
        self.streams = 0

    def serve(self) -> None:
        while head := self.stream.read(8):
            word, flags_and_length = struct.unpack(">II", head)
            flags, length = flags_and_length >> 24, flags_and_length & 0xFFFFFF
            content = self.stream.read(length)
            if word >> 31:
                self.control(word & 0xFFFF, content)
            elif (one := self.sockets.get(word)) is not None:
                with suppress(OSError):
                    if content:
                        one.sendall(content)
                    if flags & _LAST:
                        one.shutdown(socket.SHUT_WR)
        for one in self.sockets.values():
            one.close()

    def control(self, kind: int, content: bytes) -> None:
        if kind == _SYN_STREAM:
            (stream,) = struct.unpack(">I", content[:4])
            self.streams += 1
            headers = self.compress.compress(struct.pack(">I", 0)) + self.compress.flush(zlib.Z_SYNC_FLUSH)
            self.send_control(_SYN_REPLY, struct.pack(">I", stream) + headers)
            # The first of each pair is for errors.
            if self.streams % 2 == 0:
                self.connect(stream, stream - 2)
        elif kind == _PING:
            self.send_control(_PING, content)
        elif kind == _RST_STREAM:
            (stream, _) = struct.unpack(">II", content)
            if (one := self.sockets.pop(stream, None)) is not None:
                one.close()

    def connect(self, stream: int, errors: int) -> None:
        try:
            self.sockets[stream] = socket.create_connection(self.target)
        except OSError as error:
            self.send(errors, str(error).encode(), last=True)
            self.send(stream, b"", last=True)
            return
        threading.Thread(target=self.relay, args=(stream, errors), daemon=True).start()

    def relay(self, stream: int, errors: int) -> None:
        one = self.sockets[stream]
        with suppress(OSError):
            while content := one.recv(65536):
                self.send(stream, content)
        with suppress(OSError):
            self.send(stream, b"", last=True)
            self.send(errors, b"", last=True)

    def send(self, stream: int, content: bytes, *, last: bool = False) -> None:
        head = struct.pack(">II", stream, (_LAST if last else 0) << 24 | len(content))
        with self.lock:
            self.connection.sendall(head + content)

    def send_control(self, kind: int, content: bytes) -> None:
        head = struct.pack(">II", 1 << 31 | _SPDY_VERSION << 16 | kind, len(content))
        with self.lock:
            self.connection.sendall(head + content)


def spdy_dictionary() -> bytes:
    """That of the headers, which kubectl contains."""
    command = Path(str(shutil.which("kubectl"))).resolve()
    for path in sorted(command.parent.glob("kubectl*")):
        content = path.read_bytes()
        start = content.find(b"\x00\x00\x00\x07options\x00\x00\x00\x04head")
        if start >= 0:
            return content[start : start + 1423]
    raise LookupError("no dictionary of SPDY in kubectl")
