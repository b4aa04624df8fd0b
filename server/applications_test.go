package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestApplicationToken: addresses other than loopback require a token.
func TestApplicationToken(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"good": " secret\n", "empty": " \n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		address, file, want string
		bad                 bool
	}{
		{"127.0.0.1:3004", "", "", false}, {"[::1]:3004", "", "", false}, {"localhost:3004", "", "", false},
		{":3003", "", "", true}, {"0.0.0.0:3003", "", "", true}, {"[::]:3003", "", "", true}, {"noc.example:3003", "", "", true}, {"10.0.0.1:3003", "", "", true},
		{":3003", "good", "secret", false}, {":3003", "empty", "", true}, {":3003", "missing", "", true}, {"127.0.0.1", "", "", true},
	} {
		s := &server{config: Config{OML: []string{test.address}}}
		if test.file != "" {
			s.config.OMLToken = filepath.Join(folder, test.file)
		}
		if got, err := s.applicationToken(); got != test.want || (err != nil) != test.bad {
			t.Errorf("%s with %q: %q, %v", test.address, test.file, got, err)
		}
	}
}

// TestTablesAreKept: a retention for all streams does not remove the descriptions of tables.
func TestTablesAreKept(t *testing.T) {
	c := Config{Retention: map[string]Retention{"*": {Age: time.Hour}}}
	if got := c.retention("oml_tables"); got.Age != 0 {
		t.Errorf("retention of oml_tables is %v", got.Age)
	}
	if got := c.retention("oml_d_t"); got.Age != time.Hour {
		t.Errorf("retention of tuples is %v", got.Age)
	}
	c.Retention["oml_tables"] = Retention{Age: time.Minute}
	if got := c.retention("oml_tables"); got.Age != time.Minute {
		t.Errorf("explicit retention of oml_tables is %v", got.Age)
	}
}
