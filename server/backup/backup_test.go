package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pillion.dev/internal/store"
)

// dataIn returns a data directory of a stopped server.
func dataIn(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"agents.json": "{}", "authority/authority.pem": "key", ArchiveFile: "rows", ArchiveFile + ".wal": "log", ArchiveFile + ".tmp/x": "spilled",
		"tokens.json.12345": "half written", lockFile: "", SocketFile: "",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestTakeAndRestore(t *testing.T) {
	data, to, back := dataIn(t), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "back")
	if err := os.Remove(filepath.Join(data, SocketFile)); err != nil { // a running server's is not a regular file
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "rows.duckdb")
	m, err := Take(t.Context(), data, filepath.Join(data, ArchiveFile), to, nil)
	if err != nil || len(m.Files) != 4 {
		t.Fatalf("got %+v, %v", m, err)
	}
	if _, err := Restore(to, back, elsewhere, nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(back, "agents.json"): "{}", filepath.Join(back, "authority/authority.pem"): "key", elsewhere: "rows", elsewhere + ".wal": "log",
	} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(back, IncompleteFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("marked as incomplete: %v", err)
	}
	if _, err := Restore(to, filepath.Join(t.TempDir(), "x"), elsewhere, nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over an archive elsewhere: %v", err)
	}
}

func TestInvalidBackups(t *testing.T) {
	for name, row := range map[string]struct {
		manifest string
		want     error
	}{
		"none":      {"", ErrDamaged},
		"cut off":   {`{"format":1,"files":[`, nil},
		"outside":   {`{"format":1,"files":[{"path":"../../etc/passwd"}]}`, ErrDamaged},
		"absolute":  {`{"format":1,"files":[{"path":"/etc/passwd"}]}`, ErrDamaged},
		"missing":   {`{"format":1,"files":[{"path":"agents.json"}]}`, os.ErrNotExist},
		"changed":   {`{"format":1,"files":[{"path":"tokens.json","bytes":1,"sha256":"00"}]}`, ErrDamaged},
		"twice":     {`{"format":1,"files":[{"path":"empty","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},{"path":"empty"}]}`, os.ErrExist},
		"of future": {`{"format":2,"version":"v9"}`, store.ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), filepath.Join(t.TempDir(), "data")
			files := map[string]string{"tokens.json": "x", "empty": ""}
			if row.manifest != "" {
				files[manifestFile] = row.manifest
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(from, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Restore(from, to, filepath.Join(to, ArchiveFile), nil)
			if err == nil || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if left, err := os.ReadDir(to); err == nil && len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"files":[{"path":"a/b","bytes":1,"sha256":"00"}]}`))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(folder, manifestFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadManifest(folder)
		for _, file := range m.Files {
			if err == nil && !filepath.IsLocal(file.Path) {
				t.Errorf("path %q", file.Path)
			}
		}
	})
}
