package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pillion.dev/internal/netns"
)

const (
	prefix      = "pl-instr-"
	device      = "data"
	control     = "report"
	rcvAddress  = "10.253.90.2"
	trafficPort = "5001"
)

// bed is three namespaces: Snd and Rcv with a link of 100 Mbit/s between them, and the
// collector's with a link to each.
type bed struct{ snd, rcv, collector string }

// collectorOf is the address of the collector as each end sees it.
func (b *bed) collectorOf(end string) string {
	if end == b.snd {
		return "10.253.91.1:3003"
	}
	return "10.253.92.1:3003"
}

func newBed() (b *bed, err error) {
	if err := netns.DeleteStale(prefix); err != nil {
		return nil, err
	}
	name := prefix + strconv.Itoa(os.Getpid())
	b = &bed{snd: name + "-s", rcv: name + "-r", collector: name + "-c"}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	for _, n := range []string{b.snd, b.rcv, b.collector} {
		if err := netns.Create(n); err != nil {
			return nil, err
		}
	}
	if err := netns.IP(b.snd,
		fmt.Sprintf("link add %s type veth peer name %s netns %s", device, device, b.rcv),
		fmt.Sprintf("link add %s type veth peer name snd netns %s", control, b.collector)); err != nil {
		return nil, err
	}
	if err := netns.IP(b.rcv, fmt.Sprintf("link add %s type veth peer name rcv netns %s", control, b.collector)); err != nil {
		return nil, err
	}
	for n, lines := range map[string][]string{
		b.snd:       {"link set lo up", "address add 10.253.90.1/30 dev data", "link set data up", "address add 10.253.91.2/30 dev report", "link set report up"},
		b.rcv:       {"link set lo up", "address add 10.253.90.2/30 dev data", "link set data up", "address add 10.253.92.2/30 dev report", "link set report up"},
		b.collector: {"link set lo up", "address add 10.253.91.1/30 dev snd", "link set snd up", "address add 10.253.92.1/30 dev rcv", "link set rcv up"},
	} {
		if err := netns.IP(n, lines...); err != nil {
			return nil, err
		}
	}
	_, err = netns.Run(b.snd, exec.Command("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "100mbit", "burst", "16kb", "latency", "100ms"))
	return b, err
}

func (b *bed) close() error {
	return errors.Join(netns.Delete(b.snd), netns.Delete(b.rcv), netns.Delete(b.collector))
}

// program is a started one.
type program struct {
	name    string
	command *exec.Cmd
	out     bytes.Buffer
	ended   chan error
}

// start starts a program in a namespace ("" is this one), and waits until it has said a
// text on its standard error, unless that is empty.
func start(ctx context.Context, namespace, ready string, line ...string) (*program, error) {
	p := &program{name: line[0], command: exec.CommandContext(ctx, line[0], line[1:]...), ended: make(chan error, 1)}
	p.command.Stdout = &p.out
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = 5 * time.Second
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.command.Stderr = write
	begin := p.command.Start
	if namespace != "" {
		begin = func() error { return netns.Do(namespace, p.command.Start) }
	}
	err = begin()
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	is := make(chan struct{})
	said := &strings.Builder{}
	go func() {
		defer read.Close()
		lines, waiting := bufio.NewReader(read), ready != ""
		for {
			text, err := lines.ReadString('\n')
			said.WriteString(text)
			if waiting && strings.Contains(text, ready) {
				waiting = false
				close(is)
			}
			if err != nil {
				err := p.command.Wait()
				if err != nil {
					err = fmt.Errorf("%s: %w: %.1000s", strings.Join(p.command.Args, " "), err, said)
				}
				p.ended <- err
				return
			}
		}
	}()
	if ready == "" {
		return p, nil
	}
	select {
	case <-is:
		return p, nil
	case err := <-p.ended:
		return nil, errors.Join(fmt.Errorf("start %s: it has ended", p.name), err)
	case <-time.After(20 * time.Second):
		return nil, errors.Join(fmt.Errorf("start %s: it does not say %q", p.name, ready), p.stop(syscall.SIGKILL))
	}
}

// wait waits until it ends by itself.
func (p *program) wait() error { return <-p.ended }

// stop signals it and waits. An exit by that signal is no error.
func (p *program) stop(signal syscall.Signal) error {
	_ = p.command.Process.Signal(signal)
	err := <-p.ended
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == signal {
			return nil
		}
	}
	return err
}

// tcpdump captures into a file until it is stopped.
func tcpdump(ctx context.Context, namespace, file string) (*program, error) {
	return start(ctx, namespace, "listening on", "tcpdump", "-i", device, "-s", "96", "--immediate-mode", "-B", "32768", "-n", "-Z", "root", "-w", file, "udp", "port", trafficPort)
}
