package clickhouse

import (
	"strings"
	"testing"
	"time"
)

func TestBind(t *testing.T) {
	for _, test := range []struct {
		sql       string
		arguments []any
		want      string
	}{
		{"SELECT ?, ?", []any{"a'\\b", nil}, `SELECT 'a\'\\b', NULL`},
		{"SELECT '?', \"?\", `?`, ? -- ?\n/* ? */ + ?", []any{1, uint64(1 << 63)}, "SELECT '?', \"?\", `?`, toInt64(1) -- ?\n/* ? */ + toUInt64(9223372036854775808)"},
		{`SELECT 'it''s \' ?', ?`, []any{true}, `SELECT 'it''s \' ?', 1`},
		{"SELECT ?", []any{time.Unix(1, 5)}, "SELECT toInt64(1000000005)"},
		{"SELECT ? IN ?", []any{"?", []string{"x", "?"}}, "SELECT '?' IN ['x', '?']"},
		{"SELECT '?", nil, "SELECT '?"},
	} {
		if got, err := bind(test.sql, test.arguments); err != nil || got != test.want {
			t.Errorf("%q: got %q, %v, want %q", test.sql, got, err, test.want)
		}
	}
	for sql, arguments := range map[string][]any{"SELECT ?, ?": {1}, "SELECT '?'": {1}, "SELECT ?": {struct{}{}}} {
		if got, err := bind(sql, arguments); err == nil {
			t.Errorf("%q: got %q", sql, got)
		}
	}
}

// FuzzBind: an argument stays within its literal, whatever the text is.
func FuzzBind(f *testing.F) {
	f.Add("SELECT ?", "it's")
	f.Add("SELECT '?' -- ?", `\' OR 1 = 1`)
	f.Fuzz(func(t *testing.T, sql, text string) {
		got, err := bind("? "+sql, []any{text})
		if err != nil {
			return
		}
		if n := quotedLength(got); !strings.HasPrefix(got[n:], " ") {
			t.Errorf("%q in %q: got %q", text, sql, got)
		}
	})
}
