package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"connectrpc.com/connect"
)

// TestBudget: nobody takes more than a share, and the rest of an eighth is for loopback and operators.
func TestBudget(t *testing.T) {
	const share = 8 * requestBytes
	from := func(token, address string, role role) caller {
		return caller{token: token, role: role, remote: netip.MustParseAddr(address)}
	}
	tests := []struct {
		name   string
		before []caller // that have requests until they are refused
		who    caller
		want   connect.Code
		origin string
	}{
		{"first", nil, from("", "192.0.2.1", anyone), 0, ""},
		{"without a token", []caller{from("", "192.0.2.1", anyone)}, from("", "192.0.2.1", anyone), connect.CodeResourceExhausted, "address 192.0.2.1"},
		{"same subnet", []caller{from("", "2001:db8::1", anyone)}, from("", "2001:db8::2", anyone), connect.CodeResourceExhausted, "address 2001:db8::/64"},
		{"another address", []caller{from("", "192.0.2.1", anyone)}, from("", "192.0.2.2", anyone), 0, ""},
		{"with a token", []caller{from("", "192.0.2.1", anyone)}, from("v", "192.0.2.1", viewer), 0, ""},
		{"another token of the address", []caller{from("v", "192.0.2.1", viewer)}, from("w", "192.0.2.1", viewer), connect.CodeResourceExhausted, "address 192.0.2.1"},
		{"token elsewhere", []caller{from("v", "192.0.2.1", viewer)}, from("v", "192.0.2.2", viewer), connect.CodeResourceExhausted, "token v"},
		{"all", []caller{from("a", "192.0.2.1", viewer), from("b", "192.0.2.2", viewer), from("c", "192.0.2.3", viewer), from("d", "192.0.2.4", viewer)},
			from("e", "192.0.2.5", viewer), connect.CodeUnavailable, ""},
		{"reserve for operators", []caller{from("a", "192.0.2.1", viewer), from("b", "192.0.2.2", viewer), from("c", "192.0.2.3", viewer), from("d", "192.0.2.4", viewer)},
			from("e", "192.0.2.5", operator), 0, ""},
		{"reserve for loopback", []caller{from("a", "192.0.2.1", viewer), from("b", "192.0.2.2", viewer), from("c", "192.0.2.3", viewer), from("d", "192.0.2.4", viewer)},
			from("", "127.0.0.1", anyone), 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := &exceeding{}
			b := &budget{share: share, exceeded: e.add, of: map[originator]int64{}}
			var holds []*hold
			for _, who := range test.before {
				for range 10 * shares {
					if one, err := b.begin(&http.Request{}, who); err == nil {
						holds = append(holds, one)
					}
				}
			}
			e.sources = nil
			one, err := b.begin(&http.Request{}, test.who)
			if err == nil && test.want != 0 || err != nil && connect.CodeOf(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := fmt.Sprint(e.sources); test.origin != "" && got != "["+test.origin+"]" {
				t.Errorf("reported %s, want %s", got, test.origin)
			}
			for _, one := range append(holds, one) {
				one.end()
			}
			if b.used != 0 || len(b.of) != 0 {
				t.Errorf("%d bytes are left, of %v", b.used, b.of)
			}
		})
	}
}

// TestRequestsAreBounded: what arrives of unfinished bodies is accounted for, by source.
func TestRequestsAreBounded(t *testing.T) {
	for _, test := range []struct {
		token, procedure string
		body, room       int // bytes, and how many bodies the share has room for
		limit            string
	}{
		{"viewer", "DataService/ListStreams", 128 << 10, 7, "1048576 bytes of requests in progress for each source address and token"},
		{"", "EnrolService/Enrol", 48 << 10, 3, "262144 bytes of requests in progress without a token for each source address"},
	} {
		t.Run("token "+test.token, func(t *testing.T) {
			e := &exceeding{}
			s := newSite(t, func(o *Options) { o.RequestBytes, o.Exceeded = 1<<20, e.add })
			remote := s.serveAs(t, asRemote)
			begin := func() *kept {
				conn := s.connect(t, remote)
				token := ""
				if test.token != "" {
					token = "Authorization: Bearer " + test.token + "\r\n"
				}
				fmt.Fprintf(conn, "POST /pillion.v1.%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
					test.procedure, test.body+1, token, strings.Repeat(" ", test.body))
				return conn
			}
			var waiting []*kept
			for range test.room {
				before := s.inUse()
				waiting = append(waiting, begin())
				eventually(t, "the body arrives", func() bool { return s.inUse() >= before+int64(test.body) })
			}
			status, body, err := begin().answer()
			if status != http.StatusTooManyRequests || !strings.Contains(body, test.limit) {
				t.Errorf("beyond the share: got %d %s %v", status, body, err)
			}
			if !e.has("address 192.0.2.7", "quotas.request_bytes") {
				t.Errorf("reported %v %v", e.sources, e.errors)
			}
			if status, body := s.post(t, "tls", "/pillion.v1.ServerService/Health", "", "{}"); status != http.StatusOK {
				t.Errorf("on loopback: got %d %s", status, body)
			}
			for _, conn := range waiting {
				conn.Close()
			}
			eventually(t, "all is given back", func() bool { return s.inUse() == 0 })
		})
	}
}

// inUse is the memory that requests in progress hold.
func (s *site) inUse() int64 {
	s.budget.mutex.Lock()
	defer s.budget.mutex.Unlock()
	return s.budget.used
}

// TestUnreadAnswersAreBounded: a client of HTTP/2 that accepts no byte of a body holds a stream for each answer. Those
// that are refused have none.
func TestUnreadAnswersAreBounded(t *testing.T) {
	s := newSite(t, func(o *Options) { o.RequestBytes = 1 << 20 })
	s.addr = s.serveAs(t, asRemote)
	streams := newStalledStreams(t, s)
	for range 90 { // 262144 bytes are those of 15
		streams.get("/healthz")
	}
	texts, bare := 0, 0
	for texts+bare < 75 {
		if status, ended := streams.answer(); status == "429" && ended {
			bare++
		} else if status == "429" {
			texts++
		} else if status != "200" {
			t.Fatalf("status %s", status)
		}
	}
	if texts > answeredMax {
		t.Errorf("%d refusals wait for the client", texts)
	}
}
