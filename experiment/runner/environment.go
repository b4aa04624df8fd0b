package runner

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/safchain/ethtool"
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

// hostEnvironment describes the hosts at the ends of sessions: the offloads of their
// interfaces and, for those that ssh reaches, their kernels.
func (r *runner) hostEnvironment() map[string]any {
	e := map[string]any{}
	for _, host := range []string{r.source, r.destination} {
		p, err := r.place(host)
		if host == "" || err != nil {
			continue
		}
		if p.ssh != "" {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			text, _ := exec.CommandContext(ctx, "ssh", "-o", "BatchMode=yes", p.ssh, "uname -rm").Output() // absent if it fails
			cancel()
			e["kernel_"+host] = strings.TrimSpace(string(text))
			continue
		}
		other := r.source
		if host == r.source {
			other = r.destination
		}
		device, err := r.device(p, other)
		if err != nil {
			continue
		}
		var found map[string]bool
		read := func() error { found = offloads(device); return nil }
		if p.lab == nil {
			_ = read() // never fails
		} else if p.lab.Do(host, read) != nil {
			continue
		}
		e["offloads_"+host] = found
	}
	return e
}

// offloads are those of an interface that change what a packet costs.
func offloads(device string) map[string]bool {
	handle, err := ethtool.NewEthtool()
	if err != nil {
		return nil
	}
	defer handle.Close()
	features, err := handle.Features(device)
	if err != nil {
		return nil
	}
	found := map[string]bool{}
	for _, name := range []string{"rx-checksum", "tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation",
		"tx-tcp6-segmentation", "tx-udp-segmentation", "tx-generic-segmentation", "rx-gro", "rx-lro", "rx-gro-hw"} {
		if on, known := features[name]; known {
			found[name] = on
		}
	}
	return found
}
