package runner

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pillion.dev/lab"
	"pillion.dev/study/experiment"
)

// place is where a command runs: this machine, a host of a lab or one that ssh reaches.
type place struct {
	name string
	lab  *lab.Lab
	ssh  string
	// pin is the number of the processor to which the command is bound, or -1 for none.
	pin int
}

// shell prepares a shell command and returns it with the function that starts it. variables are the environment
// variables that the command gets on another host.
func (p place) shell(text string, variables []string) (*exec.Cmd, func() error) {
	arguments := []string{"sh", "-c", text}
	if p.ssh != "" {
		arguments = append(append([]string{"ssh"}, sshOptions()...), p.ssh, p.remote(text, variables))
	}
	command := exec.Command(arguments[0], arguments[1:]...)
	// The terminal does not send SIGINT to another process group, so that this program can stop commands in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command, func() error { return p.start(command) }
}

// sshOptions keep ssh from prompting and make it exit if the connection breaks.
func sshOptions() []string {
	return []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"}
}

// remote returns the command line that ssh executes. ssh does not forward signals, so that the end of
// standard input interrupts the command: when this program closes it, and when the connection or
// this program ends. A shell starts background commands with standard input from
// /dev/null and with SIGINT ignored, hence the descriptor 3 and env. A shell that is just starting a
// program can lose a SIGINT: the command then gets SIGTERM after 10 s, and SIGKILL after 5 more.
func (p place) remote(text string, variables []string) string {
	before := ""
	for _, variable := range variables {
		before += quote(variable) + " "
	}
	if p.pin >= 0 {
		before += "taskset -c " + strconv.Itoa(p.pin) + " "
	}
	script := "exec 3<&0; setsid env --default-signal=INT " + before + "sh -c " + quote(text) + " & pid=$!; " +
		"{ cat <&3; kill -INT -$pid; sleep 10; kill -TERM -$pid; sleep 5; kill -KILL -$pid; } >/dev/null 2>&1 & wait $pid; code=$?; kill $! 2>/dev/null; exit $code"
	return "sh -c " + quote(script)
}

// start starts a command in the network namespace of the place, bound to its processor.
func (p place) start(command *exec.Cmd) error {
	start := command.Start
	if p.pin >= 0 && p.ssh == "" {
		start = func() error { return pinned(p.pin, command.Start) }
	}
	if p.lab != nil {
		return p.lab.Do(p.name, start)
	}
	return start()
}

// pinned runs f on a thread that is bound to a processor; processes that f starts inherit the binding.
func pinned(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read processors of this thread: %w", err)
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("bind to processor %d (environment.pin): %w", cpu, err)
	}
	err := f()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

// quote quotes a text as one word of a shell command.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// place returns the place of a host; the empty name means the host on which the load runs by default.
func (r *runner) place(host string) (place, error) {
	p := place{name: host, pin: -1}
	if host == "" && r.lab != nil {
		p.name = r.source
	}
	if r.lab != nil {
		if _, ok := r.lab.Spec.Hosts[p.name]; ok {
			p.lab = r.lab
		}
	}
	entry, ok := r.spec.Hosts[p.name]
	p.ssh = entry.SSH
	switch {
	case p.name == "" || p.lab != nil:
	case !ok:
		return p, fmt.Errorf("find host %q: %w", p.name, errNoHost)
	case p.ssh == "" && !entry.Local:
		return p, fmt.Errorf("run a command on host %s: it has no ssh and is not local", p.name)
	}
	pins := r.spec.Environment.Pin
	for _, name := range slices.Compact([]string{p.name, r.role(p.name)}) {
		if cpu, ok := pins[name]; ok && name != "" {
			p.pin = cpu
		}
	}
	return p, nil
}

// loadPlace returns the place where the load runs.
func (r *runner) loadPlace() (place, error) {
	p, err := r.place(r.spec.Run.On)
	if cpu, ok := r.spec.Environment.Pin["run"]; ok {
		p.pin = cpu
	}
	return p, err
}

// role returns the role of a host in sessions: source, destination, or "" for neither.
func (r *runner) role(host string) string {
	switch host {
	case "":
		return ""
	case r.source:
		return experiment.RoleSource
	case r.destination:
		return experiment.RoleDestination
	}
	return ""
}
