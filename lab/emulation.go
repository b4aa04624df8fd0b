package lab

import (
	"context"
	"fmt"
	"os"

	"pillion.dev/lab/emulator"
)

// Files that an emulator inherits after standard input, output and error.
const (
	firstTap  = 3
	secondTap = 4
)

// startEmulator creates the taps of a link and starts the process that connects them. It
// returns once the process forwards frames.
func (b *builder) startEmulator(ctx context.Context, l *Link) error {
	config, err := b.emulatorConfig(l)
	if err != nil {
		return err
	}
	var taps []*os.File
	for end, host := range l.Ends {
		tap, err := createTap(b.spec.Name, host, l.Interfaces[end])
		if err != nil {
			return fmt.Errorf("create link %s at %s: %w", l.Name, host, err)
		}
		defer tap.Close()
		taps = append(taps, tap)
	}
	if err := b.state.save(l.Name+".config", config); err != nil {
		return err
	}
	return b.startHelper(ctx, l.Name, taps, "emulate", "--lab", b.spec.Name, "--link", l.Name)
}

func (b *builder) emulatorConfig(l *Link) (*emulator.Config, error) {
	faults, err := l.faults()
	if err != nil {
		return nil, err
	}
	config := &emulator.Config{
		Lab: b.spec.Name, Link: l.Name, Seed: l.Emulate.Seed, MTU: l.MTU, Faults: faults,
		Truth: b.spec.truthFile(l), Socket: b.state.path(l.Name + ".socket"), Packets: l.Emulate.Packets,
	}
	for end, host := range l.Ends {
		config.Ends[end] = emulator.End{
			Host: host, Namespace: namespace(b.spec.Name, host), Interface: l.Interfaces[end],
		}
	}
	return config, nil
}

// truthFile is the path of a link's truth file.
func (s *Spec) truthFile(l *Link) string {
	if l.Emulate.Truth != "" {
		return l.Emulate.Truth + ".json"
	}
	return stateOf(s.Name).path(l.Name + ".json")
}

// RunEmulator is the main function of an emulator process, which startEmulator starts.
// It returns nil when ctx is done.
func RunEmulator(ctx context.Context, lab, link string) error {
	if err := awaitGo(); err != nil {
		return err
	}
	var config emulator.Config
	if err := stateOf(lab).load(link+".config", &config); err != nil {
		return err
	}
	return emulator.Run(ctx, config, [2]int{firstTap, secondTap}, func() { fmt.Print(readyLine) })
}
