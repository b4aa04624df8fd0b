package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

var pageFiles = fstest.MapFS{
	"index.html": {Data: []byte("<!doctype html><title>Pillion</title>")},
	"index.js":   {Data: []byte("export const answer = 42;\n" + strings.Repeat("// filler\n", 500))},
	"index.css":  {Data: []byte("body { margin: 0 }")},
	"icon.svg":   {Data: []byte("<svg xmlns='http://www.w3.org/2000/svg'/>")},
}

// ask asks a site for a file of the page, without help of the client's transport.
func ask(t *testing.T, s *site, method, path string, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	client, url := s.client(t, "http1")
	request, err := http.NewRequest(method, url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = path // not cleaned
	request.Header.Set("Accept-Encoding", "identity")
	for key, value := range header {
		request.Header.Set(key, value)
	}
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := direct.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

func pageSite(t *testing.T) *site {
	return newSite(t, func(o *Options) { o.Page = pageFiles })
}

func TestPageFiles(t *testing.T) {
	s := pageSite(t)
	for _, test := range []struct{ path, file, kind string }{
		{"/", "index.html", "text/html"},
		{"/index.html", "index.html", "text/html"},
		{"/index.js", "index.js", "javascript"},
		{"/index.css", "index.css", "text/css"},
		{"/icon.svg", "icon.svg", "image/svg+xml"},
		{"/?x=1", "index.html", "text/html"},
	} {
		t.Run(test.path, func(t *testing.T) {
			want := pageFiles[test.file].Data
			plain, body := ask(t, s, "GET", test.path, nil)
			if plain.StatusCode != http.StatusOK || !bytes.Equal(body, want) {
				t.Fatalf("got %d, %d bytes; want 200, %d", plain.StatusCode, len(body), len(want))
			}
			if kind := plain.Header.Get("Content-Type"); !strings.Contains(kind, test.kind) {
				t.Errorf("type %q, want %q", kind, test.kind)
			}
			packed, body := ask(t, s, "GET", test.path, map[string]string{"Accept-Encoding": "br;q=0, gzip"})
			reader, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatalf("not gzip: %v", err)
			}
			if unpacked, err := io.ReadAll(reader); err != nil || !bytes.Equal(unpacked, want) {
				t.Errorf("unpacked to %d bytes, %v; want %d", len(unpacked), err, len(want))
			}
			if packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("headers %v", packed.Header)
			}
			if packed.Header.Get("ETag") == plain.Header.Get("ETag") {
				t.Error("both encodings have one tag")
			}
			head, body := ask(t, s, "HEAD", test.path, nil)
			if head.StatusCode != http.StatusOK || len(body) != 0 || head.ContentLength != int64(len(want)) {
				t.Errorf("HEAD: %d, %d bytes, length %d", head.StatusCode, len(body), head.ContentLength)
			}
		})
	}
}

// TestPageTags: a browser that has the current file gets 304; one that has an older file,
// or the other encoding, does not.
func TestPageTags(t *testing.T) {
	s := pageSite(t)
	for _, encoding := range []string{"identity", "gzip"} {
		header := map[string]string{"Accept-Encoding": encoding}
		first, _ := ask(t, s, "GET", "/index.js", header)
		tag := first.Header.Get("ETag")
		for _, test := range []struct {
			name, sent string
			status     int
		}{
			{"same", tag, 304},
			{"weak", "W/" + tag, 304},
			{"one of several", `"other", ` + tag, 304},
			{"older", `"0123456789abcdef01234567"`, 200},
			{"cut short", tag[:len(tag)-2] + `"`, 200},
		} {
			t.Run(encoding+" "+test.name, func(t *testing.T) {
				response, body := ask(t, s, "GET", "/index.js", map[string]string{"Accept-Encoding": encoding, "If-None-Match": test.sent})
				if response.StatusCode != test.status || (test.status == 304) != (len(body) == 0) {
					t.Errorf("got %d with %d bytes, want %d", response.StatusCode, len(body), test.status)
				}
			})
		}
	}
}

func TestPagePolicy(t *testing.T) {
	s := pageSite(t)
	for path := range pageFiles {
		response, _ := ask(t, s, "GET", "/"+path, nil)
		policy := response.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q lacks %q", path, policy, want)
			}
		}
		for _, bad := range []string{"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} {
			if strings.Contains(policy, bad) {
				t.Errorf("%s: policy %q has %q", path, policy, bad)
			}
		}
		if response.Header.Get("Referrer-Policy") != "no-referrer" || response.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: headers %v", path, response.Header)
		}
	}
}

func TestPageRefusals(t *testing.T) {
	s := pageSite(t)
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/nothing", 404},
		{"GET", "/index.html/", 404},
		{"GET", "/INDEX.HTML", 404},
		{"GET", "/assets/", 404},
		{"GET", "/..%2findex.html", 404},
		{"GET", "/..%2f..%2fetc%2fpasswd", 404},
		{"GET", "/%2e%2e/%2e%2e/etc/passwd", 404},
		{"GET", "/page.go", 404},
		{"POST", "/", 405},
		{"PUT", "/index.js", 405},
		{"DELETE", "/index.css", 405},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			response, body := ask(t, s, test.method, test.path, nil)
			// The mux redirects paths with dots to one that does not exist either.
			redirected := response.StatusCode/100 == 3 && !strings.Contains(response.Header.Get("Location"), "..")
			if response.StatusCode != test.status && !redirected {
				t.Errorf("got %d %.200s, want %d", response.StatusCode, body, test.status)
			}
			if test.status == 405 && response.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
			if bytes.Contains(body, []byte("root:")) {
				t.Error("it is a file of the machine")
			}
		})
	}
}

func TestPageWithoutIndex(t *testing.T) {
	if _, err := newPage(fstest.MapFS{"index.js": {}}); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("got %v", err)
	}
}

// TestPageBrotli: files compressed by the build are sent to clients that accept them,
// and have no path of their own.
func TestPageBrotli(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Page = fstest.MapFS{
			"index.html":  {Data: []byte("<!doctype html>")},
			"index.js":    {Data: []byte("plain")},
			"index.js.br": {Data: []byte("small")},
		}
	})
	for _, test := range []struct{ path, accept, encoding, want string }{
		{"/index.js", "gzip, deflate, br", "br", "small"},
		{"/index.js", "br;q=0.5", "br", "small"},
		{"/index.js", "br;q=0", "", "plain"},
		{"/index.js", "brotli", "", "plain"},
		{"/index.js.br", "br", "", "404 page not found\n"},
	} {
		response, body := ask(t, s, "GET", test.path, map[string]string{"Accept-Encoding": test.accept})
		if got := response.Header.Get("Content-Encoding"); got != test.encoding || string(body) != test.want {
			t.Errorf("%s for %q: %q, %q; want %q, %q", test.path, test.accept, got, body, test.encoding, test.want)
		}
	}
}

// TestLicenses: the page links to the licences of what it and the server contain.
func TestLicenses(t *testing.T) {
	s := pageSite(t)
	response, body := ask(t, s, "GET", "/licenses.txt", nil)
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/plain") {
		t.Fatalf("got %d, type %q", response.StatusCode, kind)
	}
	for _, want := range []string{"=== go github.com/nats-io/nats-server/v2 ", "=== npm preact ", "Permission is hereby granted"} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	if link, err := os.ReadFile("../../ui/view/page.tsx"); err != nil || !bytes.Contains(link, []byte(`href="/licenses.txt"`)) {
		t.Errorf("the page has no link to it: %v", err)
	}
}
