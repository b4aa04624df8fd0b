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

// Free disk and memory below which something is said, bytes.
const (
	diskLittle   = 1 << 30 // the default bound of the spool
	diskNone     = 64 << 20
	memoryLittle = 128 << 20
)

const mebibyte = 1 << 20

func checkRoom(folder string) []session.Check {
	free, disk := freeDisk(folder)
	available, memory := freeMemory()
	return []session.Check{judgeDisk(folder, free, disk), judgeMemory(available, memory)}
}

// freeDisk is what an ordinary user may still write where folder is, or where it
// would be made.
func freeDisk(folder string) (uint64, error) {
	for {
		var found unix.Statfs_t
		err := unix.Statfs(folder, &found)
		if err == nil {
			return found.Bavail * uint64(found.Bsize), nil
		}
		above := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || above == folder {
			return 0, fmt.Errorf("read free disk of %q: %w", folder, err)
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
	if free < diskLittle {
		check.Level = Warning
		check.Advice = "the spool holds what the server cannot take, 1 GiB if nothing else is said: make room, or set spool_bytes"
	}
	if free < diskNone {
		check.Level = Error
		check.Advice = "make room: nothing can be kept while the server is away; df -h " + folder
	}
	return check
}

// freeMemory is what can be used without swapping.
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
	if available < memoryLittle {
		check.Level, check.Advice = Warning, "tables of flows need memory: ps --sort=-rss aux shows who has it"
	}
	return check
}
