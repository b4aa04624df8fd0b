package agent

import (
	"fmt"
	"net/netip"
	"os"

	"pillion.dev/cli/command"
	"pillion.dev/wire"
)

// readKey reads the key by which marks are authenticated from a file that only its owner may
// read: it must not be seen in the list of processes.
func readKey(path string) (wire.Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return wire.Key{}, fmt.Errorf("read key: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return wire.Key{}, fmt.Errorf("read key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return wire.Key{}, fmt.Errorf("read key: %w: others than the owner may read or write %s (mode %v): run chmod 600 %[2]s",
			command.ErrValue, path, info.Mode().Perm())
	}
	key, err := wire.ParseKey(string(text))
	if err != nil {
		return wire.Key{}, fmt.Errorf("read key from %s: %w: %w", path, command.ErrValue, err)
	}
	return key, nil
}

// everyHost are the prefixes of all hosts.
var everyHost = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
