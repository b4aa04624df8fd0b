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
	if err := os.WriteFile(filepath.Join(folder, "admin.token"), []byte("pt_1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := c.read(); err != nil || token != "pt_1" {
		t.Errorf("%q, %v", token, err)
	}
}
