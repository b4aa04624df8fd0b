package main

import (
	"errors"
	"math"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// bench is a testbed with the sockets and counters of a condition.
type bench struct {
	*testbed
	test, rival *sender
	// Packets that sender and rival sent, and that the receiver got.
	sent, alsoSent, received *counter
	sink                     *sink
}

func openBench(c *condition) (*bench, error) {
	t, err := buildTestbed(c.layout)
	if err != nil {
		return nil, err
	}
	b := &bench{testbed: t}
	if err := b.open(c.protocol); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// open prepares the flows. Without offloads each packet is one for the kernel too.
func (b *bench) open(protocol int) (err error) {
	off := []string{"tso", "off", "gso", "off", "gro", "off"}
	if err := b.features(off, off); err != nil {
		return err
	}
	for _, c := range []struct {
		into   **counter
		host   string
		attach ebpf.AttachType
	}{
		{&b.sent, b.testbed.sender, ebpf.AttachTCXEgress},
		{&b.alsoSent, b.testbed.rival, ebpf.AttachTCXEgress},
		{&b.received, b.receiver, ebpf.AttachTCXIngress},
	} {
		if *c.into, err = b.count(c.host, c.attach); err != nil {
			return err
		}
	}
	if protocol == unix.IPPROTO_TCP {
		if b.sink, err = openSink(b.testbed); err != nil {
			return err
		}
	}
	b.rival, err = b.openSender(b.testbed.rival, unix.IPPROTO_UDP)
	return err
}

func (b *bench) close() error { return errors.Join(b.closeFlows(), b.testbed.Close()) }

// closeFlows closes all but the testbed.
func (b *bench) closeFlows() error {
	var failures []error
	for _, s := range []*sender{b.test, b.rival} {
		if s != nil {
			s.close()
		}
	}
	for _, c := range []*counter{b.sent, b.alsoSent, b.received} {
		if c != nil {
			failures = append(failures, c.close())
		}
	}
	if b.sink != nil {
		failures = append(failures, b.sink.close())
	}
	return errors.Join(failures...)
}

// shot is what was sent and received.
type shot struct {
	traffic
	tests, rivals, received uint64
}

// shoot carries out a plan and waits until nothing arrives any more.
func (b *bench) shoot(c *condition, all []departure) (s shot, err error) {
	var before [3]uint64
	counters := []*counter{b.sent, b.alsoSent, b.received}
	for i, counter := range counters {
		if before[i], err = counter.count(); err != nil {
			return s, err
		}
	}
	if b.test, err = b.openSender(b.testbed.sender, c.protocol); err != nil {
		return s, err
	}
	if s.traffic, err = carryOut(all, b.test, b.rival); err != nil {
		return s, err
	}
	b.test.close()
	if s.tests, err = b.sent.count(); err != nil {
		return s, err
	}
	if s.rivals, err = b.alsoSent.count(); err != nil {
		return s, err
	}
	s.tests, s.rivals = s.tests-before[0], s.rivals-before[1]
	if c.protocol == unix.IPPROTO_TCP {
		// The end of the stream, what had to wait for the window and what was lost is sent meanwhile.
		if err := b.sink.ended(); err != nil {
			return s, err
		}
		if s.received, err = b.received.await(math.MaxUint64); err != nil {
			return s, err
		}
		if s.tests, err = b.sent.count(); err != nil {
			return s, err
		}
		s.tests -= before[0]
	} else if s.received, err = b.received.await(before[2] + s.tests + s.rivals); err != nil {
		return s, err
	}
	s.received -= before[2]
	return s, nil
}
