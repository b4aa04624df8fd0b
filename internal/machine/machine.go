// Package machine describes a host by the facts that change what a packet costs: kernel,
// processor, governor, SMT, mitigations, offloads.
//
// The same table says what is read here, by Read, and on a host that only a shell reaches, by
// Script and Parse, so that hosts can be compared. It measures nothing and changes nothing.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// Facts are names and values. A fact that a host does not have, such as the governor of a
// virtual machine, is absent. Names of mitigations and offloads have a prefix:
// mitigations.spectre_v2, offloads.eth0.rx-gro.
type Facts map[string]string

// Prefixes of names.
const (
	Mitigations = "mitigations."
	Offloads    = "offloads."
)

// files have one fact each.
var files = []struct{ name, path string }{
	{"kernel", "/proc/sys/kernel/osrelease"},
	{"kernel_build", "/proc/sys/kernel/version"},
	{"host", "/proc/sys/kernel/hostname"},
	{"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
	{"smt", "/sys/devices/system/cpu/smt/control"},
	{"clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
	{"turbo_off", "/sys/devices/system/cpu/intel_pstate/no_turbo"},
	{"boot_options", "/proc/cmdline"},
	{"bpf_jit", "/proc/sys/net/core/bpf_jit_enable"},
	{"hypervisor", "/sys/hypervisor/type"},
	{"isolated_cpus", "/sys/devices/system/cpu/isolated"},
	{"transparent_pages", "/sys/kernel/mm/transparent_hugepage/enabled"},
}

// Files from which facts are derived, and the name of what is no file.
const (
	processorFile   = "/proc/cpuinfo"
	memoryFile      = "/proc/meminfo"
	systemFile      = "/etc/os-release"
	mitigationsGlob = "/sys/devices/system/cpu/vulnerabilities/*"
	architecture    = "uname"
	featuresOf      = "ethtool:" // and the name of a device
)

// Incomplete is the name of a fact: why others are absent.
const Incomplete = "incomplete"

// Limits of what another host says.
const (
	mostText    = 4 << 20
	mostFacts   = 400
	mostName    = 100
	mostValue   = 2000
	mostDevices = 16
)

// features are the offloads that change what a packet costs, by the kernel's names.
var features = []string{
	"rx-checksum", "tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation", "tx-tcp6-segmentation",
	"tx-udp-segmentation", "tx-generic-segmentation", "rx-gro", "rx-lro", "rx-gro-hw",
}

// shown are the names that the program ethtool has for some of them.
var shown = map[string]string{
	"rx-checksumming": "rx-checksum", "generic-segmentation-offload": "tx-generic-segmentation",
	"generic-receive-offload": "rx-gro", "large-receive-offload": "rx-lro",
}

// Read describes this host, with the devices of the calling thread's network namespace: those
// that are named, or all but loopback.
func Read(devices ...string) Facts {
	found := map[string]string{}
	read := func(path string) {
		if text, err := os.ReadFile(path); err == nil { // absent on many machines
			found[path] = string(text)
		}
	}
	for _, f := range files {
		read(f.path)
	}
	mitigations, _ := filepath.Glob(mitigationsGlob) // the pattern is valid
	for _, path := range append(mitigations, processorFile, memoryFile, systemFile) {
		read(path)
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		found[architecture] = unix.ByteSliceToString(name.Machine[:])
	}
	facts := derive(found)
	if len(devices) == 0 {
		devices = interfaces()
	}
	handle, err := ethtool.NewEthtool()
	if err != nil {
		return facts
	}
	defer handle.Close()
	for _, device := range devices {
		on, _ := handle.Features(device) // a device that has no features, or is gone
		for _, feature := range features {
			if state, known := on[feature]; known {
				facts[Offloads+device+"."+feature] = onOff(state)
			}
		}
	}
	return facts
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// interfaces are the network interfaces of this thread's namespace, without loopback.
func interfaces() []string {
	found, _ := net.Interfaces() // none: no offloads
	var names []string
	for _, i := range found {
		if i.Flags&net.FlagLoopback == 0 && len(names) < mostDevices {
			names = append(names, i.Name)
		}
	}
	return names
}

// derive makes facts of the texts of files.
func derive(found map[string]string) Facts {
	facts := Facts{}
	add := func(name, value string) {
		value = strings.Join(strings.Fields(value), " ")
		if value != "" && len(facts) < mostFacts && len(name) <= mostName {
			facts[name] = value[:min(len(value), mostValue)]
		}
	}
	for _, f := range files {
		add(f.name, found[f.path])
	}
	add("machine", found[architecture])
	processors, model := 0, ""
	for key, value := range fields(found[processorFile], ":") {
		switch key {
		case "processor":
			processors++
		case "model name":
			model = value
		}
	}
	if processors > 0 {
		add("processors", strconv.Itoa(processors))
	}
	add("processor", model)
	for key, value := range fields(found[memoryFile], ":") {
		kib, err := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 64)
		if key == "MemTotal" && err == nil {
			add("memory_mb", strconv.FormatUint(kib>>10, 10))
		}
	}
	for key, value := range fields(found[systemFile], "=") {
		if key == "PRETTY_NAME" {
			add("system", strings.Trim(value, `"`))
		}
	}
	folder := filepath.Dir(mitigationsGlob)
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if filepath.Dir(path) == folder {
			add(Mitigations+filepath.Base(path), found[path])
		}
		if device, is := strings.CutPrefix(path, featuresOf); is {
			for key, value := range fields(found[path], ":") {
				if name, renamed := shown[key]; renamed {
					key = name
				}
				state, _, _ := strings.Cut(value, " ") // [fixed]
				if slices.Contains(features, key) && (state == "on" || state == "off") {
					add(Offloads+device+"."+key, state)
				}
			}
		}
	}
	return facts
}

// fields yields the names and values of the lines of a text.
func fields(text, separator string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(text) {
			key, value, found := strings.Cut(line, separator)
			if found && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// heading begins each text in the output of the script.
const heading = "\x01"

// Script is a POSIX shell script that prints what Parse reads: the same as Read reads, with
// the devices that are named, or all but loopback. It needs no privilege; without the program
// ethtool there are no offloads.
func Script(devices ...string) string {
	var s strings.Builder
	s.WriteString("PATH=$PATH:/usr/sbin:/sbin; export LC_ALL=C; for f in")
	for _, f := range files {
		s.WriteString(" " + f.path)
	}
	s.WriteString(" " + mitigationsGlob + " " + memoryFile + " " + systemFile)
	s.WriteString(`; do [ -r "$f" ] && printf '\001%s\n' "$f" && head -c 4096 "$f"; done; `)
	s.WriteString(`printf '\001` + processorFile + `\n'; grep -e '^processor' -e '^model name' ` + processorFile + `; `)
	s.WriteString(`printf '\001` + architecture + `\n'; uname -m; for d in`)
	if len(devices) == 0 {
		s.WriteString(" $(ls /sys/class/net)")
	}
	for _, device := range devices {
		s.WriteString(" '" + strings.ReplaceAll(device, "'", `'\''`) + "'")
	}
	s.WriteString(`; do [ "$d" = lo ] || { printf '\001` + featuresOf + `%s\n' "$d"; ethtool -k "$d" 2>/dev/null; }; done; exit 0`)
	return s.String()
}

// Parse reads the output of the script.
func Parse(text []byte) (Facts, error) {
	if len(text) > mostText {
		return nil, fmt.Errorf("read description of a host: %d bytes, limit %d", len(text), mostText)
	}
	found := map[string]string{}
	path, devices := "", 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, mostText+1)
	for lines.Scan() {
		line := lines.Text()
		// A file without a newline at its end is followed by the next heading.
		before, next, begins := strings.Cut(line, heading)
		if path != "" && before != "" {
			found[path] += before + "\n"
		}
		if begins {
			path = next
			if strings.HasPrefix(path, featuresOf) {
				if devices++; devices > mostDevices {
					path = ""
				}
			}
		}
	}
	facts := derive(found)
	if facts["kernel"] == "" {
		return nil, fmt.Errorf("read description of a host: %q has no kernel", string(text[:min(len(text), 100)]))
	}
	return facts, nil
}

// Bound keeps those facts of another host that this version would report itself, in form.
func Bound(from map[string]string) Facts {
	facts := Facts{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		printable := func(text string) bool {
			return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
		}
		if len(facts) < mostFacts && len(name) <= mostName && len(from[name]) <= mostValue && printable(name) && printable(from[name]) {
			facts[name] = from[name]
		}
	}
	return facts
}

// own are facts in which hosts differ that are equal in all that matters.
var own = []string{"host", "boot_options", "kernel_build", "version", Incomplete}

// Differences names the facts in which hosts differ, by host. Devices are compared only where
// each host has one.
func Differences(hosts map[string]Facts) []string {
	values := map[string]map[string]string{} // by fact and host
	for host, facts := range hosts {
		device, several := "", false
		for name := range facts {
			if rest, is := strings.CutPrefix(name, Offloads); is {
				its := rest[:max(0, strings.LastIndexByte(rest, '.'))]
				several = several || device != "" && device != its
				device = its
			}
		}
		for name, value := range facts {
			if rest, is := strings.CutPrefix(name, Offloads); is {
				if several {
					continue
				}
				name = Offloads + strings.TrimPrefix(rest, device+".")
			}
			if values[name] == nil {
				values[name] = map[string]string{}
			}
			values[name][host] = value
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(own, name) {
			continue
		}
		distinct := map[string]bool{}
		var parts []string
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			value, known := values[name][host]
			switch {
			case known:
			case strings.HasPrefix(name, Offloads) || hosts[host][Incomplete] != "":
				continue // several devices, no ethtool, or an earlier version
			default:
				value = "none"
			}
			distinct[value] = true
			parts = append(parts, fmt.Sprintf("%s of %s", value, host))
		}
		if len(distinct) > 1 {
			lines = append(lines, name+": "+strings.Join(parts, ", "))
		}
	}
	return lines
}
