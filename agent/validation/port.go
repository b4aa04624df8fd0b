package validation

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pillion.dev/wire"
)

// PortHolders names the processes other than this one that hold the UDP port of path probes in the network
// namespace of the calling thread, as far as this one may see them; empty: none.
func PortHolders() string {
	port := fmt.Sprintf(":%04X", wire.ProbePort)
	names := map[string]bool{}
	four, _ := os.ReadFile("/proc/thread-self/net/udp")
	six, _ := os.ReadFile("/proc/thread-self/net/udp6") // empty if the host lacks the family
	for line := range strings.Lines(string(four) + string(six)) {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		if fields := strings.Fields(line); len(fields) > 9 && strings.HasSuffix(fields[1], port) {
			names[socketHolder(fields[9], fields[7])] = true
		}
	}
	if delete(names, ""); len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("UDP port %d is in use by %s", wire.ProbePort, strings.Join(slices.Sorted(maps.Keys(names)), " and "))
}

// socketHolder names the process that has a socket open, or at least the user who opened it; empty: this process.
func socketHolder(inode, uid string) string {
	name := uid
	if found, err := user.LookupId(uid); err == nil {
		name = found.Username
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == "socket:["+inode+"]" {
			process := strings.Split(file, "/")[2]
			if process == strconv.Itoa(os.Getpid()) {
				return ""
			}
			command, _ := os.ReadFile("/proc/" + process + "/comm")
			return fmt.Sprintf("%q (process %s, user %s)", strings.TrimSpace(string(command)), process, name)
		}
	}
	return "a process of user " + name
}
