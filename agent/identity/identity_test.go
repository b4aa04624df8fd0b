package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// noc is a server with its own CA. cli/agent, which may import both, tests this package
// with Pillion's server.
type noc struct {
	t     *testing.T
	root  *x509.Certificate
	key   *ecdsa.PrivateKey
	http  *httptest.Server
	life  time.Duration
	bus   string
	fault string // answer with status 400, if set
	body  string // answer with status 200, if set
	calls []string
}

func newNOC(t *testing.T) *noc {
	t.Helper()
	n := &noc{t: t, life: time.Hour, bus: "tls://:4222"}
	n.key = newKey(t)
	n.root = n.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, n.key.Public())
	key := newKey(t)
	leaf := n.sign(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key.Public())
	n.http = httptest.NewUnstartedServer(http.HandlerFunc(n.serve))
	n.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.http.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, n.root.Raw}, PrivateKey: key}},
		ClientAuth:   tls.RequestClientCert,
	}
	n.http.StartTLS()
	t.Cleanup(n.http.Close)
	return n
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (n *noc) sign(template *x509.Certificate, public any) *x509.Certificate {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(n.life)
	parent := n.root
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, n.key)
	if err != nil {
		n.t.Error(err)
		return nil
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		n.t.Error(err)
	}
	return leaf
}

func (n *noc) agent(name string, request []byte) []byte {
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		n.t.Error(err)
		return nil
	}
	return n.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, parsed.PublicKey).Raw
}

func (n *noc) serve(w http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, servicePath)
	n.calls = append(n.calls, method)
	if n.fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, n.fault)
		return
	}
	if n.body != "" {
		fmt.Fprint(w, n.body)
		return
	}
	var question enrolRequest
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		n.t.Error(err)
	}
	var answer any
	switch method {
	case "Enrol":
		answer = enrolResponse{n.agent(question.Name, question.CertificateRequest), n.root.Raw, n.bus}
	case "Renew":
		answer = renewResponse{n.agent(r.TLS.PeerCertificates[0].Subject.CommonName, question.CertificateRequest), n.bus}
	case "Standing":
		answer = standingResponse{Welcome: r.TLS.PeerCertificates[0].Subject.CommonName == "good", Reason: "agent is\nrevoked"}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		n.t.Error(err)
	}
}

func (n *noc) address() string { return n.http.Listener.Addr().String() }

func (n *noc) token() string {
	sum := sha256.Sum256(n.root.Raw)
	return "pj_" + hex.EncodeToString(sum[:]) + "_secret"
}

func (n *noc) options(folder, name string) Options {
	return Options{Server: n.address(), Token: n.token(), Name: name, Folder: folder}
}

func TestEnrol(t *testing.T) {
	n := newNOC(t)
	folder := filepath.Join(t.TempDir(), "pillion")
	if _, err := Open(folder); !errors.Is(err, ErrNotEnrolled) {
		t.Fatalf("before: %v", err)
	}
	i, fresh, err := Enrol(t.Context(), n.options(folder, "good"))
	if err != nil || !fresh {
		t.Fatalf("fresh %t, %v", fresh, err)
	}
	if i.Name() != "good" || i.Server() != n.address() || i.Bus() != "tls://127.0.0.1:4222" {
		t.Errorf("got %q, %q, %q", i.Name(), i.Server(), i.Bus())
	}
	for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, fileName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	calls := len(n.calls)
	for _, name := range []string{"good", ""} {
		again := n.options(folder, name)
		again.Token = "" // no longer required
		if same, fresh, err := Enrol(t.Context(), again); err != nil || fresh || same.Name() != "good" {
			t.Errorf("again as %q: fresh %t, %v", name, fresh, err)
		}
	}
	if len(n.calls) != calls {
		t.Errorf("enrolling again called the server: %q", n.calls)
	}
	if _, _, err := Enrol(t.Context(), n.options(folder, "other")); !errors.Is(err, ErrEnrolled) {
		t.Errorf("under another name: %v", err)
	}
	if _, _, err := Enrol(t.Context(), newNOC(t).options(folder, "good")); !errors.Is(err, ErrEnrolled) {
		t.Errorf("at another server: %v", err)
	}
}

func TestEnrolAfterExpiry(t *testing.T) {
	n := newNOC(t)
	folder := t.TempDir()
	n.life = -time.Minute
	if _, _, err := Enrol(t.Context(), n.options(folder, "a")); err != nil {
		t.Fatal(err)
	}
	n.life = time.Hour
	if i, fresh, err := Enrol(t.Context(), n.options(folder, "")); err != nil || !fresh || i.Name() != "a" {
		t.Errorf("fresh %t, %v", fresh, err)
	}
}

func TestEnrolFaults(t *testing.T) {
	n := newNOC(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	n2 := newNOC(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, row := range []struct {
		name  string
		ctx   context.Context
		edit  func(*Options)
		fault string
		body  string
		want  error
		text  string
	}{
		{name: "no token", edit: func(o *Options) { o.Token = "" }, text: "a join token is required"},
		{name: "user's token", edit: func(o *Options) { o.Token = "pt_abc" }, want: ErrToken, text: "join token"},
		{name: "half a token", edit: func(o *Options) { o.Token = o.Token[:40] }, want: ErrToken, text: "copied completely"},
		{name: "another server's token", edit: func(o *Options) { o.Token = n2.token() }, want: ErrImpostor},
		{name: "wrong token", fault: `{"code":"unauthenticated","message":"token revoked: join"}`, want: ErrToken, text: "token revoked: join"},
		{name: "taken", fault: `{"code":"already_exists"}`, want: ErrTaken, text: "--name"},
		{name: "forbidden", fault: `{"code":"permission_denied","message":"no"}`, want: ErrRefused},
		{name: "other fault", fault: `{"code":"internal","message":"a\u001b[31mb"}`, text: "a [31mb (internal)"},
		{name: "no fault at all", fault: "<html>", text: "is it a Pillion server?"},
		{name: "nonsense", body: "<html>", text: "read the server's response"},
		{name: "empty answer", body: "{}", want: ErrImpostor},
		{name: "plain HTTP", edit: func(o *Options) { o.Server = plain.Listener.Addr().String() }, want: ErrPlain},
		{name: "nobody", edit: func(o *Options) { o.Server = "127.0.0.1:1" }, want: ErrUnreachable, text: "connection refused"},
		{name: "given up", ctx: ended, want: ErrUnreachable, text: "canceled"},
		{name: "address", edit: func(o *Options) { o.Server = "a:b:c" }, text: "want host or host:port"},
		{name: "name", edit: func(o *Options) { o.Name = "../a" }, text: "--name"},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			options := n.options(folder, "a")
			if row.edit != nil {
				row.edit(&options)
			}
			if row.ctx == nil {
				row.ctx = t.Context()
			}
			n.fault, n.body = row.fault, row.body
			_, _, err := Enrol(row.ctx, options)
			if err == nil || row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %v with %q", err, row.want, row.text)
			}
			left, err := os.ReadDir(folder)
			for _, entry := range left {
				if entry.Name() != pendingName { // with which the request is repeated
					t.Errorf("left behind %s", entry.Name())
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewAndStanding(t *testing.T) {
	n := newNOC(t)
	folder := t.TempDir()
	i, _, err := Enrol(t.Context(), n.options(folder, "good"))
	if err != nil {
		t.Fatal(err)
	}
	bad, _, err := Enrol(t.Context(), n.options(t.TempDir(), "bad"))
	if err != nil {
		t.Fatal(err)
	}
	// An hour into two.
	now := time.Now()
	if i.Due(now) || !i.Due(now.Add(21*time.Minute)) || i.Due(now.Add(19*time.Minute)) || !i.Due(now.Add(-2*time.Hour)) { // the last one: it is not valid yet
		t.Error("renewal is due at the wrong time")
	}
	config := i.TLS()
	old, _ := config.GetClientCertificate(nil)
	n.bus = "tls://bus.example:4223"
	if err := i.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, _ := config.GetClientCertificate(nil)
	again, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := again.TLS().GetClientCertificate(nil)
	if old.Leaf.Equal(next.Leaf) || !next.Leaf.Equal(kept.Leaf) || again.Bus() != "tls://bus.example:4223" {
		t.Errorf("not renewed, or not kept; bus %q", again.Bus())
	}
	if err := i.Standing(t.Context()); err != nil {
		t.Errorf("valid: %v", err)
	}
	if err := bad.Standing(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "agent is revoked") {
		t.Errorf("revoked: %v", err)
	}
	for _, body := range []string{"{}", `{"certificate":"AAAA"}`} {
		n.body = body
		if err := i.Renew(t.Context()); err == nil {
			t.Errorf("answer %s: no error", body)
		}
	}
	if kept, _ := config.GetClientCertificate(nil); !kept.Leaf.Equal(next.Leaf) {
		t.Error("a failed renewal changed the identity")
	}
	list := filepath.Join(folder, revocationsName)
	if err := os.MkdirAll(filepath.Join(list, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.body = `{"welcome":true,"revocations":"AAAA"}`
	if err := i.Standing(t.Context()); err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "save list of revocations "+list) {
		t.Errorf("a list that cannot be saved: %v", err)
	}
	n.fault = `{"code":"unauthenticated"}`
	if err := i.Standing(t.Context()); !errors.Is(err, ErrRefused) || errors.Is(err, ErrToken) {
		t.Errorf("response without a certificate: %v", err)
	}
}

func TestImpostorAfterEnrolment(t *testing.T) {
	n, impostor := newNOC(t), newNOC(t)
	i, _, err := Enrol(t.Context(), n.options(t.TempDir(), "good"))
	if err != nil {
		t.Fatal(err)
	}
	i.kept.Server = impostor.address()
	if err := i.Standing(t.Context()); !errors.Is(err, ErrImpostor) {
		t.Errorf("standing: %v", err)
	}
	if err := i.Renew(t.Context()); !errors.Is(err, ErrImpostor) || len(impostor.calls) != 0 {
		t.Errorf("renew: %v, calls %q", err, impostor.calls)
	}
}

func TestAgentCannotActAsServer(t *testing.T) {
	n := newNOC(t)
	i, _, err := Enrol(t.Context(), n.options(t.TempDir(), "good"))
	if err != nil {
		t.Fatal(err)
	}
	own, _ := i.TLS().GetClientCertificate(nil)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{own.Leaf}}
	if err := i.TLS().VerifyConnection(state); !errors.Is(err, ErrImpostor) {
		t.Errorf("got %v", err)
	}
}

// TestSeveralServers: any server of a fleet enrols a host and renews its certificate; one that is
// another server is an error, not a reason to ask the next.
func TestSeveralServers(t *testing.T) {
	n, impostor := newNOC(t), newNOC(t)
	folder, gone := t.TempDir(), "127.0.0.1:1"
	options := n.options(folder, "good")
	options.Server = gone + ", " + n.address()
	i, fresh, err := Enrol(t.Context(), options)
	if err != nil || !fresh || i.Server() != gone+","+n.address() || i.Bus() != "tls://127.0.0.1:4222" {
		t.Fatalf("fresh %t, %v; %q, %q", fresh, err, i.Server(), i.Bus())
	}
	if err := errors.Join(i.Renew(t.Context()), i.Standing(t.Context())); err != nil {
		t.Error(err)
	}
	for servers, want := range map[string]error{
		n.address() + ",noc2:1": nil, n.address(): nil, impostor.address(): ErrEnrolled, "noc2:1,noc3:1": ErrEnrolled,
	} {
		options.Server = servers
		again, fresh, err := Enrol(t.Context(), options)
		if !errors.Is(err, want) || fresh || err == nil && again.Server() != servers {
			t.Errorf("again at %s: fresh %t, %v", servers, fresh, err)
		}
	}
	options = n.options(t.TempDir(), "other")
	options.Server = impostor.address() + "," + n.address()
	if _, _, err := Enrol(t.Context(), options); !errors.Is(err, ErrImpostor) {
		t.Errorf("another server first: %v", err)
	}
	options.Server = gone + ",127.0.0.1:2"
	if _, _, err := Enrol(t.Context(), options); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "none of 2 servers responds") {
		t.Errorf("nobody: %v", err)
	}
}

func TestServerAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"a, b:1,a:8470": "a:8470,b:1", "a": "a:8470", "a,": "", ",": "", "a,b:0": "", strings.Repeat("a,", 20) + "a": "a:8470",
	} {
		if got, err := serverAddresses(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	var many []string
	for n := range serversMax + 1 {
		many = append(many, fmt.Sprintf("s%d", n))
	}
	if _, err := serverAddresses(strings.Join(many, ",")); err == nil {
		t.Error("too many servers are accepted")
	}
}

func TestServerAddress(t *testing.T) {
	for text, want := range map[string]string{
		"noc": "noc:8470", "noc.example:1": "noc.example:1", "10.0.0.1": "10.0.0.1:8470", "::1": "[::1]:8470",
		"[::1]": "[::1]:8470", "[::1]:99": "[::1]:99", "https://noc:8443/": "noc:8443", "fe80::1%eth0": "",
		"": "", "http://noc": "", "noc:": "", "noc:0": "", "noc:70000": "", "noc/path": "", "a b": "", "user@noc": "", "a:b:c": "",
	} {
		got, err := serverAddress(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestBusURL(t *testing.T) {
	for text, want := range map[string]string{
		"tls://:4222": "tls://noc:4222", "tls://bus:1": "tls://bus:1", "tls://b1:1,tls://b2:2, tls://:3": "tls://b1:1,tls://b2:2,tls://noc:3", "tls://b1:1,": "", "tls://[::1]:1": "tls://[::1]:1", "": "",
		"nats://:4222": "", "tls://bus": "", "tls://u:p@bus:1": "", "tls://bus:1/x": "", "://": "",
	} {
		if _, err := ParseBus(text); (err == nil) != (want != "" && !strings.Contains(text, "//:")) {
			t.Errorf("in a configuration, %q: %v", text, err)
		}
		if got, err := busURL(text, "noc:8470"); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzServerAddress(f *testing.F) {
	f.Add("[::1]:99")
	f.Add("https://noc/")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := serverAddress(text)
		if err != nil {
			return
		}
		if again, err := serverAddress(got); err != nil || again != got {
			t.Errorf("%q became %q and that %q, %v", text, got, again, err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("pj_" + strings.Repeat("ab", 32) + "_secret")
	f.Add("pt_x")
	f.Fuzz(func(t *testing.T, token string) {
		sum, err := parseToken(token)
		if err == nil && !strings.HasPrefix(strings.ToLower(token), "pj_"+hex.EncodeToString(sum[:])+"_") {
			t.Errorf("%q gave %x", token, sum)
		}
	})
}

// No content of the file or of a response causes a crash.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"name":"a","server":"noc:1","certificate":"","key":"","authority":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if new(Identity).load(text) == nil {
			t.Errorf("%q was accepted as an identity", text)
		}
	})
}

func FuzzParseResponse(f *testing.F) {
	f.Add(200, []byte(`{"certificate":"AAAA","authority":"AAAA","bus":"tls://:1"}`))
	f.Add(401, []byte(`{"code":"unauthenticated","message":"no"}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		var answer enrolResponse
		err := parseResponse(status, text, &answer)
		if (err == nil) && status != http.StatusOK {
			t.Errorf("status %d is not an error", status)
		}
		if err != nil && strings.ContainsAny(strings.TrimPrefix(err.Error(), "read the server's response"), "\x1b\r\n") {
			t.Errorf("control characters in %q", err)
		}
	})
}

// TestOther: an agent whose folder has no identity says so if the folder of the service, or of a start by hand, has one.
func TestOther(t *testing.T) {
	with, without, another := t.TempDir(), t.TempDir(), t.TempDir()
	for _, folder := range []string{with, another} {
		if err := os.WriteFile(filepath.Join(folder, fileName), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, own string
		folders   []string
		want      string
	}{
		{"none has one", without, []string{without, filepath.Join(without, "absent")}, ""},
		{"the other has one", without, []string{with, without}, with},
		{"its own is absent", filepath.Join(without, "absent"), []string{without, with}, with},
		{"its own has one", with, []string{without, with}, ""},
		{"both have one", with, []string{another, with}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Other(test.own, test.folders...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
