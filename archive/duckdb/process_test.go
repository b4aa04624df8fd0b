package duckdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sys/unix"

	"pillion.dev/archive"
)

// queryProcesses returns the processes that answer queries of this one.
func queryProcesses(t testing.TB, parent int) []int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		line, _ := os.ReadFile(entry)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(entry), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if strings.HasPrefix(string(line), "pillion-query\x00") && len(fields) > 1 && fields[0] != "Z" && (parent == 0 || fields[1] == strconv.Itoa(parent)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
			found = append(found, pid)
		}
	}
	return found
}

// anonymous is the memory of a process that is not that of a file, bytes.
func anonymous(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kib, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return kib << 10
}

// watchMemory samples this process and those of its queries until stop returns the
// most of both.
func watchMemory(t *testing.T) (stop func() (own, queries int64)) {
	done, ended := make(chan struct{}), make(chan [2]int64)
	go func() {
		var most [2]int64
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		for {
			most[0] = max(most[0], anonymous(os.Getpid()))
			for _, pid := range queryProcesses(t, os.Getpid()) {
				most[1] = max(most[1], anonymous(pid))
			}
			select {
			case <-done:
				ended <- most
				return
			case <-ticks.C:
			}
		}
	}()
	return func() (int64, int64) { close(done); most := <-ended; return most[0], most[1] }
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(20 * time.Second); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("not after 20 s: %s", what)
		}
	}
}

func ignore(arrow.RecordBatch) error { return nil }

// TestQueryTookGigabytesOfTheServer: queries whose memory DuckDB does not count stay
// within the bound, or end with an error that names it.
func TestQueryTookGigabytesOfTheServer(t *testing.T) { queryTookGigabytes(t, false) }

// queryTookGigabytes tries some queries, or, long, others.
func queryTookGigabytes(t *testing.T, long bool) {
	const bound = 64 << 20
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{Memory: bound})
	store(t, a, lineBatch(t, 0, 0, 10_000))
	for _, row := range []struct {
		sql        string
		fits, long bool
	}{
		{"SELECT len(list_resize([1::BIGINT],40000000))", false, true},
		{"SELECT len(range(40000000))", false, true},
		{"SELECT len(list(range)) FROM range(40000000)", false, false},
		{"SELECT len(list_resize([max(v)],40000000)) FROM lines", false, true},
		{"SELECT string_agg(a.line, '') FROM lines a, lines b, range(10)", false, true},
		{"SELECT count(*) FROM range(40000000)", true, false},
		{"SELECT count(*) FROM (SELECT range FROM range(4000000) ORDER BY hash(range))", true, true}, // spills
	} {
		if row.long != long {
			continue
		}
		t.Run(row.sql, func(t *testing.T) {
			before := anonymous(os.Getpid())
			stop := watchMemory(t)
			err := a.Query(t.Context(), row.sql, nil, archive.Limits{Rows: 10, Time: time.Minute}, ignore)
			own, queries := stop()
			if row.fits != (err == nil) || err != nil && (!errors.Is(err, archive.ErrQuery) || !strings.Contains(err.Error(), "query exceeded 64 MiB of memory")) {
				t.Errorf("fits %v: %v", row.fits, err)
			}
			if queries > bound || own-before > bound/2 {
				t.Errorf("the query used %d MiB, the server %d MiB more, bound %d", queries>>20, (own-before)>>20, bound>>20)
			}
		})
	}
	if err := a.Query(t.Context(), "FROM lines", nil, archive.Limits{}, ignore); err != nil {
		t.Errorf("the next query: %v", err)
	}
}

// TestQueryOutlivesItsTime: a query that never ends is killed at its time limit, and when
// the caller leaves.
func TestQueryOutlivesItsTime(t *testing.T) {
	a := lineArchive(t, 10)
	const endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
	begun := time.Now()
	err := a.Query(t.Context(), endless, nil, archive.Limits{Time: 300 * time.Millisecond}, ignore)
	if !errors.Is(err, archive.ErrQuery) || !strings.Contains(err.Error(), "time limit of 300ms") || time.Since(begun) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Query(ctx, endless, nil, archive.Limits{}, ignore) }()
	eventually(t, "the query runs", func() bool { return len(queryProcesses(t, os.Getpid())) == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left := queryProcesses(t, os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v remain", left)
	}
}

// TestManyQueriesAtOnce: more than the limit wait.
func TestManyQueriesAtOnce(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{Queries: archive.Queries{AtOnce: 2}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	const all = 12
	for range all {
		go func() {
			ended <- a.Query(ctx, "SELECT count(*) FROM range(100000000000)", nil, archive.Limits{Time: time.Second}, ignore)
		}()
	}
	most := 0
	for finished := 0; finished < all; {
		select {
		case <-ended:
			finished++
		default:
			most = max(most, len(queryProcesses(t, os.Getpid())))
		}
		if finished == 4 {
			cancel()
		}
	}
	cancel()
	if most != 2 {
		t.Errorf("%d processes at once, want 2", most)
	}
}

// TestQueryProcessOutlivesTheServer: none remains after the server is killed.
func TestQueryProcessOutlivesTheServer(t *testing.T) {
	if folder := os.Getenv("PILLION_TEST_SERVER"); folder != "" {
		a := open(t, filepath.Join(folder, "a"), Options{})
		_ = a.Query(t.Context(), "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b", nil, archive.Limits{}, ignore)
		return
	}
	server := exec.Command("/proc/self/exe", "-test.run", "^TestQueryProcessOutlivesTheServer$")
	server.Env = append(os.Environ(), "PILLION_TEST_SERVER="+t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var of []int
	eventually(t, "the query runs", func() bool {
		of = queryProcesses(t, server.Process.Pid)
		return len(of) == 1
	})
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	server.Wait()
	eventually(t, "the process has ended", func() bool {
		return !slices.ContainsFunc(queryProcesses(t, 0), func(pid int) bool { return slices.Contains(of, pid) })
	})
}

// escapes are what code that runs in the process could try, and must fail.
var escapes = map[string]func() error{
	"read a file":      func() error { _, err := os.ReadFile("/etc/passwd"); return err },
	"list a folder":    func() error { _, err := os.ReadDir("/"); return err },
	"write a file":     func() error { return os.WriteFile("/tmp/pillion-query-escaped", nil, 0o600) },
	"read its parent":  func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid())); return err },
	"open a socket":    func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
	"open a local one": func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"open netlink":     func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err },
	"connect":          func() error { _, err := net.Dial("tcp", "127.0.0.1:22"); return err },
	"run a program":    func() error { return exec.Command("/bin/true").Run() },
	"replace itself":   func() error { return syscall.Exec("/bin/true", []string{"true"}, nil) },
	"kill its parent":  func() error { return syscall.Kill(os.Getppid(), syscall.SIGTERM) },
	"trace":            func() error { return unix.PtraceAttach(os.Getppid()) },
	"load BPF":         func() error { _, _, e := unix.Syscall(unix.SYS_BPF, 0, 0, 0); return errnoOf(e) },
	"enter namespaces": func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"use io_uring":     func() error { _, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); return errnoOf(e) },
	"raise its limits": func() error { return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}) },
	"become root":      func() error { return syscall.Setuid(0) },
	"change a mode":    func() error { return os.Chmod(".", 0o777) },
}

func errnoOf(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

const escapeSQL = "SELECT 'escape'"

// It is set before this package's init starts to answer.
var _ = func() bool {
	whenConfined = func(sql string) error {
		if sql != escapeSQL {
			return nil
		}
		said := []string{}
		for name, try := range escapes {
			if err := try(); err == nil {
				said = append(said, name)
			}
		}
		return fmt.Errorf("escapes: %q, user %d, environment %q", said, os.Getuid(), os.Environ())
	}
	return true
}()

// TestQueryProcessReachesFilesOrSockets: even code that runs in the process cannot.
func TestQueryProcessReachesFilesOrSockets(t *testing.T) {
	a := lineArchive(t, 10)
	err := a.Query(t.Context(), escapeSQL, nil, archive.Limits{}, ignore)
	user := os.Getuid()
	if user == 0 {
		user = nobody
	}
	if want := fmt.Sprintf("escapes: [], user %d, environment []", user); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, sql := range []string{
		"SELECT * FROM read_csv('/etc/passwd')", "FROM '/etc/passwd'", "ATTACH '/tmp/x.db'", "COPY lines TO '/tmp/x.csv'", "INSTALL httpfs", "LOAD httpfs",
		"FROM read_csv('http://127.0.0.1/')", "FROM stream_rows(0)",
	} {
		if err := a.Query(t.Context(), sql, nil, archive.Limits{}, ignore); !errors.Is(err, archive.ErrQuery) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestQueryProcessCrashes: the caller learns of it, and the server goes on.
func TestQueryProcessCrashes(t *testing.T) {
	a := lineArchive(t, 10)
	ended := make(chan error)
	go func() {
		ended <- a.Query(t.Context(), "SELECT count(*) FROM range(100000000000)", nil, archive.Limits{}, ignore)
	}()
	var of []int
	eventually(t, "the query runs", func() bool { of = queryProcesses(t, os.Getpid()); return len(of) == 1 })
	if err := syscall.Kill(of[0], syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, archive.ErrQuery) || !strings.Contains(err.Error(), "process that answered the query ended") {
		t.Errorf("got %v", err)
	}
	if n := count(t, a, "SELECT count(*) FROM lines"); n != 10 || a.broken.Load() {
		t.Errorf("%d rows, broken %v", n, a.broken.Load())
	}
	if left, _ := os.ReadDir(a.queriesFolder()); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}
