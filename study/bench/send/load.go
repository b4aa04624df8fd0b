package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// loads beside which cells run.
var loads = []string{idle, processor, interfaceLoad, crossTraffic, throttled}

const (
	idle          = "idle"
	processor     = "processor"     // a busy loop on every processor
	interfaceLoad = "interface"     // a flood of datagrams through the sender's device
	crossTraffic  = "cross-traffic" // TCP at up to 10 Gbit/s through the sender's device
	throttled     = "throttled"     // the sender has a tenth of a processor
)

// children of the experiment, in the namespaces of a bed.
type children struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running []*exec.Cmd
}

func newChildren(ctx context.Context) *children {
	ctx, cancel := context.WithCancel(ctx)
	return &children{ctx: ctx, cancel: cancel}
}

func (c *children) start(namespace string, words ...string) error {
	command := exec.CommandContext(c.ctx, words[0], words[1:]...)
	if err := netns.Do(namespace, command.Start); err != nil {
		return fmt.Errorf("start %s: %w", words[0], err)
	}
	c.running = append(c.running, command)
	return nil
}

func (c *children) stop() {
	c.cancel()
	for _, command := range c.running {
		_ = command.Wait() // it was killed
	}
}

// serverStart is how long a server needs until it listens; it has no other sign of it.
const serverStart = 200 * time.Millisecond

// impose starts a load and returns what stops it.
func (b *bed) impose(ctx context.Context, load string) (stop func() error, err error) {
	c := newChildren(ctx)
	stop = func() error { c.stop(); return nil }
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	switch load {
	case processor:
		for cpu := range runtime.NumCPU() {
			if err == nil {
				err = c.start(b.near, self, "load", "processor", strconv.Itoa(cpu))
			}
		}
	case interfaceLoad:
		err = c.start(b.near, self, "load", "interface")
	case crossTraffic:
		err = c.start(b.far, "iperf3", "-s", "-p", strconv.Itoa(iperfPort))
		if err == nil {
			time.Sleep(serverStart)
			err = c.start(b.near, "iperf3", "-c", farAddress, "-p", strconv.Itoa(iperfPort), "-t", "600", "-b", "10G")
		}
	case throttled:
		return throttle()
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	if load != idle {
		time.Sleep(300 * time.Millisecond) // until it is at its rate
	}
	return stop, nil
}

// imposeLoad is the child process: a busy loop on one processor, or a flood of datagrams
// through the sender's device.
func imposeLoad(arguments []string) error {
	if arguments[0] == processor {
		cpu, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		var set unix.CPUSet
		set.Set(cpu)
		runtime.LockOSThread()
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return err
		}
		for os.Getppid() > 1 { // until it is killed
		}
		return nil
	}
	c, err := net.Dial("udp", net.JoinHostPort(farAddress, strconv.Itoa(floodPort)))
	if err != nil {
		return err
	}
	datagram := make([]byte, 1400)
	for {
		_, _ = c.Write(datagram) // refused by the far end, which does not matter
	}
}
