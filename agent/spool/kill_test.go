package spool

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"pillion.dev/internal/test/sealed"
	"pillion.dev/measure"
)

// The child of TestKillLosesNothing puts values and delivers them to the socket until it
// is killed.
const childVariable = "PILLION_SPOOL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir, os.Getenv(childVariable+"_FIRST")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(sealed.Main(m))
}

func child(dir, from string) error {
	var first uint64
	if _, err := fmt.Sscan(from, &first); err != nil {
		return err
	}
	s, err := Open(filepath.Join(dir, "spool"), Options{LimitBytes: 64 << 20})
	if err != nil {
		return err
	}
	if lost := s.Stats(); lost.DroppedBatches > 0 {
		return fmt.Errorf("%d batches are reported as dropped", lost.DroppedBatches)
	}
	conn, err := net.Dial("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	var one sync.Mutex
	encode, answers := gob.NewEncoder(conn), bufio.NewReader(conn)
	send := func(_ context.Context, e measure.Envelope) error {
		one.Lock()
		defer one.Unlock()
		if err := encode.Encode(e); err != nil {
			return err
		}
		if answer, err := answers.ReadByte(); err != nil || answer != 'y' {
			return errors.Join(errAway, err)
		}
		return nil
	}
	go s.Run(context.Background(), send)
	for n := first; ; n++ {
		stream := []string{"a", "b"}[n%2]
		r := record(schemaOf(stream), n, 1, int(n%7)*300)
		if err := s.Put(schemaOf(stream), r); err != nil {
			return err
		}
		r.Release()
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
}

// serveChild stores batches; every third reply is lost.
func serveChild(listener net.Listener, v *server, replies *int) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	for decode := gob.NewDecoder(conn); ; *replies++ {
		var e measure.Envelope
		if decode.Decode(&e) != nil {
			return nil // the child was killed
		}
		answer := "y"
		if v.send(context.Background(), e) != nil || *replies%3 == 0 {
			answer = "n"
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return nil
		}
	}
}

func TestKillLosesNothing(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	written := map[uint64]bool{}
	replies, next := 0, uint64(0)
	for round := range 6 {
		next = killChild(t, dir, listener, v, &replies, next, 50+100*round, written)
	}
	s := openAt(t, filepath.Join(dir, "spool"), Options{})
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	missing := 0
	for n := range written {
		if v.values[n] != 1 {
			missing++
		}
	}
	if missing > 0 || len(written) == 0 {
		t.Errorf("%d of %d batches are missing", missing, len(written))
	}
	if lost := s.Stats(); lost.DroppedBatches > 0 {
		t.Errorf("%d batches are reported as dropped", lost.DroppedBatches)
	}
}

// killChild kills a child after a number of batches. It returns the first number that no
// child has used.
func killChild(t *testing.T, dir string, listener net.Listener, v *server, replies *int,
	first uint64, count int, written map[uint64]bool) uint64 {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childVariable+"="+dir, fmt.Sprintf("%s_FIRST=%d", childVariable, first))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serveChild(listener, v, replies) }()
	highest := first
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		var n uint64
		if _, err := fmt.Sscan(lines.Text(), &n); err != nil { // a line is written to a pipe completely or not at all
			t.Fatal(err)
		}
		// Put returned before the line was written, even if it was read after the kill.
		written[n] = true
		highest = max(highest, n)
		if i == count {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := command.Wait(); command.ProcessState.Exited() {
		t.Fatalf("the child was not killed: %v", err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	// Batches may have been put without a line: the next child starts well above them.
	return highest + 1_000_000
}
