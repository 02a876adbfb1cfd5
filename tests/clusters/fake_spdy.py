"""The server's end of forwarded ports as kubectl speaks of them, by SPDY/3.1; for `fake_api_server`."""

import socket
import struct
import threading
import zlib
from contextlib import suppress
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
    """Text that both ends know before the first header (SPDY Protocol - Draft 3, 2.6.10.1)."""
    return b"".join(struct.pack(">I", len(word)) + word for word in _WORDS) + _TEXTS


_NAMES = (
    b"options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    b"authorization cache-control connection content-base content-encoding content-language content-length "
    b"content-location content-md5 content-range content-type date etag expect expires from host if-match "
    b"if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    b"proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    b"user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    b"keep-alive origin"
).split()
_WORDS = [word.replace(b"_", b" ") for word in _NAMES]
_TEXTS = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    b"publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
