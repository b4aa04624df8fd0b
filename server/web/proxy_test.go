package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

// TestForwardingHeadersWereBelievedOfNobodyOrAll: headers count only if a trusted proxy
// sends them, and only as far as it vouches for them.
func TestForwardingHeadersWereBelievedOfNobodyOrAll(t *testing.T) {
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/24")}}
	for name, row := range map[string]struct {
		from     string
		tls      bool
		headers  map[string]string
		plainOff bool
		remote   string
		served   bool
	}{
		"remote host over TLS":                     {from: "192.0.2.9:1", tls: true, remote: "192.0.2.9", served: true},
		"remote host without TLS":                  {from: "192.0.2.9:1", remote: "192.0.2.9"},
		"claims to be local":                       {"192.0.2.9:1", false, map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https"}, false, "192.0.2.9", false},
		"claims to be another, over TLS":           {"192.0.2.9:1", true, map[string]string{"X-Forwarded-For": "198.51.100.1"}, false, "192.0.2.9", true},
		"local":                                    {from: "127.0.0.1:1", remote: "127.0.0.1", served: true},
		"local, plain HTTP is off":                 {from: "127.0.0.1:1", plainOff: true, remote: "127.0.0.1"},
		"proxy":                                    {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "https"}, true, "198.51.100.1", true},
		"proxy that got plain HTTP":                {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "http"}, false, "198.51.100.1", false},
		"proxy that does not say":                  {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1"}, false, "198.51.100.1", false},
		"client claims TLS before the proxy":       {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "https, http"}, false, "198.51.100.1", false},
		"client claims an address before the last": {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "127.0.0.1, 203.0.113.7, 198.51.100.1", "X-Forwarded-Proto": "https"}, false, "198.51.100.1", true},
		"two proxies":                              {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "203.0.113.7, 198.51.100.1, 10.0.0.8", "X-Forwarded-Proto": "https"}, false, "198.51.100.1", true},
		"no address":                               {"127.0.0.1:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1, unknown", "X-Forwarded-Proto": "https"}, false, "127.0.0.1", true},
		"proxy that nobody named":                  {"[::1]:1", false, map[string]string{"X-Forwarded-For": "198.51.100.1", "X-Forwarded-Proto": "https"}, false, "::1", false},
		"proxy with another header":                {"[::1]:1", false, map[string]string{"Forwarded": "for=198.51.100.1"}, false, "::1", false},
	} {
		t.Run(name, func(t *testing.T) {
			s.plainOff = row.plainOff
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r.RemoteAddr = row.from
			if row.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for name, value := range row.headers {
				r.Header.Set(name, value)
			}
			o := s.origin(r)
			if why := s.plainRefusal(o); o.remote.String() != row.remote || (why == "") != row.served {
				t.Errorf("from %v, refused %q; want %s, served %v", o.remote, why, row.remote, row.served)
			}
		})
	}
}

// TestPlainHTTPCouldNotBeSwitchedOff: nothing is served without TLS; the page leads to it.
func TestPlainHTTPCouldNotBeSwitchedOff(t *testing.T) {
	s := newSite(t, func(o *Options) { o.PlainOff = true })
	client, url := s.client(t, "http1")
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]int{"/": http.StatusPermanentRedirect, "/healthz": http.StatusUpgradeRequired, "/metrics": http.StatusUpgradeRequired, "/pillion.v1.ServerService/WhoAmI": http.StatusUpgradeRequired} {
		response, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	_, err := pillionv1connect.NewServerServiceClient(client, url).WhoAmI(t.Context(), &pillionv1.WhoAmIRequest{})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "plain HTTP is switched off; use https") {
		t.Errorf("a client of the API: %v", err)
	}
	if status, _ := s.get(t, "tls", "/healthz", ""); status != http.StatusOK {
		t.Errorf("over TLS: %d", status)
	}
}

// FuzzOrigin: no header makes an untrusted sender another.
func FuzzOrigin(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.8", "https")
	f.Add("::ffff:127.0.0.1%eth0", "HTTPS,")
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	f.Fuzz(func(t *testing.T, addresses, protocol string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Forwarded-For", addresses)
		r.Header.Set("X-Forwarded-Proto", protocol)
		r.RemoteAddr = "192.0.2.9:1"
		if o := s.origin(r); o.remote.String() != "192.0.2.9" || o.encrypted {
			t.Errorf("got %+v", o)
		}
		r.RemoteAddr = "10.0.0.8:1"
		s.origin(r)
	})
}
