package lab

import (
	"context"
	"fmt"

	"pillion.dev/lab/emulator"
)

// Truth returns the current truth of a link's emulator; if the emulator has ended, the
// last one that it wrote.
func (l *Lab) Truth(ctx context.Context, link string) (*emulator.Truth, error) {
	found, err := l.emulated(link)
	if err != nil {
		return nil, err
	}
	if _, alive := l.state.process(link); alive {
		if err := emulator.Refresh(ctx, l.state.path(link+".socket")); err != nil {
			return nil, fmt.Errorf("read truth of link %s: %w", link, err)
		}
	}
	return emulator.ReadTruth(l.Spec.truthFile(found))
}

// Change sets faults of a running link, for what the host from sends or, if from
// is empty, in both directions. Packets already in flight are not affected.
func (l *Lab) Change(ctx context.Context, link, from string, change emulator.Change) error {
	found, err := l.emulated(link)
	if err != nil {
		return err
	}
	if from != "" && from != found.Ends[0] && from != found.Ends[1] {
		return fmt.Errorf("change link %s from %s: no end of it: %w", link, from, ErrNoHost)
	}
	if _, alive := l.state.process(link); !alive {
		return fmt.Errorf("change link %s: %w", link, ErrBroken)
	}
	return emulator.Apply(ctx, l.state.path(link+".socket"), from, change)
}

// emulated finds an emulated link by its name.
func (l *Lab) emulated(link string) (*Link, error) {
	for i := range l.Spec.Links {
		if found := &l.Spec.Links[i]; found.Name == link && found.Emulate != nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("find link %q of lab %s: %w", link, l.Spec.Name, ErrNoLink)
}

// EmulatedLinks names the links that have an emulator, in the order of the file.
func (l *Lab) EmulatedLinks() []string {
	var names []string
	for _, link := range l.Spec.Links {
		if link.Emulate != nil {
			names = append(names, link.Name)
		}
	}
	return names
}
