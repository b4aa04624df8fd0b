package outbound

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedirects: what is sent goes to the URL alone, whatever its server answers.
func TestRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was redirected, with %v", r.Method, r.URL, r.Header)
	}))
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{elsewhere.URL, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), "/other", "https://192.0.2.1/"} {
			requests := 0
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				http.Redirect(w, r, to, code)
			}))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer s3cret")
			response, err := Addresses(nil).Client(&http.Transport{DisableKeepAlives: true}).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			hook.Close()
			if response.StatusCode != code || requests != 1 {
				t.Errorf("%d to %s: status %d after %d requests", code, to, response.StatusCode, requests)
			}
		}
	}
}

// TestAddresses: a name is checked by the addresses to which it resolves.
func TestAddresses(t *testing.T) {
	hook := httptest.NewServer(http.NotFoundHandler())
	defer hook.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(hook.URL, "http://"), ":")
	for _, row := range []struct {
		prefixes, host string
		allowed        bool
	}{
		{"", "127.0.0.1", true},
		{"127.0.0.0/8", "127.0.0.1", true},
		{"192.0.2.0/24 127.0.0.1/32", "127.0.0.1", true},
		{"127.0.0.0/8", "[::ffff:127.0.0.1]", true},
		{"192.0.2.0/24", "127.0.0.1", false},
		{"192.0.2.0/24 2001:db8::/32", "localhost", false},
		{"192.0.2.0/24", "169.254.169.254", false},
		{"::1/128", "127.0.0.1", false},
	} {
		var allowed Addresses
		for _, text := range strings.Fields(row.prefixes) {
			allowed = append(allowed, netip.MustParsePrefix(text))
		}
		conn, err := allowed.Dialer().DialContext(t.Context(), "tcp", row.host+":"+port)
		if err == nil {
			conn.Close()
		}
		if row.allowed && err != nil || !row.allowed && !errors.Is(err, ErrAddress) {
			t.Errorf("%s with %q: %v", row.host, row.prefixes, err)
		}
	}
}

func TestCheckSecret(t *testing.T) {
	for text, secure := range map[string]bool{
		"https://noc.example/hook": true, "http://127.0.0.1:9093/": true, "http://[::1]/": true, "http://LOCALHOST:80/": true,
		"http://noc.example/": false, "http://192.0.2.1/": false, "http://169.254.169.254/": false, "http://localhost.example/": false,
		"http://127.0.0.1.example/": false, "http://[fe80::1]/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckSecret(u); (err == nil) != secure || err != nil && !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTLS(t *testing.T) {
	if settings, err := TLS(""); err != nil || settings.RootCAs != nil {
		t.Errorf("no file: %+v, %v", settings, err)
	}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := TLS(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TLS(path); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a file without certificates: %v", err)
	}
}
