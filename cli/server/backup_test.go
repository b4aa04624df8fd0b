package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/server"
)

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hang.Limit); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// storedBatches returns the sequence numbers of an agent's stored batches, and fails if
// one is stored twice or in part.
func storedBatches(t *testing.T, folder, agent string) (sequences []uint64) {
	t.Helper()
	a, err := archive.Open(server.DefaultArchive, archive.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	sql := "SELECT sent_bytes, count(*) FROM interfaces WHERE agent = '" + agent + "' GROUP BY ALL ORDER BY ALL"
	err = a.Query(t.Context(), sql, nil, archive.Limits{Rows: 1e6, Time: time.Minute}, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			sequence, rows := r.Column(0).(*array.Uint64).Value(i), r.Column(1).(*array.Int64).Value(i)
			if int(rows) != rowsIn(sequence) {
				t.Errorf("batch %d of %s has %d rows, want %d", sequence, agent, rows, rowsIn(sequence))
			}
			sequences = append(sequences, sequence)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sequences
}

// TestBackupOfAStoppedServer: the directory is locked and copied; damage is found.
func TestBackupOfAStoppedServer(t *testing.T) {
	base := t.TempDir()
	folder, destination, restored := filepath.Join(base, "data"), filepath.Join(base, "backup"), filepath.Join(base, "restored")
	w, stop := serving(t, folder)
	agent := connect(t, w, join(t, w, "a"))
	send(t, agent, envelope(t, "a", 3))
	agent.Close()
	stop()
	if code := Main([]string{"backup", destination, "--data", folder}); code != 0 {
		t.Fatalf("backup: exit code %d", code)
	}
	file := filepath.Join(destination, "agents.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := Main([]string{"restore", destination, "--data", restored}); code == 0 {
		t.Error("restored a damaged backup")
	}
	if left, err := os.ReadDir(restored); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := Main([]string{"restore", destination, "--data", restored}); code != 0 {
		t.Fatalf("restore: exit code %d", code)
	}
	if got := storedBatches(t, restored, "a"); !slices.Equal(got, []uint64{3}) {
		t.Errorf("got %v", got)
	}
}

// TestDocumentedBackup runs the commands of the documentation, on other paths.
func TestDocumentedBackup(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "pillion-server")
	_, stop := serving(t, folder)
	stop()
	paths := strings.NewReplacer("/srv/backup", filepath.Join(base, "backup"), "/var/lib", base)
	ran := 0
	for _, block := range regexp.MustCompile("(?ms)^```sh backup\n(.*?)^```$").FindAllStringSubmatch(commandtest.Text(t, "../../docs/howto/backup.md"), -1) {
		for line := range strings.Lines(block[1]) {
			words := strings.Fields(paths.Replace(line))
			switch {
			case words[0] == "pillion-server":
				if code := Main(append(words[1:], "--data", folder)); code != 0 {
					t.Errorf("%s: exit code %d", line, code)
				}
			case words[0] == "mv":
				if err := os.Rename(words[1], words[2]); err != nil {
					t.Error(err)
				}
			}
			ran++
		}
	}
	if ran != 3 {
		t.Errorf("%d commands, want 3", ran)
	}
}
