package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/server"
)

// TestCheckReportsAll: one run of check suffices to correct a file.
func TestCheckReportsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.yaml")
	text := `htpp: ":1"
url: ftp://x
quotas: {streams: -1}
query_processors: -1
trusted_proxies: [x]
outbound_addresses: [y]
oml_feedback: shout
loss_event: {share: 5}
retention: {flows: {age: -1h}, "!": {}}
notify:
  - name: 1x
  - name: desk
    webhook: {url: z}
alarms:
  - {name: "2", on: loss}
  - {name: a, on: whim}
memory_bites: 1
limits: {agents: -1}
otlp: {url: gopher://x}
aggregate_to: {window: 1ms}
archive: mysql://x
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := checkConfig(path)
	if !errors.Is(err, server.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"line 1: ", "line 17: ", "url: use", "quotas cannot", "query_processors -1", "trusted_proxies: ", "outbound_addresses: ", "oml_feedback: ",
		"loss_event: ", `retention of "flows"`, `stream name "!"`, `name "1x"`, `receiver "desk"`, `rule "2"`, `rule "a"`, "limits.agents is negative", "otlp: ", "aggregate_to: ", "archive: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

// TestCheckArchive: the files that the URL of an archive names are read; nothing answers at the address.
func TestCheckArchive(t *testing.T) {
	folder := t.TempDir()
	secret, missing := filepath.Join(folder, "secret"), filepath.Join(folder, "missing")
	if err := os.WriteFile(secret, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "clickhouse://pillion@127.0.0.1:1/pillion?cluster=fleet"
	for _, test := range []struct{ name, url, fault string }{
		{"default", "", ""},
		{"embedded", "duckdb:", ""},
		{"unknown kind", "mysql://x", "mysql"},
		{"password", at + "&password_file=" + secret, ""},
		{"no password", at + "&password_file=" + missing, missing},
		{"no password of the reader", at + "&reader=r&reader_password_file=" + missing, missing},
		{"no certificates", at + "&secure=true&ca=" + missing, missing},
		{"no certificate in the file", at + "&secure=true&ca=" + secret, secret},
		{"unknown option", at + "&passwordfile=" + secret, "passwordfile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.yaml")
			if err := os.WriteFile(path, []byte("archive: '"+test.url+"'\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := checkConfig(path)
			if test.fault == "" && err != nil || test.fault != "" && (!errors.Is(err, server.ErrConfig) || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("got %v", err)
			}
			if code := Main([]string{"check", path}); (code == 0) != (test.fault == "") {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
