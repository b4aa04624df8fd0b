"""Tests of pillion.oml against a collector in this process."""

import math
import socket
import subprocess
import sys
import threading
import time
import unittest

from pillion import oml as module
from pillion.oml import OMLBase

PATIENCE = 30.0


class Collector:
    """Accepts connections, one at a time. If it acknowledges, it stores tuples as Pillion's
    does: up to `until` of a connection, which it then closes."""

    def __init__(self, answers=True, port=0, until=None, kept=None):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.answers, self.until = answers, until
        self.tuples, self.headers, self.kept = [], [], {} if kept is None else kept
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            with connection, connection.makefile("rb") as lines:
                try:
                    self.serve(connection, lines)
                except OSError:
                    pass

    def serve(self, connection, lines):
        header = []
        for line in lines:
            if not line.strip():
                break
            header.append(line.decode().rstrip("\n"))
        with self.changed:
            self.headers.append(header)
        if self.answers:
            text = "pillion 1\n" + "".join("stored %d %d\n" % item for item in self.kept.items()) + "go\n"
            connection.sendall(text.encode())
        count = 0
        for line in lines:
            words = line.decode().rstrip("\n").split("\t")
            index, seq = int(words[1]), int(words[2])
            with self.changed:
                if not self.answers or seq > self.kept.get(index, 0):
                    self.tuples.append(words[1:])
                    self.kept[index] = seq
                self.changed.notify_all()
            if self.answers:
                connection.sendall(b"stored %d %d\n" % (index, seq))
            count += 1
            if count == self.until:
                return

    def wait(self, holds):
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), "it never came true"

    def close(self):
        self.listener.close()


def client(port, **more):
    made = OMLBase("app", "domain", "sender", "tcp:127.0.0.1:%d" % port, argv=["test"], **more)
    made.addmp("t", "n:int64 s:string")
    return made


class TestClient(unittest.TestCase):
    def collector(self, **options):
        made = Collector(**options)
        self.addCleanup(made.close)
        return made

    def test_types(self):
        collector = self.collector()
        oml = OMLBase("app", "d\nx", "s", "127.0.0.1:%d" % collector.port, token="secret", argv=["test"])
        oml.addmp("all", "a:int32 b:uint32 c:int64 d:uint64 e:double f:double g:string h:blob i:guid j:bool k:[double] l:[bool] m:[uint64]")
        oml.start()
        self.assertTrue(oml.inject("all", [-1, 2**32 - 1, -(2**63), 2**64 - 1, 0.1, math.nan, "a\tb\nc\\dü", b"\x00\x01\xff", 2**63, 1, [1.5, 1e-300], [True, 0], []]))
        oml.inject_metadata("all", "unit", "ms", "a")
        self.assertEqual(oml.close(PATIENCE), 0)
        self.assertEqual(collector.tuples[0], ["1", "1", "-1", "4294967295", "-9223372036854775808", "18446744073709551615", "0.1", "nan",
                                               "a\\tb\\nc\\\\dü", "AAH/", "9223372036854775808", "True", "2 1.5 1e-300", "2 True False", "0"])
        self.assertEqual(collector.tuples[1], ["0", "1", ".app_all.a", "unit", "ms"])
        header = collector.headers[0]
        self.assertEqual(header[0], "protocol: 4")
        self.assertIn("domain: d x", header)
        self.assertIn("pillion-token: secret", header)
        self.assertEqual(header[-1], "content: text")
        self.assertRegex("\n".join(header), "pillion-session: [0-9a-f]{32}\n")

    def test_wrong_values(self):
        oml = client(1)
        oml.addmp("v", "x:[int32]")
        oml._thread, oml.starttime = None, 1  # not started: sends nothing
        for name, values in (("t", [1]), ("t", [2**63, "a"]), ("t", [1.5, "a"]), ("t", ["x", "a"]), ("t", [None, "a"]), ("t", [float("inf"), "a"]), ("v", [5])):
            with self.subTest(values=values), self.assertRaises(ValueError):
                oml.inject(name, values)
        with self.assertRaises(KeyError):
            oml.inject("none", [])
        for name, schema in (("t", "n:int32"), ("bad name", "n:int32"), ("u", "n"), ("u", "n:int33"), ("u", "n:int32 n:int32"), ("u", "1:int32")):
            with self.subTest(schema=schema), self.assertRaises(ValueError):
                oml.addmp(name, schema)
        self.assertEqual(oml._points["t"].seq, 0)

    def test_resume(self):
        collector = self.collector(until=7)  # closes a connection after 7 tuples
        oml = client(collector.port)
        oml.start()
        for n in range(50):
            oml.inject("t", [n, "x"])
        collector.wait(lambda: collector.tuples)
        oml.addmp("late", "n:int32")
        oml.inject("late", [1])
        self.assertEqual(oml.close(PATIENCE), 0)
        tuples = [t for t in collector.tuples if t[0] == "1"]
        self.assertEqual(tuples, [["1", str(n + 1), str(n), "x"] for n in range(50)])
        self.assertEqual([t for t in collector.tuples if t[0] == "2"], [["2", "1", "1"]])
        self.assertGreater(len(collector.headers), 1)
        self.assertEqual(len({line for h in collector.headers for line in h if "session" in line}), 1)

    def test_drops(self):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        oml = client(port, buffer=200)
        oml.start()
        taken = [oml.inject("t", [n, "x"]) for n in range(100)]
        self.assertEqual(oml.dropped, taken.count(False))
        self.assertTrue(0 < oml.dropped < 100)
        collector = self.collector(port=port)
        collector.wait(lambda: collector.tuples)
        while not oml.inject("t", [100, "after"]):
            pass
        self.assertEqual(oml.close(PATIENCE), 0)
        last = collector.tuples[-1]
        note = [t for t in collector.tuples if t[0] == "0"][-1]
        self.assertEqual(last[2:], ["100", "after"])
        self.assertEqual(int(last[1]), len([t for t in collector.tuples if t[0] == "1"]) + oml.dropped)
        self.assertEqual(note[2:], [".app_t", "dropped", str(oml.dropped)])

    def test_thin(self):
        collector = self.collector()
        oml = client(collector.port)
        oml.start()
        asked = {5: b"thin 3", 6: b"thin 0", 15: b"thin 1"}
        link = module._Link(oml, None)
        for n in range(20):
            with oml._changed:
                link._hear(asked.get(n, b"").split())
            self.assertTrue(oml.inject("t", [n, "x"]))
            with oml._changed:  # the greeting requests all samples: it has arrived when the first tuple is stored
                self.assertTrue(oml._changed.wait_for(lambda: n > 0 or oml._stored, PATIENCE))
        self.assertEqual(oml.close(PATIENCE), 0)
        kept = [0, 1, 2, 3, 4, 5, 8, 11, 14, 15, 16, 17, 18, 19]
        self.assertEqual([t[1:3] for t in collector.tuples if t[0] == "1"], [[str(i + 1), str(n)] for i, n in enumerate(kept)])
        self.assertEqual([t[2:] for t in collector.tuples if t[0] == "0"], [[".app_t", "thinned", "3"], [".app_t", "thinned", "1"]])

    def test_aggregate(self):
        collector = self.collector()
        oml = client(collector.port)
        oml.start()
        link = module._Link(oml, None)
        asked = {1: b"aggregate 3600000", 5: b"aggregate 0", 6: b"aggregate x", 7: b"aggregate 3600000"}
        for n in range(8):
            with oml._changed:
                link._hear(asked.get(n, b"").split())
            self.assertTrue(oml.inject("t", [n * n, "x%d" % n]))
            with oml._changed:
                self.assertTrue(oml._changed.wait_for(lambda: n > 0 or oml._stored, PATIENCE))
        self.assertEqual(oml.close(PATIENCE), 0)
        self.assertEqual([t[1:] for t in collector.tuples if t[0] == "1"], [["1", "0", "x0"], ["2", "25", "x5"], ["3", "36", "x6"]])
        self.assertEqual([t[1:] for t in collector.tuples if t[0] == "2"], [["1", "7.5", "1.0", "16.0", "x1"], ["2", "49.0", "49.0", "49.0", "x7"]])
        notes = [t[2:] for t in collector.tuples if t[0] == "0"]
        self.assertEqual(notes[0], [".", "schema", "2 app_t_aggregate n_avg:double n_min:double n_max:double s:string"])
        self.assertEqual(notes[1:], [[".app_t", "aggregated", n] for n in ("3600000", "0", "3600000")])

    def test_aggregate_ends_by_time(self):
        collector = self.collector()
        oml = client(collector.port)
        oml.start()
        oml.inject("t", [0, "x"])
        with oml._changed:
            self.assertTrue(oml._changed.wait_for(lambda: oml._stored, PATIENCE))
            module._Link(oml, None)._hear([b"aggregate", b"1"])
        oml.inject("t", [5, "y"])
        with collector.changed:
            self.assertTrue(collector.changed.wait_for(lambda: any(t[0] == "2" for t in collector.tuples), PATIENCE))
        oml.close(PATIENCE)

    def test_slow(self):
        collector = self.collector()
        oml = client(collector.port)
        oml.start()
        oml.inject("t", [0, "x"])
        with oml._changed:
            self.assertTrue(oml._changed.wait_for(lambda: oml._stored, PATIENCE))
            module._Link(oml, None)._hear([b"slow", b"500"])
        for n in range(1000):
            oml.inject("t", [n, "x"])
        time.sleep(0.3)
        self.assertLess(len(collector.tuples), 500)
        self.assertEqual(oml.close(PATIENCE), 0)  # which is not delayed
        self.assertEqual(len([t for t in collector.tuples if t[0] == "1"]), 1001)
        self.assertIn([".", "slowed", "500"], [t[2:] for t in collector.tuples])

    def test_collector_without_acknowledgements(self):
        before, module._greeting = module._greeting, 0.01
        self.addCleanup(setattr, module, "_greeting", before)
        collector = self.collector(answers=False)
        oml = client(collector.port)
        oml.start()
        for n in range(3):
            oml.inject("t", [n, "x"])
        self.assertEqual(oml.close(PATIENCE), 0)
        collector.wait(lambda: len(collector.tuples) == 3)

    def test_close_is_bounded(self):
        oml = client(1)
        oml.start()
        oml.inject("t", [1, "x"])
        self.assertEqual(oml.close(0.05), 1)
        with self.assertRaises(RuntimeError):
            oml.inject("t", [1, "x"])

    def test_program_without_close(self):
        collector = self.collector()
        program = "from pillion.oml import OMLBase\no = OMLBase('app', 'd', 's', 'tcp:127.0.0.1:%d')\no.addmp('t', 'n:int32')\no.start()\no.inject('t', [7])" % collector.port
        subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)
        collector.wait(lambda: [t[2] for t in collector.tuples] == ["7"])

    def test_addresses(self):
        for uri, want in (("h", ("h", 3003)), ("h:5", ("h", 5)), ("tcp:h", ("h", 3003)), ("tcp:h:5", ("h", 5)), ("tcp://h:5", ("h", 5)), ("[::1]:5", ("::1", 5))):
            self.assertEqual(module._address(uri), want)
        for uri in ("", "h:x", "tcp:h:70000", "a:b:c"):
            with self.subTest(uri=uri), self.assertRaises(ValueError):
                module._address(uri)

    def test_command_line(self):
        argv = ["program", "--oml-domain", "d", "-v", "--oml-id", "i", "--oml-collect", "tcp:c:9", "rest"]
        oml = OMLBase("app", argv=argv)
        self.assertEqual((oml.domain, oml.sender, oml.omlserver, oml.omlport, argv), ("d", "i", "c", 9, ["program", "-v", "rest"]))


if __name__ == "__main__":
    unittest.main()
