package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pillion.dev/session"
)

// Thresholds for free disk space and memory, bytes.
const (
	diskLow   = 1 << 30 // the default size limit of the spool
	diskFull  = 64 << 20
	memoryLow = 128 << 20
)

const mebibyte = 1 << 20

func checkResources(folder string) []session.Check {
	free, disk := freeDisk(folder)
	available, memory := freeMemory()
	return []session.Check{judgeDisk(folder, free, disk), judgeMemory(available, memory)}
}

// freeDisk is the space available to unprivileged users on the file system of the
// folder, or of its nearest existing parent.
func freeDisk(folder string) (uint64, error) {
	for {
		var found unix.Statfs_t
		err := unix.Statfs(folder, &found)
		if err == nil {
			return found.Bavail * uint64(found.Bsize), nil
		}
		above := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || above == folder {
			return 0, fmt.Errorf("read free disk space of %q: %w", folder, err)
		}
		folder = above
	}
}

func judgeDisk(folder string, free uint64, err error) session.Check {
	const name = "disk"
	if err != nil {
		return unknown(name, err)
	}
	check := ok(name, "%d MiB free for %s", free/mebibyte, folder)
	if free < diskLow {
		check.Level = Warning
		check.Advice = "the spool keeps up to spool_bytes (default 1 GiB) while the server is unreachable: free disk space, or lower spool_bytes"
	}
	if free < diskFull {
		check.Level = Error
		check.Advice = "free disk space: nothing can be kept while the server is unreachable; df -h " + folder
	}
	return check
}

// freeMemory is the memory available without swapping.
func freeMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read free memory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var kibibytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kibibytes); n == 1 {
			return kibibytes << 10, nil
		}
	}
	return 0, errors.New("read free memory: /proc/meminfo has no MemAvailable")
}

func judgeMemory(available uint64, err error) session.Check {
	const name = "memory"
	if err != nil {
		return unknown(name, err)
	}
	check := ok(name, "%d MiB available", available/mebibyte)
	if available < memoryLow {
		check.Level, check.Advice = Warning, "flow tables need memory: ps aux --sort=-rss lists the largest processes"
	}
	return check
}
