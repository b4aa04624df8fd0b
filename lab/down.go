package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pillion.dev/internal/netns"
)

// takeDown removes everything that a lab may have created. The state is removed last, so
// that taking down can be repeated after a crash. The caller holds the lock.
func (s state) takeDown() error {
	var spec Spec
	if err := s.load("spec.json", &spec); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // nothing was created yet
			return os.RemoveAll(string(s))
		}
		return err
	}
	failed := errors.Join(s.endHelpers(&spec), s.forgetToken(&spec), s.endInhabitants(&spec))
	for host := range spec.Hosts {
		failed = errors.Join(failed, netns.Delete(namespace(spec.Name, host)))
	}
	if failed != nil {
		return failed
	}
	if err := os.RemoveAll(string(s)); err != nil {
		return fmt.Errorf("remove lab state: %w", err)
	}
	return nil
}

// endInhabitants ends the processes that run inside the lab, which would otherwise keep
// the unnamed namespaces alive. Names are resolved only in the mount namespace in which
// the lab was started; from another one, the namespaces are found by their cookies.
func (s state) endInhabitants(spec *Spec) error {
	ours := map[string]bool{}
	for host := range spec.Hosts {
		// This fails if a crash preceded the creation of the namespace: it has no processes.
		_ = netns.Do(namespace(spec.Name, host), func() error {
			where, err := os.Readlink("/proc/thread-self/ns/net")
			if err == nil {
				ours[where] = true
			}
			return err
		})
	}
	if len(ours) < len(spec.Hosts) {
		if err := s.addByCookie(ours); err != nil {
			return err
		}
	}
	var failed error
	for _, p := range inhabitants(ours) {
		failed = errors.Join(failed, p.end())
	}
	return failed
}

// endHelpers ends the emulators and the forwarder.
func (s state) endHelpers(spec *Spec) error {
	names := []string{"forward"}
	for _, l := range spec.Links {
		names = append(names, l.Name)
	}
	var failed error
	for _, name := range names {
		if p, alive := s.process(name); alive {
			failed = errors.Join(failed, p.end())
		}
	}
	return failed
}
