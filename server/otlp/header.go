package otlp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headersMost bounds a file with headers, bytes.
const headersMost = 64 << 10

// ownHeaders are those that the protocol sets.
var ownHeaders = []string{"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// readHeaders reads a file with headers, which may have been replaced since the last time; no file: none.
func readHeaders(path string) (http.Header, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, headersMost+1))
	if err == nil && len(text) > headersMost {
		err = fmt.Errorf("longer than %d bytes", headersMost)
	}
	if err != nil {
		return nil, fmt.Errorf("read headers: %s: %w", path, err)
	}
	headers, err := parseHeaders(text)
	if err != nil {
		return nil, fmt.Errorf("read headers: %s: %w", path, err)
	}
	return headers, nil
}

// parseHeaders reads lines of the form "Name: value"; empty ones and those that begin with # are skipped. No
// error shows a value, which may be a secret.
func parseHeaders(text []byte) (http.Header, error) {
	headers := http.Header{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !found || !httpguts.ValidHeaderFieldName(name) || value == "" || !httpguts.ValidHeaderFieldValue(value):
			return nil, fmt.Errorf("line %d: use NAME: VALUE", number)
		case slices.Contains(ownHeaders, name):
			return nil, fmt.Errorf("line %d: header %s is set by OTLP", number, name)
		}
		headers.Add(name, value)
	}
	return headers, nil
}
