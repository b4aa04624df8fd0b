package runner

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/version"
)

// environment describes the machine, as metadata of the results. What is not available is
// absent.
func (r *runner) environment() map[string]any {
	e := map[string]any{"processors": runtime.NumCPU(), "version": version.String(), "runner": os.Args[0]}
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			e[name] = value
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		add("kernel", unix.ByteSliceToString(name.Release[:]))
		add("kernel_build", unix.ByteSliceToString(name.Version[:]))
		add("machine", unix.ByteSliceToString(name.Machine[:]))
		add("host", unix.ByteSliceToString(name.Nodename[:]))
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		e["memory_mb"] = uint64(info.Totalram) * uint64(info.Unit) >> 20
	}
	add("processor", field("/proc/cpuinfo", "model name", ":"))
	add("system", strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`))
	for name, path := range map[string]string{
		"governor":          "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		"smt":               "/sys/devices/system/cpu/smt/control",
		"clock_source":      "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		"turbo_off":         "/sys/devices/system/cpu/intel_pstate/no_turbo",
		"boot_options":      "/proc/cmdline",
		"bpf_jit":           "/proc/sys/net/core/bpf_jit_enable",
		"load_before":       "/proc/loadavg",
		"hypervisor":        "/sys/hypervisor/type",
		"isolated_cpus":     "/sys/devices/system/cpu/isolated",
		"transparent_pages": "/sys/kernel/mm/transparent_hugepage/enabled",
	} {
		text, _ := os.ReadFile(path) // absent on many machines
		add(name, string(text))
	}
	if m := mitigations(); len(m) > 0 {
		e["mitigations"] = m
	}
	add("commit", commit(filepath.Dir(r.Path)))
	if path, err := filepath.Abs(r.Path); err == nil {
		e["file"] = path
	}
	return e
}

// mitigations are what the kernel does about weaknesses of the processor, by weakness.
func mitigations() map[string]string {
	files, _ := filepath.Glob("/sys/devices/system/cpu/vulnerabilities/*") // the pattern is valid
	found := map[string]string{}
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil {
			found[filepath.Base(path)] = strings.TrimSpace(string(text))
		}
	}
	return found
}

// commit is the git description of a folder, "" outside of a repository.
func commit(folder string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	name, _ := exec.CommandContext(ctx, "git", "-C", folder, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").Output()
	return string(name)
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
