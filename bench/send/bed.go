package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
)

const (
	namePrefix            = "pl-send-"
	nearDevice, farDevice = "near0", "far0"
	nearAddress           = "192.0.2.1"
	farAddress            = "192.0.2.2"
	port                  = 9 // discard
	floodPort             = 10
	iperfPort             = 5201
)

// bed is a sender and a receiver, each in its own network namespace.
type bed struct {
	near, far string
	namespace *os.File
	device    int
	header    *frame.Header
}

func newBed() (*bed, error) {
	if err := netns.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	prefix := namePrefix + strconv.Itoa(os.Getpid())
	b := &bed{near: prefix + "-n", far: prefix + "-f"}
	if err := b.build(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bed) build() (err error) {
	for _, name := range []string{b.near, b.far} {
		if err := netns.Create(name); err != nil {
			return err
		}
	}
	for _, command := range []string{
		"ip -n NEAR link add near0 type veth peer name far0 netns FAR",
		"ip -n NEAR link set lo up", "ip -n FAR link set lo up", "ip -n NEAR link set near0 up", "ip -n FAR link set far0 up",
		"ip -n NEAR addr add " + nearAddress + "/24 dev near0", "ip -n FAR addr add " + farAddress + "/24 dev far0",
	} {
		words := strings.Fields(strings.NewReplacer("NEAR", b.near, "FAR", b.far).Replace(command))
		if said, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, said)
		}
	}
	if b.namespace, err = os.Open(netns.Path(b.near)); err != nil {
		return err
	}
	b.header = &frame.Header{Destination: netip.MustParseAddr(farAddress), Protocol: protocol, SourcePort: 50000, DestinationPort: port}
	return netns.Do(b.near, func() error {
		device, err := net.InterfaceByName(nearDevice)
		if err != nil {
			return err
		}
		b.device = device.Index
		return send.Address(b.header, nearDevice)
	})
}

// Close deletes the namespaces.
func (b *bed) Close() error {
	if b.namespace != nil {
		b.namespace.Close()
	}
	return errors.Join(netns.Delete(b.near), netns.Delete(b.far))
}

// observe sees packets reach the driver of the sender's device.
func (b *bed) observe(trains, packets int) (o *observer.Observer, err error) {
	overhead, err := b.header.Overhead()
	if err != nil {
		return nil, err
	}
	const link = 14
	err = netns.Do(b.near, func() error {
		o, err = observer.Open(observer.Departure, b.device, overhead-link, trains, packets)
		return err
	})
	return o, err
}

// impose starts a load and returns what stops it.
func (b *bed) impose(ctx context.Context, load string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*exec.Cmd
	stop = func() {
		cancel()
		for _, c := range running {
			_ = c.Wait() // it was killed
		}
	}
	start := func(namespace string, words ...string) error {
		c := exec.CommandContext(ctx, words[0], words[1:]...)
		if err := netns.Do(namespace, c.Start); err != nil {
			return fmt.Errorf("start %s: %w", words[0], err)
		}
		running = append(running, c)
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	switch load {
	case "processor":
		for cpu := range runtime.NumCPU() {
			err = errors.Join(err, start(b.near, self, "load", "processor", strconv.Itoa(cpu)))
		}
	case "interface":
		err = start(b.near, self, "load", "interface")
	case "cross traffic":
		err = start(b.far, "iperf3", "-s", "-p", strconv.Itoa(iperfPort))
		if err == nil {
			time.Sleep(200 * time.Millisecond) // it has no other sign that it listens
			err = start(b.near, "iperf3", "-c", farAddress, "-p", strconv.Itoa(iperfPort), "-t", "600", "-b", "10G")
		}
	}
	if err != nil {
		stop()
		return nil, err
	}
	if load != "idle" {
		time.Sleep(300 * time.Millisecond) // until it is at its rate
	}
	return stop, nil
}

// imposeLoad is the child process: a busy loop on one processor, or a flood of datagrams
// through the sender's device.
func imposeLoad(arguments []string) error {
	if arguments[0] == "processor" {
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
