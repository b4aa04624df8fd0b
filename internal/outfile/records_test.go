package outfile

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var columns = []string{"n", "text", "delay_ns"}

// add adds a record whose delay was not measured.
func add(r *Records, n int64, text string) { r.Add(n, text, nil) }

func mustOpen(t *testing.T, o RecordsFile) *Records {
	t.Helper()
	r, err := o.Open(columns...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecordsFormat: what was not measured is empty in CSV, and null in NDJSON.
func TestRecordsFormat(t *testing.T) {
	for _, test := range []struct{ name, file, format, want string }{
		{"by default", "out", "", "n,text,delay_ns\n-1,\"a,\"\"b\",\n2,c,3\n"},
		{"by its end", "out.ndjson", "", `{"n":-1,"text":"a,\"b","delay_ns":null}` + "\n" + `{"n":2,"text":"c","delay_ns":3}` + "\n"},
		{"format over name", "out.ndjson", CSV, "n,text,delay_ns\n-1,\"a,\"\"b\",\n2,c,3\n"},
		{"format", "out.csv", NDJSON, `{"n":-1,"text":"a,\"b","delay_ns":null}` + "\n" + `{"n":2,"text":"c","delay_ns":3}` + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), test.file)
			r := mustOpen(t, RecordsFile{Path(path), test.format})
			add(r, -1, `a,"b`)
			r.Add(2, "c", If(true, uint64(3)))
			count, err := r.Close()
			if err != nil || count != (Count{Written: 2}) {
				t.Fatalf("%+v, %v", count, err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != test.want {
				t.Errorf("%q, %v; want %q", text, err, test.want)
			}
		})
	}
}

// TestRecordsGrow: a record can be read before the file is closed, so that a crash loses only the
// last ones.
func TestRecordsGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	r := mustOpen(t, RecordsFile{Path: Path(path)})
	add(r, 1, "a")
	for deadline := time.Now().Add(2 * time.Minute); ; {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == "n,text,delay_ns\n1,a,\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the file has %q", text)
		}
	}
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// lineOf reads a line.
func lineOf(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	if line, err := from.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("read %q, %v; want %q", line, err, want)
	}
}

// TestRecordsFIFO: records wait for the first reader. When it leaves, the measurement goes on.
func TestRecordsFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := RecordsFile{Path: Path(path)}.open(columns, queueMax)
	if err != nil {
		t.Fatal(err)
	}
	add(r, 1, "a")
	if r.flush(time.Minute) || !errors.Is(r.err, errNoReader) {
		t.Fatalf("written to nobody: %v", r.err)
	}
	// Not blocking: nothing has the FIFO open for writing yet.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !r.flush(time.Minute) {
		t.Fatalf("not written: %v", r.err)
	}
	reader := bufio.NewReader(file)
	lineOf(t, reader, "n,text,delay_ns")
	lineOf(t, reader, "1,a,")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	add(r, 2, "nobody reads it")
	r.flush(time.Minute)
	add(r, 3, "nobody reads it")
	go r.run(nil)
	count, err := r.Close()
	if count != (Count{Written: 1, Lost: 2}) || err == nil || !strings.Contains(err.Error(), "2 of 3 records were lost: broken pipe") {
		t.Errorf("%+v, %v", count, err)
	}
}

// TestRecordsWithoutReader: nothing was written, not even the title.
func TestRecordsWithoutReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, RecordsFile{Path: Path(path)})
	add(r, 1, "a")
	if count, err := r.Close(); count != (Count{Lost: 1}) || !errors.Is(err, errNoReader) {
		t.Errorf("%+v, %v", count, err)
	}
}

// TestRecordsSlowReader: records never wait for a reader; those that are lost are counted, and
// what arrives is whole.
func TestRecordsSlowReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r, err := RecordsFile{Path: Path(path)}.open(columns, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 100)
	const all = 10_000 // more than a pipe and the queue hold
	for n := range int64(all) {
		add(r, n, text)
		if n%5 == 0 {
			r.flush(time.Millisecond)
		}
	}
	got := make(chan int, 1)
	go func() {
		lines := -1 // the title
		for in := bufio.NewReader(reader); ; lines++ {
			line, err := in.ReadString('\n')
			if err == io.EOF {
				break
			}
			if lines >= 0 && strings.Count(line, ",") != 2 || err != nil {
				lines = -all
				break
			}
		}
		got <- lines
	}()
	go r.run(nil)
	count, err := r.Close()
	if err == nil || !strings.Contains(err.Error(), "the reader was too slow") || count.Lost == 0 || count.Written+count.Lost != all {
		t.Errorf("%+v, %v", count, err)
	}
	if lines := <-got; uint64(lines) != count.Written {
		t.Errorf("%d lines, want %d", lines, count.Written)
	}
}

// TestRecordsOfNobody: a socket whose reader leaves ends neither the program nor the measurement.
func TestRecordsOfNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listen(t, path)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := RecordsFile{Path: Path("unix:" + path)}.open(columns, queueMax)
	if err != nil {
		t.Fatal(err)
	}
	r.file.Close()
	r.file = os.NewFile(uintptr(ends[0]), "socket")
	if err := unix.Close(ends[1]); err != nil {
		t.Fatal(err)
	}
	go r.run(nil)
	add(r, 1, "a")
	if count, err := r.Close(); err == nil || !strings.Contains(err.Error(), "broken pipe") || count != (Count{Lost: 1}) {
		t.Errorf("%+v, %v", count, err)
	}
}

func TestRecordsRefused(t *testing.T) {
	if r, err := (RecordsFile{}).Open(columns...); r != nil || err != nil {
		t.Errorf("no file: %v, %v", r, err)
	}
	for want, o := range map[string]RecordsFile{
		"no file name": {Format: CSV},
		"no such file": {Path: "/nonexistent/x"},
		"is a direct":  {Path: Path(t.TempDir())},
	} {
		if _, err := o.Open(columns...); err == nil || !strings.Contains(err.Error(), "create record file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
