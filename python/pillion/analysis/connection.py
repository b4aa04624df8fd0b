"""A server's rows, with address, token and certificates found as the command line finds them.

The token is never an argument of a program: it comes from the environment, a file, or the
configuration that `pillion login` wrote. It goes over TLS only, to a server whose
certificate is verified.
"""

import hashlib
import ipaddress
import json
import os
import pathlib
import ssl
import urllib.error
import urllib.parse
import urllib.request

from pillion.analysis import frames

DEFAULT_PORT = 8470
TIMEOUT = 30.0
# Where `pillion-agent lab up` leaves tokens of servers in labs, by forwarded port.
LAB_TOKENS = "/run/pillion/forward"


class ServerError(OSError):
    """A server that cannot be asked, or what it answered."""


def connect(server=None, token_file=None, ca=None, ca_fingerprint=None, timeout=TIMEOUT):
    """A client of a server: HOST, HOST:PORT or https://HOST:PORT.

    What is not given is taken from PILLION_SERVER, PILLION_TOKEN, PILLION_TOKEN_FILE,
    PILLION_CA and PILLION_CA_FINGERPRINT, then from the configuration file; on the server's
    own machine, or a lab's, the administrator's token is used if this user can read it.
    """
    if isinstance(server, Client):
        return server
    environment, config = os.environ, _configuration()
    address = server or environment.get("PILLION_SERVER") or config.get("server") or "localhost"
    host, port = parse_server(address)
    # Settings that the file has for one server, above all its token, go to no other.
    ours = config if parse_server(config.get("server") or "localhost") == (host, port) else {}
    ca = ca or environment.get("PILLION_CA")
    ca_fingerprint = ca_fingerprint or environment.get("PILLION_CA_FINGERPRINT")
    if not ca and not ca_fingerprint:
        ca, ca_fingerprint = ours.get("ca"), ours.get("ca_fingerprint")
    path = token_file or (None if environment.get("PILLION_TOKEN") else environment.get("PILLION_TOKEN_FILE"))
    if path:
        token = _read_token(path)
    elif environment.get("PILLION_TOKEN"):
        token = _check_token(environment["PILLION_TOKEN"], "PILLION_TOKEN")
    elif ours.get("token"):
        token = _check_token(ours["token"], "the token of the configuration file")
    elif ours.get("token_file"):
        path = ours["token_file"]
        token = _read_token(path)
    else:
        token = None
    if is_loopback(host) and not (ca or ca_fingerprint) or token is None and is_loopback(host):
        for candidate in [path] if token else _admin_tokens(port):
            if candidate and os.access(os.path.expanduser(candidate), os.R_OK):
                token = token or _read_token(candidate)
                beside = pathlib.Path(os.path.expanduser(candidate)).resolve().parent / "ca.crt"
                if not (ca or ca_fingerprint) and beside.exists():
                    ca = str(beside)
                break
    if not token:
        raise ServerError("connect to %s: no token: use `pillion login %s`, PILLION_TOKEN_FILE or token_file" % (host, address))
    return Client(host, port, token, _trust(host, port, ca, ca_fingerprint, timeout), timeout)


def parse_server(text):
    """Host and port of an address."""
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "https", text
    if scheme != "https":
        raise ServerError("read server %r: a token is not sent without TLS: leave %s:// out" % (text, scheme))
    if "@" in rest:
        raise ServerError("read server: user name or password in the address")
    try:
        if ipaddress.ip_address(rest).version == 6:
            rest = "[%s]" % rest
    except ValueError:
        pass
    try:
        parsed = urllib.parse.urlsplit("//" + rest)
        port = parsed.port or DEFAULT_PORT
    except ValueError:
        raise ServerError("read server %r: use HOST, HOST:PORT or https://HOST:PORT" % text) from None
    if not parsed.hostname or parsed.path.strip("/") or parsed.query or parsed.fragment:
        raise ServerError("read server %r: use HOST, HOST:PORT or https://HOST:PORT" % text)
    return parsed.hostname, port


def is_loopback(host):
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def timestamp(value):
    """A time as the API writes it."""
    return moment(value).isoformat().replace("+00:00", "Z")


def moment(value):
    """A time in UTC, of a Timestamp or of a text that pandas reads."""
    import pandas as pd

    time = pd.Timestamp(value)
    return time.tz_localize("UTC") if time.tz is None else time.tz_convert("UTC")


def _configuration():
    """The settings in the file of the command line; its few lines are `key: value`."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = os.environ.get("PILLION_CONFIG") or os.path.join(folder, "pillion", "config.yaml")
    settings = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, colon, value = line.partition(":")
                value = value.strip()
                if colon and not line.startswith(("#", " ", "\t")):
                    if value[:1] in "\"'" and value[-1:] == value[:1]:
                        value = value[1:-1]
                    settings[key.strip()] = value
    except FileNotFoundError:
        if os.environ.get("PILLION_CONFIG"):
            raise
    if settings.get("ca"):
        settings["ca"] = os.path.expanduser(settings["ca"])
    return settings


def _admin_tokens(port):
    folder = os.environ.get("PILLION_DATA") or "/var/lib/pillion-server"
    return [os.path.join(LAB_TOKENS, "%d.token" % port), os.path.join(folder, "admin.token")]


def _read_token(path):
    with open(os.path.expanduser(path), encoding="utf-8") as file:
        return _check_token(file.read(), path)


def _check_token(text, where):
    """A token that can stand in a header; errors do not repeat it."""
    token = text.strip()
    if not token or any(not " " < c <= "~" for c in token):
        raise ServerError("read token: %s is empty or contains spaces or non-ASCII characters" % where)
    return token


def _trust(host, port, ca, fingerprint, timeout):
    """TLS that trusts the given authority only, or the system's without one."""
    if not fingerprint:
        return ssl.create_default_context(cafile=ca)
    want = fingerprint.strip().lower().removeprefix("sha256:").replace(":", "")
    # The authority is the last of the chain. It is fetched unverified, compared, and then
    # the only one that is trusted.
    look = ssl.create_default_context()
    look.check_hostname, look.verify_mode = False, ssl.CERT_NONE
    import socket

    with socket.create_connection((host, port), timeout) as plain, look.wrap_socket(plain, server_hostname=host) as secure:
        chain = getattr(secure, "get_unverified_chain", None) or secure._sslobj.get_unverified_chain
        for certificate in chain() or []:
            der = certificate if isinstance(certificate, bytes) else certificate.public_bytes(2)  # _ssl.ENCODING_DER
            if hashlib.sha256(der).hexdigest() == want:
                context = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(der))
                if any(text.startswith("Pillion authority ") for text in _names(context.get_ca_certs()[0])):
                    context.check_hostname, context.sslsocket_class = False, _ServerSocket
                return context
    raise ServerError("verify %s: no certificate of the server has the fingerprint %s" % (host, want))


def _names(certificate):
    return [value for part in certificate["subject"] for key, value in part if key == "commonName"]


class _ServerSocket(ssl.SSLSocket):
    """TLS to a server that its own authority certifies: the name by which it is reached does not matter."""

    def do_handshake(self, *arguments):
        super().do_handshake(*arguments)
        if "pillion server" not in _names(self.getpeercert()):
            raise ssl.SSLCertVerificationError("the certificate is not a pillion-server's")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token belongs to this server only."""

    def redirect_request(self, *_):
        return None


class Client:
    """A client of one server."""

    def __init__(self, host, port, token, context, timeout):
        self.host, self.port = host, port
        self._token, self._timeout = token, timeout
        handlers = [urllib.request.HTTPSHandler(context=context), _NoRedirect()]
        if is_loopback(host):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self):
        return "<client of %s:%d>" % (self.host, self.port)

    def _request(self, path, body=None):
        name = "[%s]" % self.host if ":" in self.host else self.host
        request = urllib.request.Request("https://%s:%d%s" % (name, self.port, path), data=body)
        request.add_header("Authorization", "Bearer " + self._token)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            said = error.read(65536).decode(errors="replace").strip()
            try:
                said = json.loads(said).get("message", said)
            except ValueError:
                pass
            if error.code == 404:
                raise LookupError("ask %s: %s" % (self.host, said)) from None
            raise ServerError("ask %s: %s" % (self.host, said or error)) from None
        except urllib.error.URLError as error:
            raise ServerError("reach %s:%d: %s" % (self.host, self.port, error.reason)) from None

    def stream(self, name, start=None, end=None, columns=None, where=None, limit=None):
        """Rows of a stream as a DataFrame, sent as Arrow. Role: viewer.

        start and end are times, as Timestamps or as texts that pandas reads; where is
        {column: value}.
        """
        words = [("stream", name), ("format", "arrow")]
        for key, bound in (("from", start), ("to", end)):
            if bound is not None:
                words.append((key, timestamp(bound)))
        if columns:
            words.append(("columns", ",".join(columns)))
        words += [("where." + column, str(value)) for column, value in (where or {}).items()]
        if limit:
            words.append(("limit", str(limit)))
        return frames.read_arrow(self._request("/export?" + urllib.parse.urlencode(words)))

    def call(self, procedure, **message):
        """The answer of a call of the API that is no stream, such as SessionService/ListSessions."""
        return json.loads(self._request("/pillion.v1." + procedure, json.dumps(message).encode()))
