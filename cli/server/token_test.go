package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestToken(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "join.token"), []byte("pj_1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := tokenCmd{place: place{Data: folder}, Token: "join"}
	if token, err := c.read(); err != nil || token != "pj_1" {
		t.Errorf("%q, %v", token, err)
	}
	c.Token = "admin"
	if _, err := c.read(); !errors.Is(err, errNoToken) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, name := range []string{"operator.token", "admin.token"} { // an earlier version's, and the one that precedes it
		if err := os.WriteFile(filepath.Join(folder, name), []byte("pt_"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := c.read(); err != nil || token != "pt_"+name {
			t.Errorf("%q, %v, want that of %s", token, err, name)
		}
	}
}
