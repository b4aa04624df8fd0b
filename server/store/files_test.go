package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFormatOfFiles: a file has the items in the order of their keys, for its owner only.
func TestFormatOfFiles(t *testing.T) {
	folder := t.TempDir()
	f := NewFiles(folder)
	write(t, f, "hosts", "hosts/b", `{"x":1}`, "hosts/a", `"<&>"`, "left/1", "1")
	write(t, f, "hosts", "hosts/c", "[]")
	path := filepath.Join(folder, "hosts.json")
	const want = "{\n  \"hosts/a\": \"\\u003c\\u0026\\u003e\",\n  \"hosts/b\": {\n    \"x\": 1\n  },\n  \"hosts/c\": [],\n  \"left/1\": 1\n}\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if items := load(t, NewFiles(folder), "hosts"); len(items) != 4 || items["hosts/c"] != "[]" {
		t.Errorf("loaded %s", items)
	}
}

// TestFaultyFiles: a damaged file is not overwritten, and a failed write changes nothing.
func TestFaultyFiles(t *testing.T) {
	folder := t.TempDir()
	for _, text := range []string{"{", "[]", `{"a":}`, `{"hosts":[]}`} {
		if err := os.WriteFile(filepath.Join(folder, "hosts.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := NewFiles(folder)
		if _, err := f.Load(t.Context(), "hosts"); err == nil {
			t.Errorf("loaded %s", text)
		}
		if err := f.Write(t.Context(), "hosts", map[string][]byte{"left/1": []byte("1")}); err == nil {
			t.Errorf("overwrote %s", text)
		}
	}
	f := NewFiles(folder)
	write(t, f, "tables", "tables/a", "1")
	if err := f.Write(t.Context(), "tables", map[string][]byte{"tables/b": []byte("{")}); err == nil {
		t.Error("wrote an item that is no JSON")
	}
	if items := load(t, f, "tables"); len(items) != 1 || items["tables/a"] != "1" {
		t.Errorf("after a failed write: %s", items)
	}
}
