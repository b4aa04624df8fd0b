package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/server/event"
)

// TestLedgerIsBounded: neither many sources nor one with many methods make more records.
func TestLedgerIsBounded(t *testing.T) {
	now := epoch
	fault := connect.NewError(connect.CodeUnauthenticated, errors.New("no token"))
	tests := []struct {
		name       string
		source     func(int) netip.Addr
		method     func(int) string
		first, sum int
	}{
		{"alike", func(int) netip.Addr { return netip.MustParseAddr("192.0.2.1") }, func(int) string { return "m" }, 1, 1},
		{"one subnet", func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}) }, func(int) string { return "m" }, 1, 1},
		{"many sources", func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }, func(int) string { return "m" }, ledgerMax + 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sink := &fakeSink{}
			l := newLedger(sink, func() time.Time { return now })
			for i := range 5000 {
				l.note(event.Change{Time: now, Method: test.method(i)}, test.source(i), fault)
			}
			if n := len(sink.all()); n != test.first {
				t.Errorf("%d records, want %d", n, test.first)
			}
			now = now.Add(ledgerSpan)
			l.sum(false)
			all := sink.all()
			if n := len(all) - test.first; n != test.sum || !strings.Contains(all[len(all)-1].Outcome, fmt.Sprint(5000-test.first)+" more") {
				t.Errorf("%d sums, want %d; the last is %+v", n, test.sum, all[len(all)-1])
			}
			if len(l.alike) != 0 {
				t.Errorf("%d are left", len(l.alike))
			}
			if n := l.refusals()[connect.CodeUnauthenticated]; n != 5000 {
				t.Errorf("%d are counted", n)
			}
		})
	}
}

// TestAttempts: invalid tokens are counted by source, for a minute.
func TestAttempts(t *testing.T) {
	now := epoch
	l := newLedger(&fakeSink{}, func() time.Time { return now })
	a4, b4 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	a6, sameNet, otherNet := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1"), netip.MustParseAddr("2001:db8:0:1::1")
	for i := range invalidTokens {
		if l.invalid(a4) || l.invalid(a6) {
			t.Errorf("attempt %d is one too many", i+1)
		}
	}
	for address, want := range map[netip.Addr]bool{a4: true, b4: false, sameNet: true, otherNet: false} {
		if got := l.invalid(address); got != want {
			t.Errorf("%v: %v, want %v", address, got, want)
		}
	}
	now = now.Add(ledgerSpan)
	if l.sum(false); l.invalid(a4) || len(l.alike) != 1 {
		t.Errorf("after a minute: %v", l.alike)
	}
}

// TestAttemptsAreBounded: beyond a number of addresses, others are counted as one.
func TestAttemptsAreBounded(t *testing.T) {
	l := newLedger(&fakeSink{}, func() time.Time { return epoch })
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range ledgerMax + 100 {
		l.invalid(address(i))
	}
	if n := len(l.alike); n != ledgerMax+1 {
		t.Errorf("%d are told apart, want %d", n, ledgerMax+1)
	}
	if !l.invalid(address(1 << 20)) {
		t.Error("a new address is not counted with the others")
	}
}

// TestTokensOfThePastAreNamed: the audit says which revoked or expired token was used, on any path.
func TestTokensOfThePastAreNamed(t *testing.T) {
	s := newSite(t)
	for _, token := range []string{"revoked", "expired"} {
		for path, method := range map[string]string{
			"/pillion.v1.AgentService/ListAgents": "/pillion.v1.AgentService/ListAgents", "/metrics": "GET /metrics",
		} {
			if strings.HasPrefix(path, "/pillion") {
				s.post(t, "http1", path, token, "{}")
			} else {
				s.get(t, "http1", path, token)
			}
			if c := s.sink.last(t); c.Token != "the-"+token || c.Method != method || !strings.HasPrefix(c.Outcome, "unauthenticated: ") || c.Role != "anyone" {
				t.Errorf("%s with a token that is %s: %+v", path, token, c)
			}
		}
	}
	if status, _ := s.get(t, "http1", "/metrics", "revoked"); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
}

// TestQueriesAndExportsAreAudited: with who asked for what, and how much was sent.
func TestQueriesAndExportsAreAudited(t *testing.T) {
	s := newSite(t)
	client, url := s.client(t, "tls")
	of := func(token string) pillionv1connect.DataServiceClient {
		return pillionv1connect.NewDataServiceClient(client, url, bearer(token))
	}
	ctx := context.Background()
	query := func(token, sql string) error {
		stream, err := of(token).Query(ctx, &pillionv1.QueryRequest{Sql: sql, Limit: 5})
		return reading(stream, err)()
	}
	tests := []struct {
		name                   string
		do                     func() error
		method, token, request string
		outcome                []string
	}{
		{"query", func() error { return query("analyst", "SELECT 1") }, pillionv1connect.DataServiceQueryProcedure, "the-analyst", "SELECT 1", []string{"ok; 5 rows, ", " bytes sent"}},
		{"faulty query", func() error { return query("analyst", "DROP x") }, pillionv1connect.DataServiceQueryProcedure, "the-analyst", "DROP x", []string{"invalid_argument: ", "; 0 rows, "}},
		{"query without the role", func() error { return query("viewer", "SELECT 1") }, pillionv1connect.DataServiceQueryProcedure, "the-viewer", "", []string{"permission_denied: "}},
		{"export", func() error {
			stream, err := of("viewer").Export(ctx, &pillionv1.ExportRequest{Stream: "numbers", Format: "csv", Limit: 7})
			return reading(stream, err)()
		}, pillionv1connect.DataServiceExportProcedure, "the-viewer", "numbers", []string{"ok; 7 rows, "}},
		{"download", func() error {
			_, body := s.get(t, "http1", "/export?stream=numbers&limit=3", "viewer")
			if n := fmt.Sprintf("; 3 rows, %d bytes sent", len(body)); !strings.Contains(s.sink.last(t).Outcome, n) {
				return fmt.Errorf("want %s", n)
			}
			return nil
		}, pillionv1connect.DataServiceExportProcedure, "the-viewer", "numbers", []string{"ok; 3 rows, "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := len(s.sink.all())
			err := test.do()
			all := s.sink.all()[before:]
			if len(all) != 1 {
				t.Fatalf("recorded %+v; %v", all, err)
			}
			c := all[0]
			if c.Method != test.method || c.Token != test.token || !strings.Contains(c.Request, test.request) ||
				slices.ContainsFunc(test.outcome, func(part string) bool { return !strings.Contains(c.Outcome, part) }) {
				t.Errorf("recorded %+v; %v", c, err)
			}
		})
	}
}
