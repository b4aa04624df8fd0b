package loader

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pillion.dev/agent/policy"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// pair is the two ends of a link.
func pair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("unix", t.TempDir()+"/link")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if far, err = net.Dial("unix", listener.Addr().String()); err == nil {
		near, err = listener.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// parts is a Loader with the other part of the agent.
type parts struct {
	server *Server
	remote *Remote
	shelf  *shelf
	served chan error
}

func newParts(t *testing.T, options Options) *parts {
	t.Helper()
	near, far := pair(t)
	p := &parts{shelf: newShelf(), served: make(chan error, 1)}
	var err error
	if p.server, err = NewServer(near, "welcome", func() {}); err != nil {
		t.Fatal(err)
	}
	var setup string
	if p.remote, err = Connect(far, &setup, func() {}); err != nil || setup != "welcome" {
		t.Fatalf("setup %q, %v", setup, err)
	}
	options.Sink, options.Log, options.Interval = p.server.Sink, slog.New(slog.DiscardHandler), time.Hour
	go func() { p.served <- p.server.Run(t.Context(), func() *Loader { return New(options) }) }()
	if err := p.remote.Start(func(point string, _ measure.Sample) { p.shelf.add(point) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.remote.Disconnect()
		select {
		case err := <-p.served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(hang.Limit):
			t.Error("the privileged part does not end")
		}
	})
	return p
}

// TestStopBeforeStart: the unprivileged part is told to end although it has not started the Loader, and
// also learns so that the other part is gone.
func TestStopBeforeStart(t *testing.T) {
	for name, stop := range map[string]func(*Server, net.Conn){
		"asked to": func(server *Server, _ net.Conn) { server.Stop() },
		"alone":    func(_ *Server, near net.Conn) { near.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			server, err := NewServer(near, "welcome", func() {})
			if err != nil {
				t.Fatal(err)
			}
			var setup string
			stopped := make(chan struct{}, 2)
			remote, err := Connect(far, &setup, func() { stopped <- struct{}{} })
			if err != nil {
				t.Fatal(err)
			}
			stop(server, near)
			<-stopped
			if err := remote.Disconnect(); err != nil && !errors.Is(err, errClosed) {
				t.Error(err)
			}
		})
	}
}

// TestLink: requests are answered, rows arrive, and the last ones before Close returns.
func TestLink(t *testing.T) {
	p := newParts(t, Options{ReportClock: true})
	text, err := p.remote.Serve(t.Context(), []byte(`{"apply":{"revision":7}}`))
	if err != nil || string(text) != "{}" {
		t.Errorf("answer %q, %v", text, err)
	}
	p.remote.Pulse([]byte(`{"revision":7}`))
	if _, err := p.remote.Serve(t.Context(), []byte(`{"trace":{"address":"::1","more":1}}`)); err == nil || !strings.Contains(err.Error(), "more") {
		t.Errorf("unknown field: %v", err)
	}
	status, err := p.remote.Status()
	if err != nil || status.Revision != 7 || status.Usage == nil || status.Usage.Memory == 0 {
		t.Errorf("status %+v, %v", status, err)
	}
	for range 1000 {
		p.server.Sink(&measure.Clock, measure.Sample{measure.BoolValue(true)})
	}
	if err := p.remote.Close(); err != nil {
		t.Error(err)
	}
	if n := p.shelf.of("clock"); n < 1000 {
		t.Errorf("%d rows when all tasks have ended", n)
	}
}

// TestToken: the other part gets the token as the file has it now, and none without the setting.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	p := newParts(t, Options{TokenFile: file})
	if _, err := p.remote.Token(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without a file: %v", err)
	}
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := p.remote.Token(); err != nil || string(token) != content {
			t.Errorf("token %q, %v, want %q", token, err, content)
		}
	}
	if err := os.WriteFile(file, make([]byte, tokenMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.remote.Token(); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("long file: %v", err)
	}
	if token, err := newParts(t, Options{}).remote.Token(); err == nil {
		t.Errorf("token %q although none is configured", token)
	}
}

// TestOtherPartCannotOverridePolicy: whatever the unprivileged part sends, the privileged one
// enforces the policy of the host.
func TestOtherPartCannotOverridePolicy(t *testing.T) {
	forbidden := policy.Default()
	forbidden.Sending.Allowed = false
	p := newParts(t, Options{Policy: forbidden})
	request, err := json.Marshal(session.Request{Apply: &session.Assignment{Revision: 1, Points: []session.PointTask{{
		Session: "s", Point: "send", Peers: []session.Peer{{Agent: "b", Addresses: []string{"192.0.2.1"}}},
		Options: map[string]string{"pattern": "cbr", "rate": "10", "size": "100"}, Interval: session.Duration(time.Second), Lease: session.Forever,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.remote.Serve(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(hang.Limit)
	for {
		status, err := p.remote.Status()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", status, err)
		}
		if len(status.Tasks) == 1 && status.Tasks[0].Error != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ask asks the remote part, as a server would.
func (p *parts) ask(t *testing.T, r session.Request) session.Reply {
	t.Helper()
	request, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.remote.Serve(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var reply session.Reply
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// TestDoctorUnderAPolicy: checks send packets only to peers that the policy allows, whatever
// addresses the server names, and say which were refused, and why.
func TestDoctorUnderAPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("prefixes: [100::/64]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	allowed, err := policy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p := newParts(t, Options{Policy: allowed})
	reply := p.ask(t, session.Request{Doctor: &session.Doctor{Peers: []session.Peer{
		{Agent: "near", Addresses: []string{"100::7", "192.0.2.7"}}, {Agent: "far", Addresses: []string{"192.0.2.8"}},
		{Agent: "self", Addresses: []string{"127.0.0.1"}},
	}}})
	got := fmt.Sprintf("%+v", reply.Doctor)
	for _, address := range []string{"192.0.2.7", "192.0.2.8", "127.0.0.1"} {
		if strings.Contains(got, address) {
			t.Errorf("%s was checked: %s", address, got)
		}
	}
	for _, want := range []string{"peer near 100::7", path + ":1: prefixes: no address of far is in 100::/64"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// TestDescribe: the facts of the host reach the server through both parts of the agent.
func TestDescribe(t *testing.T) {
	p := newParts(t, Options{})
	reply := p.ask(t, session.Request{Describe: &session.Describe{Devices: []string{"lo"}}})
	for _, name := range []string{"kernel", "processors", "version", "offloads.lo.rx-gro"} {
		if reply.Facts[name] == "" {
			t.Errorf("no %s in %v", name, reply.Facts)
		}
	}
}

// TestHostileMessages: nonsense ends the link and with it the agent, nothing else.
func TestHostileMessages(t *testing.T) {
	message := func(k kind, length uint32, content string) string {
		header := binary.LittleEndian.AppendUint32(nil, length)
		return string(append(append(header, byte(k)), make([]byte, 8)...)) + content
	}
	for name, text := range map[string]string{
		"unknown kind":      message(kindStart, 0, "") + message(200, 0, ""),
		"too long":          message(kindStart, 0, "") + message(kindRequest, requestMax+1, ""),
		"as long as can be": message(kindStart, 0, "") + message(kindPulse, math.MaxUint32, ""),
		"truncated":         message(kindStart, 0, "") + message(kindPulse, 100, "x"),
		"a row":             message(kindStart, 0, "") + message(kindRow, 0, ""),
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			server, err := NewServer(near, "", func() {})
			if err != nil {
				t.Fatal(err)
			}
			options := Options{Sink: server.Sink, Log: slog.New(slog.DiscardHandler), Interval: time.Hour}
			ended := make(chan error, 1)
			go func() { ended <- server.Run(t.Context(), func() *Loader { return New(options) }) }()
			if _, err := far.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if name == "truncated" {
				far.Close()
			}
			select {
			case err := <-ended:
				if err == nil {
					t.Error("no error")
				}
			case <-time.After(hang.Limit):
				t.Error("the link is still open")
			}
		})
	}
}

// TestFloodOfRequests: requests beyond the bound fail, and none are lost.
func TestFloodOfRequests(t *testing.T) {
	p := newParts(t, Options{})
	const flood = 500
	results := make(chan error, flood)
	for range flood {
		go func() {
			_, err := p.remote.Serve(t.Context(), []byte(`{"apply":{"revision":1}}`))
			results <- err
		}()
	}
	served := 0
	for range flood {
		if err := <-results; err == nil {
			served++
		} else if err.Error() != errBusy.Error() {
			t.Fatal(err)
		}
	}
	if served == 0 {
		t.Error("none was served")
	}
	if _, err := p.remote.Status(); err != nil {
		t.Error(err)
	}
}

// TestRequests: exactly one known request of a bounded size is accepted.
func TestRequests(t *testing.T) {
	for text, good := range map[string]bool{
		`{"apply":{"revision":1}}`: true, `{"trace":{"address":"::1","protocol":"udp"}}`: true, `{"doctor":{}}`: true,
		`{}`: false, ``: false, `[]`: false, `{"apply":{}} {"apply":{}}`: false, `{"stop":{}}`: false,
		`{"apply":{"sources":[{"lease":"x"}]}}`: false, strings.Repeat(" ", requestMax) + `{"apply":{}}`: false,
	} {
		if _, _, err := parseRequest([]byte(text)); (err == nil) != good {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	l := New(Options{Sink: newShelf().put, Log: slog.New(slog.DiscardHandler), Interval: time.Hour})
	defer l.Close()
	if _, err := l.Serve(t.Context(), []byte("{}")); !errors.Is(err, ErrRequest) {
		t.Error(err)
	}
}

var everyType = measure.Sample{
	{}, measure.BoolValue(true), measure.Int32Value(-3), measure.Uint32Value(3), measure.Int64Value(math.MinInt64), measure.Uint64Value(math.MaxUint64),
	measure.Float64Value(-0.5), measure.StringValue("a"), measure.StringValue(""), measure.BinaryValue([]byte{0, 255}), measure.TimeValue(time.Unix(1, 2)),
	measure.Int64ListValue([]int64{-1, 0, 1}), measure.Uint64ListValue([]uint64{0, 1, math.MaxUint64}),
}

func TestRowRoundTrip(t *testing.T) {
	text := appendRow(nil, "point", everyType)
	point, sample, err := parseRow(text, nil)
	if err != nil || point != "point" || !reflect.DeepEqual(sample, everyType) {
		t.Errorf("%q, %v, %v", point, sample, err)
	}
	for n := range text {
		if _, _, err := parseRow(text[:n], nil); err == nil {
			t.Errorf("the first %d bytes of %d are a row", n, len(text))
		}
	}
}

func FuzzParseRow(f *testing.F) {
	f.Add(appendRow(nil, "point", everyType))
	f.Add([]byte{1, 'x', 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, text []byte) {
		point, sample, err := parseRow(text, nil)
		if err != nil {
			return
		}
		again := appendRow(nil, point, sample)
		if _, second, err := parseRow(again, nil); err != nil || !bytes.Equal(appendRow(nil, point, second), again) {
			t.Errorf("%x does not round-trip: %v", text, err)
		}
	})
}

// FuzzRequest: what the unprivileged part sends is parsed without a crash.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"apply":{"revision":1,"sources":[{"session":"s","peers":[{"agent":"b","addresses":["192.0.2.1"]}],"lease":"5s"}]}}`))
	f.Add([]byte(`{"trace":{"address":"::1","protocol":"udp"}}`))
	f.Add([]byte(`{"sent":[{"session":"s","source":"a","interval":"1s","age":"1s","flows":[{"src":"::1","dst":"::2","proto":17,"start":0,"first":1,"next":4294967295}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		request, _, err := parseRequest(text)
		if err == nil && request.Apply == nil && request.Trace == nil && request.Doctor == nil && request.Describe == nil && request.Sent == nil {
			t.Error("accepted without a kind")
		}
	})
}

// BenchmarkLink is the cost of a row between the two parts.
func BenchmarkLink(b *testing.B) {
	near, far := pair(b)
	server, err := NewServer(near, "", func() {})
	if err != nil {
		b.Fatal(err)
	}
	var setup string
	remote, err := Connect(far, &setup, func() {})
	if err != nil {
		b.Fatal(err)
	}
	came := make(chan struct{}, 1)
	n := 0
	if err := remote.Start(func(string, measure.Sample) {
		if n++; n == b.N {
			came <- struct{}{}
		}
	}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		server.Sink(&measure.Packets, everyType)
	}
	<-came
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
