package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// processes are the process groups that the runner has started, with the times at which
// their leaders started. They are in a file, so that those which a killed runner left behind
// can be ended: a load that still runs would disturb what comes after.
type processes struct {
	path    string
	mutex   sync.Mutex
	running map[int]string
}

// openProcesses ends what an earlier runner left behind.
func openProcesses(path string) (*processes, error) {
	p := &processes{path: path, running: map[int]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read processes of an earlier run: %w", err)
	}
	var left map[int]string
	if json.Unmarshal(text, &left) != nil { // written at the moment of a crash
		return p, nil
	}
	for pid, started := range left {
		if pid > 1 && started != "" && startOf(pid) == started {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
	return p, nil
}

// add notes a process group; the returned function removes it.
func (p *processes) add(pid int) (forget func()) {
	p.change(func() { p.running[pid] = startOf(pid) })
	return func() { p.change(func() { delete(p.running, pid) }) }
}

// change writes the file; without it an experiment still runs.
func (p *processes) change(f func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	f()
	if text, err := json.Marshal(p.running); err == nil {
		_ = os.WriteFile(p.path, text, 0o600)
	}
}

func (p *processes) remove() error {
	if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startOf is when a process started, in ticks since the machine did, "" if there is none.
func startOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, after, found := bytes.Cut(text, []byte(") "))
	for next := found; next; { // the name of a program can contain what follows it
		var rest []byte
		if _, rest, next = bytes.Cut(after, []byte(") ")); next {
			after = rest
		}
	}
	const starttime = 19 // field 22, after the number and the name
	if fields := bytes.Fields(after); len(fields) > starttime {
		return string(fields[starttime])
	}
	return ""
}
