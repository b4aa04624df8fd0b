package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/internal/store"
	"pillion.dev/lab"
)

// leftoverFile lists, in the folder of the results, what has to be undone if the runner is
// killed: a load that still runs, or a treatment that is still applied, would disturb what
// comes after.
const leftoverFile = "left.json"

// leftover is what a runner leaves behind when it is killed.
type leftover struct {
	// Boot is the boot ID of this machine: after another boot no process is left.
	Boot string `json:"boot"`
	// Processes are process groups, with the times at which their leaders started.
	Processes map[int]string `json:"processes,omitempty"`
	Lab       string         `json:"lab,omitempty"`
	// Stops are the commands that undo treatments and the setup, the last one first.
	Stops []stop `json:"stops,omitempty"`
	// Sessions are the sessions on the server that the user has selected.
	Sessions []string `json:"sessions,omitempty"`
}

// stop undoes a treatment, or the setup, on a host.
type stop struct {
	Host      string        `json:"host"`
	Command   string        `json:"command"`
	Variables []string      `json:"variables"`
	Timeout   time.Duration `json:"timeout"`
}

// leftovers keeps the file up to date.
type leftovers struct {
	path  string
	mutex sync.Mutex
	leftover
}

// openLeftovers returns what an earlier runner left, nil for nothing.
func openLeftovers(path string) (*leftovers, *leftover, error) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, processes are not matched
	l := &leftovers{path: path, leftover: leftover{Boot: strings.TrimSpace(string(boot)), Processes: map[int]string{}}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil, nil
	}
	before := &leftover{}
	if err == nil {
		err = json.Unmarshal(text, before)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read what an earlier run left behind: %w", err)
	}
	return l, before, nil
}

// change writes the file, so that it is whole whenever the runner is killed.
func (l *leftovers) change(f func()) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	f()
	text, err := json.Marshal(l.leftover)
	if err == nil {
		err = store.Replace(l.path, text, 0o600) // other hosts survive a crash of this machine
	}
	if err != nil {
		return fmt.Errorf("note what has to be undone: %w", err)
	}
	return nil
}

// add notes a process group; the returned function removes it.
func (l *leftovers) add(pid int) (forget func(), err error) {
	err = l.change(func() { l.Processes[pid] = startOf(pid) })
	return func() { _ = l.change(func() { delete(l.Processes, pid) }) }, err // a group that has ended is not matched
}

// addStop notes a command that undoes a treatment; the returned function removes it.
func (l *leftovers) addStop(s stop) (forget func(), err error) {
	err = l.change(func() { l.Stops = append([]stop{s}, l.Stops...) })
	return func() { _ = l.change(func() { l.Stops = l.Stops[1:] }) }, err // it would be run once more
}

// addSession notes a session on the user's server; the returned function removes it.
func (l *leftovers) addSession(name string) (forget func(), err error) {
	err = l.change(func() { l.Sessions = append(l.Sessions, name) })
	return func() {
		_ = l.change(func() { l.Sessions = slices.DeleteFunc(l.Sessions, func(s string) bool { return s == name }) })
	}, err // one that does not exist is skipped
}

// remove removes the file, and what a runner that was killed while it replaced it left.
func (l *leftovers) remove() error {
	files, err := filepath.Glob(l.path + "*")
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// undoLeftovers ends and undoes what a killed runner left behind: its processes, by their
// groups and by the folder of the results in their environment, its lab, its treatments and
// its sessions.
func (r *runner) undoLeftovers(ctx context.Context, before *leftover) error {
	if before == nil {
		return nil
	}
	if before.Boot != r.left.Boot {
		before.Processes = nil
	} else if ended := before.endProcesses(r.results); ended > 0 {
		r.say("ended %s that an interrupted run left", quantity.Count(ended, "process group"))
	}
	if before.Lab != "" {
		err := lab.Down(ctx, before.Lab)
		if err != nil && !errors.Is(err, lab.ErrNoLab) {
			return fmt.Errorf("remove the lab of an interrupted run: %w", err)
		}
		if err == nil {
			r.say("removed lab %s that an interrupted run left", before.Lab)
		}
	}
	for _, s := range before.Stops {
		if err := r.undoStop(ctx, s); err != nil { // the treatment may not have been applied
			r.say("undo what an interrupted run did: %v", err)
		} else {
			r.say("undid what an interrupted run did: %s", s.Command)
		}
	}
	for _, name := range before.Sessions {
		if err := r.endSession(ctx, name); err != nil {
			return fmt.Errorf("end the session of an interrupted run: %w", err)
		}
	}
	return nil
}

// undoStop runs the stop command of a treatment, unless it was in a lab, which is gone.
func (r *runner) undoStop(ctx context.Context, s stop) error {
	if r.spec.Lab != "" && r.spec.Hosts[s.Host].SSH == "" && !r.spec.Hosts[s.Host].Local {
		return nil
	}
	p, err := r.place(s.Host)
	if err != nil {
		return err
	}
	r.variables = s.Variables
	return r.finish(ctx, p, s.Command, s.Timeout)
}

// endProcesses interrupts processes, so that they undo what they do, ends those that stay,
// and returns how many groups there were.
func (l *leftover) endProcesses(folder string) int {
	groups := map[int]bool{}
	for pid, started := range l.Processes {
		if pid > 1 && started != "" && startOf(pid) == started {
			groups[pid] = true
		}
	}
	for _, pid := range processesOf(folder) {
		if group, err := syscall.Getpgid(pid); err == nil && group > 1 && group != syscall.Getpgrp() {
			groups[group] = true
		}
	}
	left := maps.Clone(groups)
	for _, step := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{
		{syscall.SIGINT, interruptTimeout},
		{syscall.SIGTERM, stopTimeout}, // background commands of shells ignore interrupts
		{syscall.SIGKILL, stopTimeout}, // more only if the kernel holds it
	} {
		for group := range left {
			_ = syscall.Kill(-group, step.signal) // it may have ended meanwhile
		}
		for begin := time.Now(); len(left) > 0 && time.Since(begin) < step.timeout; time.Sleep(5 * time.Millisecond) {
			maps.DeleteFunc(left, func(group int, _ bool) bool { return syscall.Kill(-group, 0) != nil })
		}
	}
	return len(groups)
}

// interruptTimeout is how long what a killed runner left may take to end after an interrupt.
const interruptTimeout = 2 * time.Second

// resultsVariable tells commands the folder of the results, and this runner which processes an earlier runner
// started, even if they have left its process groups.
const resultsVariable = "PILLION_RESULTS"

// processesOf are the processes with the folder in their environment, without this one and
// those that it is a child of.
func processesOf(folder string) []int {
	own := map[int]bool{}
	for pid := os.Getpid(); pid > 1 && !own[pid]; pid = parentOf(pid) {
		own[pid] = true
	}
	wanted := []byte("\x00" + resultsVariable + "=" + folder + "\x00")
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	var found []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append([]byte{0}, text...), wanted) {
			continue // of another user, or ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && !own[pid] {
			found = append(found, pid)
		}
	}
	return found
}

// statOf are the fields of /proc/PID/stat behind the name, of which the first is the state.
func statOf(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	at := bytes.LastIndex(text, []byte(") ")) // the name of a program can contain it
	if at < 0 {
		return nil
	}
	return strings.Fields(string(text[at+2:]))
}

// startOf is when a process started, in ticks since the machine did, "" if there is none.
func startOf(pid int) string {
	const starttime = 19 // field 22, after the number and the name
	if fields := statOf(pid); len(fields) > starttime && fields[0] != "Z" {
		return fields[starttime]
	}
	return ""
}

func parentOf(pid int) int {
	fields := statOf(pid)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1]) // 0 ends the search
	return parent
}
