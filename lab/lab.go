// Package lab builds testbeds from a YAML file: hosts are network namespaces, links are
// veth pairs, or pairs of taps connected by a process that delays, drops, duplicates and
// reorders packets and records what it did.
//
// Pillion's whole-system tests and demonstrations run in labs. The package does not
// measure: a lab is complete when packets flow. It requires root and changes nothing
// outside the namespaces that it creates.
//
// Of the packages below, emulator is that process, demo the demonstration, machine boots other
// kernels in QEMU, and receiver takes notifications in tests.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"pillion.dev/internal/netns"
)

// Errors that a user can correct.
var (
	ErrNotRoot = errors.New("not root")
	ErrNoLab   = errors.New("no such lab")
	ErrNoHost  = errors.New("no such host")
	ErrNoLink  = errors.New("no such emulated link")
	ErrMany    = errors.New("more than one lab is up")
	// ErrBroken is returned if the emulator of a link has ended.
	ErrBroken = errors.New("its emulator has ended")
	// ErrForeign is returned if a namespace of a lab's name exists that no lab
	// created.
	ErrForeign = errors.New("exists and belongs to no lab")
)

// Lab is a testbed that is up.
type Lab struct {
	Spec  Spec
	state state
}

// Options change how Up works.
type Options struct {
	// Agent is the pillion-agent binary that emulates links; by default the
	// running program.
	Agent string
	// Forward, if not nil, listens on the port that the service forwards; nil: Up listens itself. The
	// forwarder gets a copy: the caller closes it after Up.
	Forward *net.TCPListener
}

// Up builds the lab. A lab of the same name that is up, or was left incomplete by a
// crash, is taken down first. If Up fails or ctx ends, everything is removed again.
func Up(ctx context.Context, spec *Spec, options Options) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("take lab %s up: %w", spec.Name, ErrNotRoot)
	}
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("take lab %s up: %w: %w", spec.Name, ErrSpec, err)
	}
	agent := options.Agent
	if agent == "" {
		agent = "/proc/self/exe"
	}
	s := stateOf(spec.Name)
	release, err := s.prepare(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("take lab %s up: %w", spec.Name, err)
	}
	defer release()
	b := &builder{spec: spec, state: s, agent: agent, forward: options.Forward}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("take lab %s up: %w", spec.Name, err), s.takeDown())
	}
	return &Lab{*spec, s}, nil
}

// prepare locks an empty state folder for a lab, after taking down an older one.
func (s state) prepare(ctx context.Context, spec *Spec) (release func(), err error) {
	for {
		release, err := s.lock(ctx, true)
		if err != nil {
			return nil, err
		}
		if !s.has("spec.json") {
			for host := range spec.Hosts {
				if name := namespace(spec.Name, host); netns.Exists(name) {
					defer release()
					err := fmt.Errorf("create namespace %s: %w", name, ErrForeign)
					return nil, errors.Join(err, os.RemoveAll(string(s)))
				}
			}
			return release, nil
		}
		err = s.takeDown() // removes the folder, and the lock with it
		release()
		if err != nil {
			return nil, err
		}
	}
}

// Down removes a lab, also one left incomplete by a crash: its processes, emulators,
// links, namespaces and state.
func Down(ctx context.Context, name string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("take lab %s down: %w", name, ErrNotRoot)
	}
	if !labName.MatchString(name) {
		return fmt.Errorf("take lab %q down: %w", name, ErrNoLab)
	}
	s := stateOf(name)
	release, err := s.lock(ctx, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoLab
	}
	if err != nil {
		return fmt.Errorf("take lab %s down: %w", name, err)
	}
	defer release()
	if err := s.takeDown(); err != nil {
		return fmt.Errorf("take lab %s down: %w", name, err)
	}
	return nil
}

// Find returns the name of the only lab, up or incomplete.
func Find() (string, error) {
	names, err := List()
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", fmt.Errorf("find lab: none is up: %w", ErrNoLab)
	case len(names) > 1:
		return "", fmt.Errorf("find lab: %w: %s", ErrMany, strings.Join(names, ", "))
	}
	return names[0], nil
}

// Open finds a lab that is up. Without a name it finds the only one.
func Open(name string) (*Lab, error) {
	var err error
	if name == "" {
		if name, err = Find(); err != nil {
			return nil, err
		}
	}
	if !labName.MatchString(name) {
		return nil, fmt.Errorf("find lab %q: %w", name, ErrNoLab)
	}
	l := &Lab{state: stateOf(name)}
	err = l.state.load("spec.json", &l.Spec)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoLab
	}
	if err != nil {
		return nil, fmt.Errorf("find lab %s: %w", name, err)
	}
	return l, nil
}

// List returns the names of the labs, up or incomplete.
func List() ([]string, error) {
	entries, err := os.ReadDir(stateRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && labName.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// builder makes a lab step by step.
type builder struct {
	spec    *Spec
	state   state
	agent   string
	forward *net.TCPListener
}

func (b *builder) build(ctx context.Context) error {
	if err := b.state.save("spec.json", b.spec); err != nil {
		return err
	}
	for _, host := range slices.Sorted(maps.Keys(b.spec.Hosts)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := createHost(b.spec.Name, host, b.spec.Hosts[host]); err != nil {
			return err
		}
	}
	if err := b.state.saveCookies(b.spec); err != nil { // before there are processes
		return err
	}
	for i := range b.spec.Links {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := &b.spec.Links[i]
		create := func() error { return createVeth(b.spec.Name, l) }
		if l.Emulate != nil {
			create = func() error { return b.startEmulator(ctx, l) }
		}
		if err := create(); err != nil {
			return err
		}
		if err := configureLink(b.spec.Name, i+1, l, b.spec.Neighbours == "static"); err != nil {
			return err
		}
	}
	if b.spec.Routes == "auto" {
		for host, routes := range b.spec.routes() {
			if err := netns.Do(namespace(b.spec.Name, host), func() error { return addRoutes(routes) }); err != nil {
				return fmt.Errorf("route host %s: %w", host, err)
			}
		}
	}
	if b.spec.Service != nil {
		if err := b.startService(ctx); err != nil {
			return err
		}
	}
	if err := b.startRuns(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.state.save("up", true)
}
