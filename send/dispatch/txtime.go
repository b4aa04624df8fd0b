package dispatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// LaunchLead is how long before they are due packets are handed over with a launch time,
	// unless the options say otherwise.
	LaunchLead = 2 * time.Millisecond
	// mostLaunched bounds the packets that the queueing discipline holds: fq drops packets of
	// a flow beyond 100.
	mostLaunched = 64
	// A test packet has its launch time that far ahead; it must not leave earlier than
	// launchTolerance before.
	launchAhead     = 5 * time.Millisecond
	launchTolerance = 200 * time.Microsecond
	launchTests     = 3
)

// launcher hands packets over with their launch time (SO_TXTIME), until which the queueing
// discipline or the device holds them. The driver's time stamp proves that one has left.
type launcher struct {
	options    Options
	lead       time.Duration
	discipline discipline
	fd         int
	buffer     []byte
	control    []byte // the launch time
	journal    *journal
	launch     int64 // of the packet handed over last

	mu      sync.Mutex // guards remarks
	remarks []string
}

func openLauncher(options Options) (Sender, error) {
	options.NoDriver = false // the account needs the stamps
	l := &launcher{options: options, lead: options.Lead, fd: -1}
	if err := onThread(options.Namespace, l.open); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *launcher) open() error {
	device, err := netlink.LinkByName(l.options.Device)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", l.options.Device, err)
	}
	if !isEthernet(device) {
		return fmt.Errorf("interface %s has no Ethernet header", l.options.Device)
	}
	if l.discipline, err = launches(device); err != nil {
		return err
	}
	if l.lead == 0 {
		l.lead = LaunchLead + l.discipline.early
	}
	if l.discipline.offload {
		l.remarks = append(l.remarks, "the device holds the packets until their time")
	}
	if l.discipline.clock != unix.CLOCK_MONOTONIC {
		l.remarks = append(l.remarks, "launch times are not of CLOCK_MONOTONIC: a step of the clock moves packets that were handed over")
	}
	if l.journal, err = newJournal(l.options); err != nil {
		return err
	}
	l.journal.proof = true
	return l.prepare(device)
}

// prepare opens the socket and tests whether a packet waits for its time.
func (l *launcher) prepare(device netlink.Link) (err error) {
	if l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	if err := unix.Bind(l.fd, &unix.SockaddrLinklayer{Ifindex: device.Attrs().Index}); err != nil {
		return fmt.Errorf("bind packet socket to %s: %w", l.options.Device, err)
	}
	const reportErrors = 2 // SOF_TXTIME_REPORT_ERRORS
	settings := make([]byte, 8)
	binary.NativeEndian.PutUint32(settings, uint32(l.discipline.clock))
	binary.NativeEndian.PutUint32(settings[4:], reportErrors)
	if err := unix.SetsockoptString(l.fd, unix.SOL_SOCKET, unix.SO_TXTIME, string(settings)); err != nil {
		return fmt.Errorf("enable launch times (needs Linux 4.19): %w", err)
	}
	l.control = make([]byte, unix.CmsgSpace(8))
	head := (*unix.Cmsghdr)(unsafe.Pointer(&l.control[0]))
	head.Level, head.Type = unix.SOL_SOCKET, unix.SCM_TXTIME
	head.SetLen(unix.CmsgLen(8))
	return l.test(device.Attrs().HardwareAddr)
}

// errIgnored marks a queueing discipline that does not hold packets.
var errIgnored = errors.New("a test packet left before its launch time")

// test sends a packet to the interface itself and looks whether it waited.
func (l *launcher) test(address []byte) error {
	const experimental = 0x88b5 // IEEE 802 local experimental EtherType
	l.buffer = make([]byte, 60)
	copy(l.buffer, address)
	copy(l.buffer[6:], address)
	binary.BigEndian.PutUint16(l.buffer[12:], experimental)
	from := l.journal.enable(l.fd)
	if from < 0 {
		return errors.New("socket gives no time stamps, by which launch times are tested")
	}
	var got Record
	l.journal.report = func(r Record) { got = r }
	ahead := launchAhead + l.discipline.early
	for range launchTests {
		r := Record{Handed: now(), Fate: Sent}
		r.Intended = r.Handed + int64(ahead)
		if err := l.hand(r.Intended); err != nil {
			return fmt.Errorf("send test packet: %w", err)
		}
		l.journal.add(r, from)
		l.journal.launched(from, l.launch)
		l.journal.end()
		if got.Fate == Sent && got.Driver != 0 {
			break
		}
	}
	switch {
	case got.Fate == DroppedLate:
		return errors.New("queueing discipline dropped the test packet as late")
	case got.Fate == Failed:
		return fmt.Errorf("send test packet: %w", got.Error)
	case got.Driver == 0:
		return errors.New("time stamp of the test packet is doubtful: the clock was stepped")
	case got.Driver < got.Intended-int64(launchTolerance)-int64(l.discipline.early):
		return fmt.Errorf("%w: %v after it was handed over instead of %v", errIgnored, time.Duration(got.Driver-got.Handed), ahead)
	}
	return nil
}

// hand hands the frame in the buffer over, to be launched at a time of CLOCK_MONOTONIC.
func (l *launcher) hand(at int64) error {
	if l.discipline.clock != unix.CLOCK_MONOTONIC {
		at += clockOffset(l.discipline.clock)
	}
	l.launch = at
	binary.NativeEndian.PutUint64(l.control[unix.CmsgLen(0):], uint64(at))
	return unix.Sendmsg(l.fd, l.buffer, l.control, nil, 0)
}

// clockOffset is a clock minus CLOCK_MONOTONIC, of the closest of several readings: the
// thread may be interrupted between two of them.
func clockOffset(clock int32) (offset int64) {
	const readings = 3
	for closest, i := int64(1<<63-1), 0; i < readings; i++ {
		before, at, after := now(), nowOf(clock), now()
		if took := after - before; took < closest {
			closest, offset = took, at-before-took/2
		}
	}
	return offset
}

// Name of the mechanism.
func (l *launcher) Name() string { return "txtime" }

// Remarks says what limits the accuracy.
func (l *launcher) Remarks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.remarks), l.journal.remarks...)
}

// Uncertainty of the times in records.
func (l *launcher) Uncertainty() map[Source]time.Duration { return l.journal.uncertainty() }

// Close closes the socket.
func (l *launcher) Close() (err error) {
	if l.journal != nil {
		err = l.journal.close()
	}
	if l.fd >= 0 {
		err = errors.Join(err, unix.Close(l.fd))
		l.fd = -1
	}
	return err
}

// Send hands packets over, each a fixed time ahead.
func (l *launcher) Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error {
	return onThread(l.options.Namespace, func() error {
		if err := errors.Join(blockSignals(), prioritise()); err != nil {
			l.mu.Lock()
			l.remarks = append(l.remarks, fmt.Sprintf("ordinary priority: %v", err))
			l.mu.Unlock()
		}
		l.journal.report = report
		defer l.journal.end()
		start := now() + int64(max(delay, l.lead))
		for p, err := range packets {
			if err != nil {
				return err
			}
			r := Record{Train: p.Train, Number: p.Number, Bytes: p.Bytes(), Intended: start + int64(p.Due)}
			from := l.send(ctx, &p, &r)
			l.journal.add(r, from)
			if from >= 0 && r.Fate == Sent {
				l.journal.launched(from, l.launch)
			}
		}
		return ctx.Err()
	})
}

// send completes the packet's record. It returns the socket if the packet was offered to it.
func (l *launcher) send(ctx context.Context, p *Packet, r *Record) int {
	if p.Invalid != nil {
		r.Fate, r.Error = Failed, p.Invalid
		return -1
	}
	early := r.Intended - int64(l.lead)
	for wait := early; ; wait = now() + int64(idle) {
		l.journal.collect(max(early, now()+int64(collectTime)+int64(idle)))
		if sleepUntil(ctx, wait) != nil {
			return -1
		}
		if l.journal.inFlight() < mostLaunched {
			break
		}
	}
	r.Handed = now()
	if l.options.DropLate > 0 && r.Handed > r.Intended+int64(l.options.DropLate) {
		r.Fate = DroppedLate
		return -1
	}
	l.buffer = p.Frame.AppendTo(l.buffer[:0])
	if err := l.hand(r.Intended); err != nil {
		r.Fate, r.Error = Failed, err
		l.journal.settle() // the numbers of those in flight hold until then
		return l.fd
	}
	r.Fate = Sent
	return l.fd
}
