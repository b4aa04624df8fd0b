package pillion

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// openTerminal opens a pseudo-terminal of a size: what is written to the second file is
// read from the first.
func openTerminal(t *testing.T, columns, rows uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals on this machine: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// startOnTerminal starts a command on a terminal of a size. It is killed if it hangs.
func (p *program) startOnTerminal(columns, rows uint16, words ...string) (master *os.File, command *exec.Cmd) {
	p.t.Helper()
	master, slave := openTerminal(p.t, columns, rows)
	command = p.command(words...)
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	slave.Close()
	hung := time.AfterFunc(hang.Limit, func() { _ = command.Process.Kill() })
	p.t.Cleanup(func() { hung.Stop() })
	return master, command
}

// readUntil reads the terminal until it shows a text, or its other end is closed.
func readUntil(master *os.File, text string, so *strings.Builder) bool {
	buffer := make([]byte, 4096)
	for !strings.Contains(so.String(), text) {
		n, err := master.Read(buffer)
		so.Write(buffer[:n])
		if err != nil {
			return false
		}
	}
	return true
}

func TestWatchOnTerminal(t *testing.T) {
	_, server := newFake(t)
	p := newProgram(t, server)
	p.environment = append(p.environment, "TERM=xterm")
	master, command := p.startOnTerminal(120, 20, "session", "watch", "web")
	var shown strings.Builder
	if !readUntil(master, "500 µs", &shown) {
		t.Errorf("no delays on the terminal:\n%q", shown.String())
	}
	if !strings.Contains(shown.String(), "\x1b[?1049h") {
		t.Errorf("the watch begins with %.40q", shown.String())
	}
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var after strings.Builder
	readUntil(master, "\x00", &after)
	if err := command.Wait(); err != nil {
		t.Errorf("interrupted watch: %v", err)
	}
	restore := strings.LastIndex(after.String(), "\x1b[?1049l")
	if restore < 0 || !strings.Contains(after.String(), "\x1b[?25h") || !strings.Contains(after.String()[restore:], "500 µs") {
		t.Errorf("the terminal was not restored, or lacks the last figures: %q", after.String())
	}
}

// TestWatchOnTerminalEnds: the watch of a session that has ended ends by itself.
func TestWatchOnTerminalEnds(t *testing.T) {
	f, server := newFake(t)
	f.mutex.Lock()
	f.sent = true
	f.mutex.Unlock()
	p := newProgram(t, server)
	p.environment = append(p.environment, "TERM=xterm")
	master, command := p.startOnTerminal(120, 20, "session", "watch", "web")
	var shown strings.Builder
	readUntil(master, "\x00", &shown)
	if err := command.Wait(); err != nil || !strings.Contains(shown.String(), "the session is ended") {
		t.Errorf("%v; the terminal shows %q", err, shown.String())
	}
}
