package otlp

import (
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for _, test := range []struct{ url, to, want string }{
		{"http://collector:4318", "http://collector:4318/v1/metrics", ""},
		{"https://collector:4318/", "https://collector:4318/v1/metrics", ""},
		{"http://prometheus:9090/api/v1/otlp", "http://prometheus:9090/api/v1/otlp/v1/metrics", ""},
		{"http://prometheus:9090/api/v1/otlp/v1/metrics", "http://prometheus:9090/api/v1/otlp/v1/metrics", ""},
		{"grpc://collector:4317", "", `scheme "grpc": use http or https`},
		{"collector:4317", "", "scheme"},
		{"ftp://collector", "", `scheme "ftp"`},
		{"http://user:s3cret@collector", "", "headers_file"},
		{"https://", "", "HOST:PORT"},
		{"http://[::1", "", "HOST:PORT"},
	} {
		c, err := Config{URL: test.url}.Complete()
		switch {
		case test.want == "" && (err != nil || c.to.String() != test.to || c.Interval != usualInterval || c.Timeout != usualTimeout):
			t.Errorf("%s: got %v, %v", test.url, c.to, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "HOST:PORT") || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: got %v, want %s", test.url, err, test.want)
		}
	}
	many := map[string]string{}
	for i := range 33 {
		many[strings.Repeat("a", i+1)] = "b"
	}
	for name, c := range map[string]Config{
		"settings without url":     {Interval: time.Second},
		"interval":                 {URL: "http://a", Interval: time.Millisecond},
		"timeout":                  {URL: "http://a", Timeout: time.Hour},
		"belong together":          {URL: "https://a", Key: "k"},
		"require https":            {URL: "http://a", HeadersFile: "f"},
		"33 attributes":            {URL: "http://a", Resource: many},
		"is empty or longer":       {URL: "http://a", Resource: map[string]string{"": "b"}},
		"attribute \"a\" is empty": {URL: "http://a", Resource: map[string]string{"a": strings.Repeat("b", 256)}},
	} {
		if _, err := c.Complete(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	for _, url := range []string{"http://127.0.0.1:4318", "http://localhost:4318", "http://[::1]:4318"} {
		if _, err := (Config{URL: url, HeadersFile: "f"}).Complete(); err != nil {
			t.Errorf("%s on loopback: %v", url, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct{ prometheus, name, unit string }{
		{"pillion_delay_seconds", "pillion.delay", "s"},
		{"pillion_bytes_total", "pillion.bytes", "By"},
		{"pillion_packets_total", "pillion.packets", "{packet}"},
		{"pillion_lost_packets_total", "pillion.lost_packets", "{packet}"},
		{"pillion_ingest_commit_seconds_total", "pillion.ingest_commit", "s"},
		{"pillion_ingest_queue_bytes", "pillion.ingest_queue", "By"},
		{"pillion_limit_used", "pillion.limit_used", ""},
		{"process_cpu_seconds_total", "process.cpu.time", "s"},
		{"go_gc_heap_bytes", "", ""},
	} {
		if name, unit := nameOf(test.prometheus); name != test.name || unit != test.unit {
			t.Errorf("%s: got %s in %s", test.prometheus, name, unit)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"A: b\r\n", ""},
		{"authorization: Bearer a:b", ""},
		{"# nothing\n\n", ""},
		{"nothing", "line 1: use NAME: VALUE"},
		{"A: b\n: b", "line 2"},
		{"A B: c", "line 1"},
		{"A: s3cret\x01", "line 1"},
		{"A:", "line 1"},
		{"content-type: text/plain", "header Content-Type is set by OTLP"},
	} {
		_, err := parseHeaders([]byte(test.text))
		if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%q: got %v, want %q", test.text, err, test.want)
		}
	}
	if _, err := readHeaders(write(t, "long", strings.Repeat("a", headersMost+1))); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("got %v", err)
	}
	if _, err := readHeaders("/nothing"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add([]byte("A: b\n# c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := parseHeaders(text)
		for name, values := range headers {
			if err != nil || name == "" || len(values) == 0 {
				t.Errorf("header %q is %q, %v", name, values, err)
			}
		}
	})
}
