"""Report measurements to a collector of OML's protocol: Pillion's or OML's own.

The interface is the same as oml4py's, so that a program changes one import:

    from pillion.oml import OMLBase

    oml = OMLBase("app", "experiment", "host1", "tcp:collector:3003")
    oml.addmp("sine", "angle:double value:double")
    oml.start()
    oml.inject("sine", [0.5, 0.479])
    oml.close()

inject never waits for the network: tuples go into a bounded queue, which a background
thread sends. Samples that do not fit are dropped, counted in `dropped`, leave a gap in
the sequence numbers, and are reported in-band as metadata. A Pillion collector
acknowledges tuples once they are on its disk; until then they are kept, and resent on
the next connection: none is lost unless the queue is full, and none is stored twice.
"""

import argparse
import atexit
import base64
import collections
import logging
import os
import random
import re
import secrets
import socket
import sys
import threading
import time

__all__ = ["OMLBase"]

DEFAULT_PORT = 3003
PROTOCOL = 4

_log = logging.getLogger("pillion.oml")
_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_metadata = "0 _experiment_metadata subject:string key:string value:string"
_header_break = re.compile(r"[\r\n]+")
_escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

_piece_bytes = 64 << 10
_greeting = 2.0
_connect_timeout = 5.0
_write_timeout = 30.0
_pause_max = 5.0
_slice = 0.1  # how often a slowed connection looks for a change, s
_numbers = ("int32", "uint32", "int64", "uint64", "double", "integer", "long", "real", "float")


def _integer(low, high):
    def encode(value):
        number = int(value)
        if number != value or not low <= number <= high:
            raise ValueError("%r is not an integer between %d and %d" % (value, low, high))
        return "%d" % number

    return encode


def _text(value):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).translate(_escapes)


def _blob(value):
    return base64.b64encode(value.encode() if isinstance(value, str) else bytes(value)).decode()


def _vector(element):
    def encode(values):
        values = list(values)
        return " ".join(["%d" % len(values)] + [element(v) for v in values])

    return encode


_encoders = {
    "int32": _integer(-(1 << 31), (1 << 31) - 1),
    "uint32": _integer(0, (1 << 32) - 1),
    "int64": _integer(-(1 << 63), (1 << 63) - 1),
    "uint64": _integer(0, (1 << 64) - 1),
    "guid": _integer(0, (1 << 64) - 1),
    "double": lambda value: repr(float(value)),
    "string": _text,
    "blob": _blob,
    "bool": lambda value: "True" if value else "False",
}
_encoders.update({"[%s]" % kind: _vector(_encoders[kind]) for kind in ("int32", "uint32", "int64", "uint64", "double", "bool")})
_encoders.update({"integer": _encoders["int32"], "long": _encoders["int32"], "real": _encoders["double"], "float": _encoders["double"]})


class _Point:
    """A measurement point: one stream of tuples."""

    def __init__(self, index, name, schema):
        self.index, self.name, self.fields, self.encoders = index, name, [], []
        self.seq = self.dropped = self.reported = self.skipped = 0
        self.thinned = 1
        self.window, self.every, self.kinds = None, 0, []
        for word in schema.split():
            field, colon, kind = word.partition(":")
            if not colon or not _name.match(field) or kind not in _encoders or field in self.fields:
                raise ValueError("read schema of %s: expected NAME:TYPE with a new name, not %r" % (name, word))
            self.fields.append(field)
            self.encoders.append(_encoders[kind])
            self.kinds.append(kind)
        self.schema = "%d %s %s" % (index, name, " ".join(schema.split()))

    def encode(self, values):
        values = list(values)
        if len(values) != len(self.encoders):
            raise ValueError("inject into %s: %d values, not %d" % (self.name, len(values), len(self.encoders)))
        try:
            return "\t".join([encode(value) for encode, value in zip(self.encoders, values)])
        except (TypeError, OverflowError) as error:
            raise ValueError("inject into %s: %s" % (self.name, error)) from None


class _Window:
    """Samples of a point that become one tuple of another: average, minimum and maximum of
    numbers, and the first of other values."""

    def __init__(self, point, index):
        schema = []
        for field, kind in zip(point.fields, point.kinds):
            schema += ["%s_%s:double" % (field, what) for what in ("avg", "min", "max")] if kind in _numbers else ["%s:%s" % (field, kind)]
        self.kinds = point.kinds
        self.to = _Point(index, point.name + "_aggregate", " ".join(schema))
        self.samples, self.at, self.timer = 0, 0.0, None

    def add(self, at, values):
        if not self.samples:
            self.state = [[0.0, float("inf"), float("-inf")] if kind in _numbers else value for kind, value in zip(self.kinds, values)]
        self.samples, self.at = self.samples + 1, at
        for state, kind, value in zip(self.state, self.kinds, values):
            if kind in _numbers:
                state[:] = state[0] + value, min(state[1], value), max(state[2], value)

    def take(self):
        values = []
        for state, kind in zip(self.state, self.kinds):
            values += [state[0] / self.samples, state[1], state[2]] if kind in _numbers else [state]
        self.samples = 0
        return self.to.encode(values)


class OMLBase:
    """One run of an instrumented program."""

    def __init__(self, appname, domain=None, sender=None, uri=None, expid=None, token=None, buffer=8 << 20, argv=None):
        """Domain, sender and uri come from --oml-domain, --oml-id and --oml-collect of
        the command line, which are removed from argv (sys.argv), or from OML_DOMAIN,
        OML_NAME and OML_COLLECT. buffer is the maximum number of buffered bytes."""
        if not _name.match(appname):
            raise ValueError("invalid application name %r: use letters, digits and _" % appname)
        options = self._options(sys.argv if argv is None else argv)
        env = os.environ.get
        self.appname = appname
        self.domain = domain or expid or options.oml_domain or env("OML_DOMAIN") or env("OML_EXP_ID")
        self.sender = sender or options.oml_id or env("OML_NAME")
        if not self.domain or not self.sender:
            raise ValueError("a domain (OML_DOMAIN) and a sender (OML_NAME) are required")
        self.omlserver, self.omlport = _address(uri or options.oml_collect or env("OML_COLLECT") or env("OML_SERVER") or "tcp:localhost")
        self.starttime = 0
        self.dropped = 0
        self._token, self._buffer = token, buffer
        self._session = secrets.token_hex(16)
        self._changed = threading.Condition()
        self._points = {}
        self._queue = collections.deque()  # (index, seq, line), oldest first
        self._bytes = self._sent = self._notes = 0
        self._stored = {}
        self._begun = self._ended = self._moved = False
        self._thin = 1  # the collector requests one in this many samples
        self._rate = 0  # the highest that it requests, bytes/s; 0: any
        self._every = 0  # the window of the aggregates that it requests, s; 0: samples
        self._streams = 0
        self._closing = False
        self._thread = None
        self._socket = None

    @staticmethod
    def _options(argv):
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for name in ("--oml-id", "--oml-domain", "--oml-collect"):
            parser.add_argument(name)
        options, argv[1:] = parser.parse_known_args(argv[1:])
        return options

    def addmp(self, mpname, schema):
        """Add a measurement point, also after start. schema is "field:type ..."."""
        if not _name.match(mpname):
            raise ValueError("invalid name of a measurement point: %r" % mpname)
        with self._changed:
            if mpname in self._points:
                raise ValueError("measurement point %s already exists" % mpname)
            point = _Point(self._streams + 1, self.appname + "_" + mpname, schema)
            self._points[mpname] = point
            self._announce(point)

    def start(self):
        """Start reporting, without waiting for the collector."""
        with self._changed:
            if self.starttime:
                raise RuntimeError("start was already called")
            self.starttime = int(time.time())
        self._thread = threading.Thread(target=self._run, name="pillion.oml", daemon=True)
        self._thread.start()
        atexit.register(self.close, 2.0)  # for programs that exit without it

    def inject(self, mpname, values):
        """Report values now, without waiting; False if the queue is full. While the
        collector requests fewer samples, only one in N or aggregates are sent, and metadata
        records that."""
        point = self._points[mpname]
        values = list(values)
        text = point.encode(values)
        with self._changed:
            if not self.starttime or self._ended:
                raise RuntimeError("not started, or already closed")
            if self._aggregates(point, values) or self._thins(point):
                return True
            return self._put(point, time.time(), text)

    def inject_metadata(self, mpname, key, value, fname=None):
        """Report metadata of the program (mpname None), of a measurement point, or of one
        of its fields."""
        subject = "."
        if mpname:
            point = self._points[mpname]
            if fname and fname not in point.fields:
                raise ValueError("%s has no field %s" % (mpname, fname))
            subject += point.name + ("." + fname if fname else "")
        with self._changed:
            if not self.starttime or self._ended:
                raise RuntimeError("not started, or already closed")
            self._note(subject, key, value)

    @staticmethod
    def generate_guid():
        """A random identifier, never 0."""
        return random.SystemRandom().randrange(1, 1 << 64)

    @property
    def thinned(self):
        """Whether tuples were left out because the collector requested fewer."""
        with self._changed:
            return any(point.thinned > 1 for point in self._points.values())

    def close(self, timeout=10.0):
        """Flush the queue, waiting at most timeout seconds, and stop. Returns the number
        of lost tuples: those that the collector does not have."""
        if self._thread is None:
            return 0
        atexit.unregister(self.close)
        until = time.monotonic() + timeout
        with self._changed:
            self._closing = True
            for point in self._points.values():
                self._end_window(point)
                self._report_dropped(point)
            while self._queue and not self._ended and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
            lost = len(self._queue)
            self._ended = True
            self._changed.notify_all()
            if self._socket:
                _shut(self._socket, socket.SHUT_WR if not lost else socket.SHUT_RDWR)
        self._thread.join(_connect_timeout + 1)
        return lost

    # Methods from here to _run are called with the lock held.

    def _announce(self, point):
        self._streams += 1
        if self._begun:
            self._note(".", "schema", point.schema)

    def _put(self, point, at, text):
        point.seq += 1  # a dropped tuple leaves a gap
        line = ("%.6f\t%d\t%d\t%s\n" % (at - self.starttime, point.index, point.seq, text)).encode("utf-8", "replace")
        if self._bytes + len(line) > self._buffer:
            point.dropped += 1
            self.dropped += 1
            return False
        self._report_dropped(point)
        self._add(point.index, point.seq, line)
        return True

    def _aggregates(self, point, values):
        """Reports whether the sample went into a window, as the collector requests."""
        if point.every != self._every:
            if not point.window:
                point.window = _Window(point, self._streams + 1)
                self._announce(point.window.to)
            self._end_window(point)
            point.every = self._every
            self._note("." + point.name, "aggregated", round(self._every * 1000))
        if not point.every:
            return False
        point.window.add(time.time(), values)
        if point.window.samples == 1:
            point.window.timer = threading.Timer(point.every, self._end_window_later, [point])
            point.window.timer.daemon = True
            point.window.timer.start()
        return True

    def _end_window(self, point):
        if point.window and point.window.samples:
            point.window.timer.cancel()
            self._put(point.window.to, point.window.at, point.window.take())

    def _end_window_later(self, point):
        with self._changed:
            if not self._ended:
                self._end_window(point)

    def _reduce(self, what, amount):
        """A request to send less: a rate, bytes/s, or aggregates over a time, ms."""
        if what == b"slow":
            if amount != self._rate:
                self._note(".", "slowed", amount)
            self._rate = amount
            return
        self._every = amount / 1000
        for point in self._points.values():
            if not amount and point.every:
                self._aggregates(point, None)

    def _report_dropped(self, point):
        if point.reported != point.dropped:
            point.reported = point.dropped
            self._note("." + point.name, "dropped", point.dropped)

    def _thins(self, point):
        """Reports whether to skip this tuple. It takes no sequence number, so that it does not look lost."""
        if point.thinned != self._thin:
            point.thinned, point.skipped = self._thin, self._thin - 1
            self._note("." + point.name, "thinned", self._thin)
        point.skipped += 1
        if point.skipped < point.thinned:
            return True
        point.skipped = 0
        return False

    def _note(self, subject, key, value):
        self._notes += 1
        at = time.time() - self.starttime
        line = "%.6f\t0\t%d\t%s\t%s\t%s\n" % (at, self._notes, _text(subject), _text(key), _text(value))
        self._add(0, self._notes, line.encode("utf-8", "replace"))

    def _add(self, index, seq, line):
        self._queue.append((index, seq, line))
        self._bytes += len(line)
        self._changed.notify_all()

    def _release(self, sent_only):
        """Remove the oldest tuples that were sent, or that are on the collector's disk."""
        while self._queue:
            index, seq, line = self._queue[0]
            if not (self._sent > 0 if sent_only else seq <= self._stored.get(index, 0)):
                break
            self._queue.popleft()
            self._bytes -= len(line)
            self._sent = max(0, self._sent - 1)
        self._changed.notify_all()

    def _header(self):
        lines = [
            "protocol: %d" % PROTOCOL, "domain: %s" % self.domain, "start-time: %d" % self.starttime,
            "sender-id: %s" % self.sender, "app-name: %s" % self.appname, "pillion-session: %s" % self._session,
            "pillion-feedback: thin slow aggregate",
        ]
        if self._token:
            lines.append("pillion-token: %s" % self._token)
        lines += ["schema: " + s for s in [_metadata] + self._schemas()]
        lines.append("content: text")
        return "".join(_header_break.sub(" ", line) + "\n" for line in lines) + "\n"

    def _schemas(self):
        points = [p for own in self._points.values() for p in ([own, own.window.to] if own.window else [own])]
        return [p.schema for p in sorted(points, key=lambda p: p.index)]

    # The thread that sends.

    def _run(self):
        pause = 0.1
        while True:
            begun = time.monotonic()
            self._moved = False
            try:
                self._connect()
            except OSError as error:
                _log.warning("report to %s:%d: %s", self.omlserver, self.omlport, error)
            if self._moved or time.monotonic() - begun > _pause_max:
                pause = 0.1
            with self._changed:
                self._socket = None
                if self._ended or self._changed.wait_for(lambda: self._ended, pause):
                    return
            pause = min(2 * pause, _pause_max)

    def _connect(self):
        connection = socket.create_connection((self.omlserver, self.omlport), _connect_timeout)
        with connection:
            connection.settimeout(_write_timeout)
            link = _Link(self, connection)
            with self._changed:
                if self._ended:
                    return
                self._socket = connection
                header = self._header()
                self._begun, self._sent = True, 0
            listener = threading.Thread(target=link.listen, name="pillion.oml answers", daemon=True)
            listener.start()
            try:
                connection.sendall(header.encode("utf-8", "replace"))
                with self._changed:
                    self._changed.wait_for(lambda: link.going or link.ended or self._ended, _greeting)
                link.send()
            finally:
                _shut(connection, socket.SHUT_RDWR)
                listener.join()


class _Link:
    """One connection."""

    def __init__(self, oml, connection):
        self.oml, self.connection = oml, connection
        self.answers = self.going = self.ended = False

    def listen(self):
        """Read the collector's messages; collectors other than Pillion's send none."""
        rest = b""
        while True:
            try:
                got = self.connection.recv(4096)
            except socket.timeout:
                continue
            except OSError:
                got = b""
            with self.oml._changed:
                if not got or len(rest) > 4096:
                    self.ended = True
                    self.oml._changed.notify_all()
                    return
                *lines, rest = (rest + got).split(b"\n")
                for line in lines:
                    self._hear(line.split())

    def _hear(self, words):
        if words == [b"pillion", b"1"]:
            self.answers = True
            self.oml._thin, self.oml._rate, self.oml._every = 1, 0, 0  # until this collector requests otherwise
        elif words == [b"go"]:
            self.going = True
            self.oml._changed.notify_all()
        elif len(words) == 2 and words[0] == b"thin" and words[1].isdigit() and 0 < int(words[1]) < 1 << 31:
            self.oml._thin = int(words[1])
        elif len(words) == 2 and words[0] in (b"slow", b"aggregate") and words[1].isdigit() and int(words[1]) < 1 << 40:
            self.oml._reduce(words[0], int(words[1]))
        elif len(words) == 3 and words[0] == b"stored" and words[1].isdigit() and words[2].isdigit():
            index, seq = int(words[1]), int(words[2])
            self.oml._moved = True
            self.oml._stored[index] = max(seq, self.oml._stored.get(index, 0))
            self.oml._release(False)

    def send(self):
        """Write queued tuples as they arrive."""
        oml = self.oml
        while True:
            with oml._changed:
                oml._changed.wait_for(lambda: oml._sent < len(oml._queue) or self.ended or oml._ended)
                if self.ended and not oml._ended:
                    raise ConnectionError("the collector closed the connection")
                if oml._ended:
                    return
                piece = self._piece()
            self.connection.sendall(piece)
            self._pause(len(piece))
            with oml._changed:
                if not self.answers:
                    oml._release(True)

    def _pause(self, left):
        """Wait for as long as the bytes take at the rate that the collector requests. A
        program that ends is not delayed."""
        oml = self.oml
        while left > 0 and oml._rate and not (oml._closing or self.ended):
            wait = min(left / oml._rate, _slice)
            left -= wait * oml._rate + 1
            time.sleep(wait)

    def _piece(self):
        oml, lines, size = self.oml, [], 0
        most = _piece_bytes if oml._closing or not oml._rate else max(1, min(oml._rate * _slice, _piece_bytes))
        while oml._sent < len(oml._queue) and size < most:
            index, seq, line = oml._queue[oml._sent]
            oml._sent += 1
            if seq > oml._stored.get(index, 0):
                lines.append(line)
                size += len(line)
        return b"".join(lines)


def _shut(connection, how):
    try:
        connection.shutdown(how)
    except OSError:
        pass


def _address(uri):
    """[tcp:[//]]host[:port], also [IPv6 address]:port."""
    rest = uri[4:] if uri.startswith("tcp:") else uri
    rest = rest[2:] if rest.startswith("//") else rest
    match = re.match(r"(?:\[([^\]]+)\]|([^:]+))(?::([0-9]+))?\Z", rest)
    if not match or int(match.group(3) or 1) > 65535:
        raise ValueError("read %r: use tcp:host:port" % uri)
    return match.group(1) or match.group(2), int(match.group(3) or DEFAULT_PORT)
