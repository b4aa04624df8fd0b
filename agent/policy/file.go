package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"pillion.dev/internal/document"
	"pillion.dev/wire"
)

// fileMax bounds a policy file, bytes.
const fileMax = 1 << 20

// Open reads a file; keys that are absent have their defaults. An empty path stands for
// DefaultFile, or for the defaults if there is none. Nobody but root and the user of the
// process may be able to write the file.
func Open(path string) (*Policy, error) {
	given := path
	if path == "" {
		path = DefaultFile
	}
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) && given == "" {
		return Default(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	p, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, ErrPolicy, err)
	}
	p.file = path
	return p, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := owned(info, os.Geteuid()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return io.ReadAll(io.LimitReader(file, fileMax))
}

// owned returns an error if users other than root and the given one could write a file.
func owned(info fs.FileInfo, user int) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrPolicy)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%w: mode %04o lets others write it: chmod go-w", ErrPolicy, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != user {
		return fmt.Errorf("%w: user %d owns it, not root: chown root", ErrPolicy, stat.Uid)
	}
	return nil
}

func parse(text []byte) (*Policy, error) {
	p := Default()
	defaults := p.Sending
	p.Sending.Protocols = nil // a list in the file replaces the default list
	more, err := document.Decode(text, p)
	if errors.Is(err, io.EOF) {
		return Default(), nil
	}
	if err != nil {
		return nil, err
	}
	if more {
		return nil, errors.New("the file has more than one document")
	}
	if p.Sending.Protocols == nil {
		p.Sending.Protocols = defaults.Protocols
	}
	var names []string
	for _, key := range Keys() {
		names = append(names, key.Name)
	}
	p.lines = document.Lines(text, names)
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// wrong states which key of the file is invalid.
func (p *Policy) wrong(key, format string, a ...any) error {
	return &document.Error{Line: p.lines[key], Cause: fmt.Errorf("%s: %s", key, fmt.Sprintf(format, a...))}
}

// check validates what the file says.
func (p *Policy) check() (err error) {
	switch {
	case p.Sending.Rate <= 0:
		return p.wrong("sending.rate", "must be greater than 0; sending.allowed: false forbids sending")
	case p.Sending.PacketsPerSecond <= 0:
		return p.wrong("sending.packets_per_second", "must be greater than 0; sending.allowed: false forbids sending")
	case p.Marking.Every == 0:
		return p.wrong("marking.every", "must be greater than 0; marking.allowed: false forbids marking")
	case p.Marking.PacketsPerSecond < 0 || p.Marking.PacketsPerSecond == 0 && p.lines["marking.packets_per_second"] != 0:
		return p.wrong("marking.packets_per_second", "must be greater than 0; marking.allowed: false forbids marking")
	}
	for _, name := range p.Sending.Protocols {
		if !slices.Contains(protocols, name) {
			return p.wrong("sending.protocols", "unknown protocol %q; valid: %s", name, strings.Join(protocols, ", "))
		}
	}
	if p.Sending.targets, err = p.parsePrefixes("sending.targets", p.Sending.Targets); err != nil {
		return err
	}
	if p.prefixes, err = p.parsePrefixes("prefixes", p.Prefixes); err != nil {
		return err
	}
	if p.transit, err = p.parsePrefixes("transit", p.Transit); err != nil {
		return err
	}
	for key, patterns := range map[string][]string{"peers": p.Peers, "devices": p.Devices} {
		for _, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil {
				return p.wrong(key, "%q is not a pattern", pattern)
			}
		}
	}
	for _, name := range p.Encodings {
		if _, err := wire.ParseEncodings(name); err != nil || strings.Contains(name, ",") {
			return p.wrong("encodings", "unknown encoding %q; valid: %s", name, wire.EncodingNames())
		}
	}
	return nil
}

func (p *Policy) parsePrefixes(key string, texts []string) (prefixes []netip.Prefix, err error) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, p.wrong(key, "%q is not a prefix, such as 10.0.0.0/8", text)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

// File returns the path of the file; empty: there is none.
func (p *Policy) File() string { return p.file }
