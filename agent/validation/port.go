package validation

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pillion.dev/wire"
)

// portSocket is a socket on the UDP port of path probes, and the user who opened it.
type portSocket struct{ inode, uid string }

// portSockets lists those in the network namespace of the calling thread.
func portSockets() (found []portSocket) {
	port := fmt.Sprintf(":%04X", wire.ProbePort)
	for _, table := range []string{"udp", "udp6"} {
		text, _ := os.ReadFile("/proc/thread-self/net/" + table) // empty if the host lacks the family
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st queues timer retrnsmt uid timeout inode
			if fields := strings.Fields(line); len(fields) > 9 && strings.HasSuffix(fields[1], port) {
				found = append(found, portSocket{fields[9], fields[7]})
			}
		}
	}
	return found
}

// PortHolders names the processes other than this one that hold the UDP port of path probes in the network
// namespace of the calling thread, as far as this one may see them; empty: none.
func PortHolders() string { return holders(portSockets()) }

func holders(sockets []portSocket) string {
	var names []string
	for _, s := range sockets {
		if name := s.holder(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("UDP port %d is in use by %s", wire.ProbePort, strings.Join(names, " and "))
}

// holder names the process that has the socket open, or at least the user; empty: this process.
func (s portSocket) holder() string {
	name := s.uid
	if found, err := user.LookupId(s.uid); err == nil {
		name = found.Username
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || target != "socket:["+s.inode+"]" {
			continue
		}
		process := strings.Split(file, "/")[2]
		if process == strconv.Itoa(os.Getpid()) {
			return ""
		}
		command, _ := os.ReadFile("/proc/" + process + "/comm") // empty if it has just ended
		return fmt.Sprintf("%q (process %s, user %s)", strings.TrimSpace(string(command)), process, name)
	}
	return "a process of user " + name
}
