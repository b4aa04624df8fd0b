package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDowngradeIsRefused: the error names the version that wrote the folder.
func TestDowngradeIsRefused(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		if err := CheckFormat(folder, "spool", 3); err != nil {
			t.Fatal(err)
		}
	}
	text := []byte(`{"format":4,"version":"v9.1","future":true}`)
	path := filepath.Join(folder, formatFile)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	err := CheckFormat(folder, "spool", 3)
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), `"v9.1"`) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("got %v", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != string(text) {
		t.Errorf("the record was changed: %s, %v", kept, err)
	}
	if err := CheckFormat(folder, "spool", 4); err != nil {
		t.Errorf("the same format: %v", err)
	}
}
