package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
)

// emulateArgs are the arguments after the program's name with which an emulator
// runs; they also identify it.
func emulateArgs(lab, link string) []string {
	return []string{"lab", "emulate", "--lab", lab, "--link", link}
}

// Files that an emulator inherits after standard input, output and error.
const (
	firstTap  = 3
	secondTap = 4
)

// startEmulator makes the taps of a link and the process that joins them, and
// returns once the process carries frames. The process does nothing until its pid
// is recorded: if we end before that, it reads the end of its input and ends too.
func (b *builder) startEmulator(l *Link) error {
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
	log, err := os.Create(b.state.path(l.Name + ".log"))
	if err != nil {
		return fmt.Errorf("create emulator log: %w", err)
	}
	defer log.Close()
	if err := b.state.save(l.Name+".config", config); err != nil {
		return err
	}
	command := exec.Command(b.agent, emulateArgs(b.spec.Name, l.Name)...)
	command.ExtraFiles, command.Stderr = taps, log
	command.SysProcAttr = &unix.SysProcAttr{Setsid: true} // Ctrl-C is for us
	command.Dir = "/"
	input, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("start emulator of %s: %w", l.Name, err)
	}
	defer input.Close()
	ready, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start emulator of %s: %w", l.Name, err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start emulator of %s: %w", l.Name, err)
	}
	p, err := identify(command.Process.Pid)
	if err == nil {
		err = b.state.save(l.Name+".pid", p)
	}
	if err == nil {
		_, err = fmt.Fprintln(input, "go")
	}
	input.Close()
	word, readErr := bufio.NewReader(ready).ReadString('\n')
	go command.Wait() // leave no zombie, whenever it ends
	if err != nil {
		return fmt.Errorf("start emulator of %s: %w", l.Name, err)
	}
	if readErr != nil || word != "ready\n" {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("start emulator of %s: ended at once: %s", l.Name, firstLine(string(said)))
	}
	return nil
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

// truthFile is where the truth of a link is.
func (s *Spec) truthFile(l *Link) string {
	if l.Emulate.Truth != "" {
		return l.Emulate.Truth + ".json"
	}
	return stateOf(s.Name).path(l.Name + ".json")
}

// RunEmulator is the body of an emulator process that startEmulator started. It
// returns when ctx is done, which is no error.
func RunEmulator(ctx context.Context, lab, link string) error {
	word, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(word) != "go" {
		return errors.New("start emulator: nobody said go on standard input; lab up starts emulators")
	}
	var config emulator.Config
	if err := stateOf(lab).load(link+".config", &config); err != nil {
		return err
	}
	return emulator.Run(ctx, config, [2]int{firstTap, secondTap}, func() {
		fmt.Println("ready")
		os.Stdout.Close()
	})
}
