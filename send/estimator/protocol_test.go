package estimator

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
)

// TestParseRequest: a line is exactly one request within the limits.
func TestParseRequest(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"flow":{"source":"192.0.2.1","protocol":"udp","source_port":1,"destination_port":9}}`: true,
		`{"begin":{"first":1,"trains":2,"packets":3}}`:                                          true,
		`{"arrived":{"from":0,"count":262144}}`:                                                 true,
		`{"arrivals":{"from":0,"count":16384}}`:                                                 true,
		`{"arrivals":{"from":0,"count":16385}}`:                                                 false,
		`{"arrivals":{"from":-1,"count":1}}`:                                                    false,
		`{"arrivals":{"from":262144,"count":1}}`:                                                false,
		`{"arrivals":{"from":0,"count":0}}`:                                                     false,
		`{"arrived":{"from":1,"count":262144}}`:                                                 false,
		`{}`:                                                                                    false,
		`{"begin":{},"arrived":{"from":0,"count":1}}`:                                           false,
		`{"flow":{"source":"nowhere"}}`:                                                         false,
		`{"send":{}}`:                                                                           false,
		``:                                                                                      false,
		`[`:                                                                                     false,
	} {
		if _, err := parseRequest([]byte(text)); (err == nil) != ok || err != nil && !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"flow":{"source":"2001:db8::1","protocol":"icmp"}}`))
	f.Add([]byte(`{"begin":{"first":4294967295,"trains":-1,"packets":1}}`))
	f.Add([]byte(`{"arrivals":{"from":262143,"count":1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRequest(line)
		if err != nil {
			return
		}
		if q := r.Arrivals; q != nil && len(make([]int64, q.From+q.Count)[q.From:]) > mostArrivals {
			t.Errorf("%+v", q)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseRequest(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}

// TestReceiverRefuses: a receiver answers an invalid request with its cause, and closes the connection.
func TestReceiverRefuses(t *testing.T) {
	namespace.NeedRoot(t)
	address := make(chan net.Addr, 1)
	r := Receiver{Device: "lo", Address: "127.0.0.1:0", Token: "secret", Log: testLog(t), Ready: func(a net.Addr) { address <- a }}
	served := make(chan error, 1)
	go func() { served <- r.Serve(t.Context()) }()
	t.Cleanup(func() { // the context has ended: what serves and logs ends before the test does
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	at := <-address
	const flow = `{"flow":{"source":"127.0.0.1","protocol":"udp","token":"`
	for text, want := range map[string]string{
		`{"begin":{"first":0,"trains":1,"packets":1}}`: "first request names the flow",
		flow + `guess"}}`:                 "token",
		strings.Repeat("x", requestBytes): "",
		`{"flow":{"source":"127.0.0.1","protocol":"gre","token":"secret"}}`:                    "protocol",
		flow + `secret"}}` + "\n" + `{"begin":{"first":0,"trains":1000000,"packets":1000000}}`: "limit",
	} {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(hang.Limit)); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(text + "\n")) // it may close the connection before it has read everything
		in, last := lines(c, answerBytes), ""
		for {
			line, err := next(in)
			if err != nil {
				break
			}
			last = string(line)
		}
		if !strings.Contains(last, want) || want != "" && !strings.Contains(last, `"error"`) {
			t.Errorf("%.80s: %q, want %q", text, last, want)
		}
		c.Close()
	}
}

// TestReceiverNeedsItsDevice: a receiver without its interface does not start.
func TestReceiverNeedsItsDevice(t *testing.T) {
	r := Receiver{Device: filepath.Base(t.TempDir()), Address: "127.0.0.1:0", Log: testLog(t)}
	if err := r.Serve(t.Context()); err == nil {
		t.Error("started")
	}
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
