// Package machine describes the machine whose figures an experiment reports.
package machine

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what figures depend on beside the program.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryMB  uint64 `json:"memory_mb"`
	Kernel    string `json:"kernel"`
	System    string `json:"system"`
	LoadBegin string `json:"load_begin"` // averages before the experiment
	LoadEnd   string `json:"load_end"`
}

// Describe reads the kernel's information; what is not available stays empty.
func Describe() Machine {
	m := Machine{Cores: runtime.NumCPU(), LoadBegin: Load()}
	m.Processor = field("/proc/cpuinfo", "model name", ":")
	m.System = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryMB = uint64(info.Totalram) * uint64(info.Unit) >> 20
	}
	return m
}

// Commit returns the git description of the measured checkout.
func Commit() string {
	name, err := exec.Command("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(name))
}

// Load returns the load averages of 1, 5 and 15 minutes.
func Load() string {
	text, _ := os.ReadFile("/proc/loadavg") // empty when there is none
	fields := bytes.Fields(text)
	return string(bytes.Join(fields[:min(3, len(fields))], []byte(" ")))
}

// field returns the value of the first line "key separator value" of a file.
func field(path, key, separator string) string {
	text, _ := os.ReadFile(path) // empty when there is none
	for line := range strings.Lines(string(text)) {
		left, right, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(left) == key {
			return strings.TrimSpace(right)
		}
	}
	return ""
}
