"""Connections: where address, token and certificate come from, and where a token never goes."""

import http.server
import io
import json
import os
import ssl
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import pandas as pd
import pyarrow as pa

import pillion
from pillion.analysis import connection, frames
from pillion.analysis.connection import ServerError, parse_server


def arrow(columns):
    """An Arrow IPC stream as the server sends it, with units."""
    fields = [pa.field(name, values.type, metadata={"unit": "ns" if name.endswith("_ns") else "", "doc": "about " + name}) for name, values in columns.items()]
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.server.asked.append((self.path, self.headers.get("Authorization"), self.rfile.read(length)))
        path, _, query = self.path.partition("?")
        named = "%s?%s" % (path, query.split("&")[0])  # of a certain stream
        status, body, headers = self.server.answers.get(named) or self.server.answers.get(path, (404, b'{"message":"no such stream"}', {}))
        self.send_response(status)
        for pair in headers.items():
            self.send_header(*pair)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Secure(unittest.TestCase):
    """A server on loopback with a certificate of its own authority."""

    authority, server_name, names = "authority", "localhost", "DNS:localhost,IP:127.0.0.1"

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        path = lambda name: os.path.join(cls.folder, name)  # noqa: E731
        run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=cls.folder)  # noqa: E731
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=" + cls.authority, "-days", "2")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key", "-out", "csr", "-subj", "/CN=" + cls.server_name)
        with open(path("ext"), "w", encoding="utf-8") as file:
            file.write("subjectAltName=%s\n" % cls.names)
        run("x509", "-req", "-in", "csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", "crt", "-extfile", "ext", "-days", "2")
        with open(path("chain"), "wb") as chain:
            for name in ("crt", "ca.crt"):
                with open(path(name), "rb") as file:
                    chain.write(file.read())
        with open(path("ca.crt"), encoding="utf-8") as file:
            import hashlib

            cls.fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(file.read())).hexdigest()
        with open(path("admin.token"), "w", encoding="utf-8") as file:
            file.write("secret-of-the-operator\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path("chain"), path("key"))
        cls.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.http.socket = context.wrap_socket(cls.http.socket, server_side=True)
        threading.Thread(target=cls.http.serve_forever, args=(0.05,), daemon=True).start()
        cls.addClassCleanup(cls.http.server_close)
        cls.addClassCleanup(cls.http.shutdown)
        cls.address = "localhost:%d" % cls.http.server_address[1]
        cls.ca = path("ca.crt")

    def setUp(self):
        self.http.asked, self.http.answers = [], {}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PILLION_")}
        home = self.enterContext(tempfile.TemporaryDirectory())
        clean.update(HOME=home, XDG_CONFIG_HOME=home, PILLION_DATA=home)
        self.home = home
        self.enterContext(mock.patch.dict(os.environ, clean, clear=True))

    def configure(self, **settings):
        os.makedirs(os.path.join(self.home, "pillion"))
        with open(os.path.join(self.home, "pillion", "config.yaml"), "w", encoding="utf-8") as file:
            file.write("".join("%s: %s\n" % pair for pair in settings.items()))

    def token_sent(self, **options):
        self.http.answers["/export"] = (200, arrow({"a": pa.array([1])}), {})
        connection.connect(options.pop("server", self.address), **options).stream("flows")
        return self.http.asked[-1][1]


class Renamed(Secure):
    """A pillion-server that is reached by a name that is not in its certificate."""

    authority, server_name, names = "Pillion authority 1", "pillion server", "DNS:elsewhere"

    def test_fingerprint_of_its_authority_suffices(self):
        self.assertEqual(self.token_sent(token_file=os.path.join(self.folder, "admin.token"), ca_fingerprint=self.fingerprint), "Bearer secret-of-the-operator")

    def test_an_authority_in_a_file_needs_the_name(self):
        with self.assertRaises(ServerError):
            self.token_sent(token_file=os.path.join(self.folder, "admin.token"), ca=self.ca)
        self.assertEqual(self.http.asked, [])


class Node(Renamed):
    """A node of the bus has a certificate of the same authority, and is no server."""

    server_name = "node.pillion"

    def test_fingerprint_of_its_authority_suffices(self):
        with self.assertRaisesRegex(ServerError, "not a pillion-server's"):
            self.token_sent(token_file=os.path.join(self.folder, "admin.token"), ca_fingerprint=self.fingerprint)
        self.assertEqual(self.http.asked, [])


class Server(Secure):
    def test_token_from_the_environment(self):
        os.environ.update(PILLION_TOKEN="t1", PILLION_CA=self.ca)
        self.assertEqual(self.token_sent(), "Bearer t1")

    def test_token_and_fingerprint_from_the_configuration(self):
        self.configure(server=self.address, token='"t2"', ca_fingerprint=self.fingerprint)
        self.assertEqual(self.token_sent(server=None), "Bearer t2")

    def test_token_of_another_server_is_not_sent(self):
        self.configure(server="noc.example:8470", token="t3", ca=self.ca)
        with self.assertRaisesRegex(ServerError, "no token"):
            self.token_sent()
        self.assertEqual(self.http.asked, [])

    def test_operator_on_the_servers_machine(self):
        os.environ["PILLION_DATA"] = self.folder
        self.assertEqual(self.token_sent(), "Bearer secret-of-the-operator")

    def test_untrusted_certificate(self):
        for options in ({}, {"PILLION_CA_FINGERPRINT": "0" * 64}):
            with self.subTest(options), mock.patch.dict(os.environ, {"PILLION_TOKEN": "t4", **options}):
                with self.assertRaises((ServerError, ssl.SSLError)):
                    self.token_sent()
        self.assertEqual(self.http.asked, [])

    def test_no_redirect_is_followed(self):
        os.environ.update(PILLION_TOKEN="t5", PILLION_CA=self.ca)
        self.http.answers["/export"] = (302, b"", {"Location": "https://%s/other" % self.address})
        with self.assertRaises(ServerError):
            connection.connect(self.address).stream("flows")
        self.assertEqual(len(self.http.asked), 1)

    def test_errors_never_repeat_the_token(self):
        os.environ.update(PILLION_TOKEN="top secret", PILLION_CA=self.ca)
        with self.assertRaises(ServerError) as caught:
            connection.connect(self.address)
        self.assertNotIn("top secret", str(caught.exception))
        self.assertNotIn("t6", repr(connection.Client("h", 1, "t6", None, 1)))

    def test_addresses(self):
        for text, want in [("noc", ("noc", 8470)), ("noc:1", ("noc", 1)), ("https://noc", ("noc", 8470)), ("::1", ("::1", 8470)), ("[::1]:2", ("::1", 2))]:
            self.assertEqual(parse_server(text), want)
        for wrong in ("http://noc", "ftp://noc", "u:p@noc", "noc:x", "https://noc/path", ""):
            with self.subTest(wrong), self.assertRaises(ServerError):
                parse_server(wrong)

    def test_streams(self):
        os.environ.update(PILLION_TOKEN="t7", PILLION_CA=self.ca, PILLION_SERVER=self.address)
        times = pa.array([2, 1], pa.timestamp("ns", "UTC"))
        self.http.answers["/export"] = (200, arrow({"time": times, "delay_p50_ns": pa.array([7, 8])}), {})
        rows = pillion.flows(session="web", destination="b", start="2026-01-01", columns=["time", "delay_p50_ns"])
        self.assertEqual(list(rows["delay_p50_ns"]), [8, 7], "oldest first")
        self.assertEqual(rows.attrs["units"]["delay_p50_ns"], "ns")
        self.assertEqual(rows.attrs["docs"]["time"], "about time")
        path = self.http.asked[0][0]
        for part in ("stream=flows", "format=arrow", "where.session=web", "where.agent=b", "from=2026-01-01T00%3A00%3A00Z", "columns=time%2Cdelay_p50_ns"):
            self.assertIn(part, path)

    def test_windows(self):
        os.environ.update(PILLION_TOKEN="t8", PILLION_CA=self.ca, PILLION_SERVER=self.address)
        window = {"startMs": "1767225600000", "packets": "10", "expected": "20", "lost": "5", "delay": {"count": "10", "p50Ns": 1500.5}, "clockErrorNs": "NaN"}
        self.http.answers["/pillion.v1.FlowService/Windows"] = (200, json.dumps({"windows": [window], "stepMs": "1000", "sampled": 1}).encode(), {})
        table = pillion.windows("a", "b", points=10)
        self.assertEqual(json.loads(self.http.asked[0][2]), {"selection": {"source": "a", "destination": "b"}, "points": 10})
        row = table.iloc[0]
        self.assertEqual((row["start"], row["loss"], row["delay_p50_ns"]), (pd.Timestamp("2026-01-01", tz="UTC"), 0.25, 1500.5))
        self.assertTrue(pd.isna(row["ipdv_p50_ns"]) and pd.isna(row["clock_error_ns"]))
        self.assertEqual(table.attrs["step_ms"], 1000)

    def test_no_such_stream(self):
        os.environ.update(PILLION_TOKEN="t9", PILLION_CA=self.ca, PILLION_SERVER=self.address)
        with self.assertRaisesRegex(LookupError, "no such stream"):
            pillion.hops()

    def experiment_rows(self):
        return {"experiment": pa.array(["e"] * 5), "hash": pa.array(["h"] * 5), "block": pa.array([0, 0, 1, 1, 1]), "position": pa.array([0, 1, 0, 1, 1]),
                "factor_mark_by": pa.array(["none", "both", "both", "none", "none"]), "measure_rate": pa.array([100.0, 95.0, 96.0, 101.0, 101.0])}  # fmt: skip

    def test_an_experiment(self):
        """By the stream's name; a run that was reported twice counts once."""
        os.environ.update(PILLION_TOKEN="t10", PILLION_CA=self.ca)
        self.http.answers["/export?stream=experiment_runs"] = (200, arrow(self.experiment_rows()), {})
        x = pillion.experiment("e", server=self.address, response={"log_ratio": "rate", "to": {"mark_by": "none"}})
        self.assertAlmostEqual(x.effects()["ratio"][0], (0.95 * 96 / 101) ** 0.5)
        self.assertEqual(len(x.runs), 4)

    def test_an_experiment_with_its_file(self):
        """The newest file that fits the rows says what the effects refer to, and the names."""
        os.environ.update(PILLION_TOKEN="t11", PILLION_CA=self.ca)
        file = "experiment: e\ndescription: Why?\nfactors: {mark-by: [none, both]}\nmeasures: {rate: {field: r, unit: 1/s}}\n"
        file += "response: {log_ratio: rate, to: {mark-by: none}}\ntargets: [{where: mark-by=both, within: 50%}]\nstop: {half_width: 2%}\n"
        notes = {"time": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")), "value": pa.array([file, "factors: {other: [a]}\nmeasures: {rate: {}}", "["])}
        self.http.answers["/export?stream=experiment_runs"] = (200, arrow(self.experiment_rows()), {})
        self.http.answers["/export?stream=oml_metadata"] = (200, arrow(notes), {})
        x = pillion.experiment("e", server=self.address)
        self.assertEqual((x.design.question, x.source, list(x.design.factors)), ("Why?", file, ["mark-by"]))
        self.assertEqual(x.design.targets[0].within, 0.5)
        self.assertAlmostEqual(x.effects()["ratio"][0], (0.95 * 96 / 101) ** 0.5)
        self.assertTrue(any("where.experiment=e" in asked[0] for asked in self.http.asked))

    def test_an_experiment_whose_runner_reported_it(self):
        """Its streams are the streams of its domain; designs with other factors have others."""
        keys = {"hash": ["h"] * 2, "block": [0, 1], "position": [0, 0], "attempt": [1, 1]}
        streams = {
            "oml_tables": pd.DataFrame({"table_name": ["experiment_runs", "experiment_runs_2", "experiment_intervals", "other"], "stream": ["a", "b", "c", "d"]}),
            "a": pd.DataFrame({**keys, "factor_x": ["1", "2"]}), "b": pd.DataFrame({**keys, "factor_y": ["1", "2"]}),
            "c": pd.DataFrame({**keys, "interval": [0, 0], "field": ["rate", "lost"], "value": [5.0, 6.0]}),
        }  # fmt: skip
        client = mock.Mock()
        client.stream.side_effect = lambda name, where: streams[name]
        runs, intervals = frames.read_server(client, "e")
        self.assertEqual((len(runs), {"factor_x", "factor_y"} <= set(runs.columns)), (4, True))
        self.assertEqual(intervals[intervals["block"] == 0]["rate"].tolist(), [5.0])
        self.assertEqual(intervals[intervals["block"] == 1]["lost"].tolist(), [6.0])


    def test_errors_name_what_there_is(self):
        """A name may belong to a folder that is elsewhere, or to another experiment."""
        os.environ["PILLION_SERVER"] = self.address
        with self.assertRaisesRegex(OSError, "read experiment 'overhead-results': no such folder or file here, and no server: .*no token"):
            pillion.experiment("overhead-results")
        client = mock.Mock()
        client.stream.side_effect = lambda name, where=None: pd.DataFrame({"domain": ["b", "a", "o"], "table_name": ["experiment_runs", "experiment_runs_2", "x"], "stream": "-"}) \
            if not where else pd.DataFrame()  # fmt: skip
        with self.assertRaisesRegex(LookupError, "read experiment 'dce': the server has no run of it; it has runs of a, b"):
            frames.read_server(client, "dce")
        client.stream.side_effect = LookupError("no such stream")
        with self.assertRaisesRegex(LookupError, "'dce': the server has no run of it; runners report with --collector .no such stream"):
            frames.read_server(client, "dce")


class Files(unittest.TestCase):
    def test_other_rows_and_missing_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/runs.arrow"
            with open(path, "wb") as file:
                file.write(arrow({"time": pa.array([1], pa.timestamp("ns", "UTC")), "null_arm": pa.array([True])}))
            with self.assertRaisesRegex(ValueError, "runs of an experiment: use pillion.experiment"):
                pillion.flows(path)
        for name in ("absent.parquet", "absent.arrow"):
            with self.assertRaises(FileNotFoundError):
                pillion.flows(name)

    def test_exported_files(self):
        data = {"time": pa.array([1, 2], pa.timestamp("ns", "UTC")), "session": pa.array(["a", "b"]), "rtt_ns": pa.array([5, 6])}
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/hops.arrow", "wb") as file:
                file.write(arrow(data))
            with pa.ipc.open_stream(io.BytesIO(arrow(data))) as reader:
                import pyarrow.parquet

                pyarrow.parquet.write_table(reader.read_all(), folder + "/hops.parquet")
            for name in ("hops.arrow", "hops.parquet"):
                rows = pillion.hops(os.path.join(folder, name), session="b")
                self.assertEqual(list(rows["rtt_ns"]), [6])
                self.assertEqual(rows.attrs["units"]["rtt_ns"], "ns")
                self.assertEqual(len(pillion.hops(os.path.join(folder, name), start="1970-01-01T00:00:00.000000002")), 1)

    def test_quantile_of_merged_histograms(self):
        from pillion.analysis.streams import quantile

        rows = pd.DataFrame({"delay_bounds_ns": [[10, 20], [20]], "delay_counts": [[9, 1], [90]], "delay_offsets_ns": [[0, 0], [0]],
                             "delay_min_ns": [10, 20], "delay_max_ns": [20, 20]})  # fmt: skip
        self.assertEqual(quantile(rows, 0.05), 10)
        self.assertEqual(quantile(rows, 0.5), 20)


if __name__ == "__main__":
    unittest.main()
