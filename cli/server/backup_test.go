package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/agent/identity"
	"pillion.dev/archive"
	"pillion.dev/cli/commandtest"
	"pillion.dev/server"
)

// sender sends batches one after another, as an agent whose spool has nothing older.
type sender struct {
	own   *identity.Identity
	acked atomic.Uint64 // the batches below it
	stop  chan struct{}
	ended sync.WaitGroup
}

func (s *sender) start(t *testing.T, w server.Welcome) {
	agent := connect(t, w, s.own)
	s.stop = make(chan struct{})
	s.ended.Go(func() {
		for {
			e := envelope(t, s.own.Name(), s.acked.Load())
			e.Oldest = e.Sequence
			if agent.Send(t.Context(), e) == nil {
				s.acked.Add(1)
			}
			select {
			case <-s.stop:
				agent.Close()
				return
			default:
			}
		}
	})
}

func (s *sender) halt() {
	close(s.stop)
	s.ended.Wait()
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
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

// TestBackupUnderLoad: a backup of a running server, restored elsewhere, has every row that
// was acknowledged before it, once; agents continue with the restored server, and all
// that it acknowledges is stored once.
func TestBackupUnderLoad(t *testing.T) {
	base := t.TempDir()
	folder, destination, restored := filepath.Join(base, "data"), filepath.Join(base, "backup"), filepath.Join(base, "restored")
	w, stop := serving(t, folder)
	senders := []*sender{{own: join(t, w, "a")}, {own: join(t, w, "b")}}
	for _, s := range senders {
		s.start(t, w)
		until(t, "batches are acknowledged", func() bool { return s.acked.Load() > 10 })
	}
	var before, after []uint64
	for _, s := range senders {
		before = append(before, s.acked.Load())
	}
	if code := Main([]string{"backup", destination, "--data", folder}); code != 0 {
		t.Fatalf("backup: exit code %d", code)
	}
	for i, s := range senders {
		until(t, "batches are acknowledged after the backup", func() bool { return s.acked.Load() > before[i]+20 })
	}
	if err := senders[0].own.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := Main([]string{"backup", destination, "--data", folder}); code == 0 {
		t.Error("a second backup overwrote the first")
	}
	for _, s := range senders {
		s.halt()
		after = append(after, s.acked.Load())
	}
	stop()
	if left, err := filepath.Glob(filepath.Join(folder, "*.backup")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if code := Main([]string{"restore", destination, "--data", folder}); code == 0 {
		t.Error("restored over a data directory")
	}
	if code := Main([]string{"restore", destination, "--data", restored, "--previous", folder}); code != 0 {
		t.Fatalf("restore: exit code %d", code)
	}
	w, stop = serving(t, restored)
	if w.First {
		t.Error("the restored server takes this for its first start")
	}
	for i, s := range senders {
		s.start(t, w)
		until(t, "batches are acknowledged by the restored server", func() bool { return s.acked.Load() > after[i]+10 })
		s.halt()
	}
	stop()
	for i, s := range senders {
		got := storedBatches(t, restored, s.own.Name())
		for sequence := range s.acked.Load() {
			if _, found := slices.BinarySearch(got, sequence); !found && (sequence < before[i] || sequence >= after[i]) {
				t.Errorf("batch %d of %s is lost; the backup began at %d, the restored server at %d", sequence, s.own.Name(), before[i], after[i])
			}
		}
	}
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
	for _, block := range regexp.MustCompile("(?ms)^```sh backup\n(.*?)^```$").FindAllStringSubmatch(commandtest.Text(t, document), -1) {
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
