package dispatch

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
	"pillion.dev/internal/test/namespace"
)

// message builds a control message.
func message(level, kind int, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	head := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	head.Level, head.Type = int32(level), int32(kind)
	head.SetLen(unix.CmsgLen(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func bytesOf[T any](value T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value))
}

func times(software, hardware int64) []byte {
	return message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, bytesOf(unix.ScmTimestamping{
		Ts: [3]unix.Timespec{unix.NsecToTimespec(software), {}, unix.NsecToTimespec(hardware)},
	}))
}

func cause(level, kind int, e unix.SockExtendedErr) []byte { return message(level, kind, bytesOf(e)) }

var stamped = unix.SockExtendedErr{Errno: uint32(unix.ENOMSG), Origin: unix.SO_EE_ORIGIN_TIMESTAMPING, Info: unix.SCM_TSTAMP_SND, Data: 7}

func TestParseStamp(t *testing.T) {
	const at = 1_700_000_000_123_456_789
	scheduled := stamped
	scheduled.Info = unix.SCM_TSTAMP_SCHED
	missed := unix.SockExtendedErr{Errno: uint32(unix.ECANCELED), Origin: unix.SO_EE_ORIGIN_TXTIME, Code: unix.SO_EE_CODE_TXTIME_MISSED, Info: 5, Data: 1}
	unreachable := unix.SockExtendedErr{Errno: uint32(unix.ECONNREFUSED), Origin: unix.SO_EE_ORIGIN_ICMP}
	for name, row := range map[string]struct {
		message []byte
		want    stamp
		ok      bool
	}{
		"packet socket": {append(times(at, 0), cause(unix.SOL_PACKET, unix.PACKET_TX_TIMESTAMP, stamped)...), stamp{id: 7, software: at}, true},
		"ipv4":          {append(times(at, 0), cause(unix.SOL_IP, unix.IP_RECVERR, stamped)...), stamp{id: 7, software: at}, true},
		"ipv6":          {append(times(at, 0), cause(unix.SOL_IPV6, unix.IPV6_RECVERR, stamped)...), stamp{id: 7, software: at}, true},
		"hardware":      {append(times(0, at), cause(unix.SOL_PACKET, unix.PACKET_TX_TIMESTAMP, stamped)...), stamp{id: 7, hardware: at}, true},
		"scheduled":     {append(times(at, 0), cause(unix.SOL_PACKET, unix.PACKET_TX_TIMESTAMP, scheduled)...), stamp{}, false},
		"missed":        {cause(unix.SOL_PACKET, unix.PACKET_TX_TIMESTAMP, missed), stamp{missed: true, launch: 1<<32 + 5}, true},
		"icmp error":    {cause(unix.SOL_IP, unix.IP_RECVERR, unreachable), stamp{}, false},
		"no cause":      {times(at, 0), stamp{}, false},
		"short":         {message(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, make([]byte, 4)), stamp{}, false},
		"empty":         {nil, stamp{}, false},
	} {
		got, ok := parseStamp(row.message)
		if ok != row.ok || ok && got != row.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, ok, row.want, row.ok)
		}
	}
}

func FuzzParseStamp(f *testing.F) {
	f.Add(append(times(1, 2), cause(unix.SOL_PACKET, unix.PACKET_TX_TIMESTAMP, stamped)...))
	f.Fuzz(func(_ *testing.T, b []byte) { parseStamp(b) })
}

// TestClockStep: a step of the real-time clock makes no time wrong: those of packets that were
// handed over before it was noticed are unknown, later ones are right.
func TestClockStep(t *testing.T) {
	distance := time.Hour
	w, err := newWall()
	if err != nil {
		t.Fatal(err)
	}
	w.base = clock.Base{Distance: distance, Uncertainty: time.Microsecond}
	w.read = func() clock.Base { return clock.Base{Distance: distance, Uncertainty: 2 * time.Microsecond} }
	convert := func(handed, driver int64) int64 {
		t.Helper()
		realtime := driver + int64(distance)
		w.check()
		return w.convert(realtime, handed, 0)
	}
	handed := now()
	if got := convert(handed, handed+500); got != handed+500 {
		t.Errorf("%d, want %d", got-handed, 500)
	}
	distance += 300 * time.Millisecond
	if got := convert(handed, handed+500); got != 0 {
		t.Errorf("a time beside a step became %d", got-handed)
	}
	for handed = now(); handed <= w.valid; handed = now() {
	}
	if got := convert(handed, handed+500); got != handed+500 {
		t.Errorf("%d after the step, want %d", got-handed, 500)
	}
	if got := w.convert(handed-int64(time.Second)+int64(distance), handed, 0); got != 0 {
		t.Errorf("a time before the packet was handed over became %d", got-handed)
	}
}

// TestNoHardware: a device without a clock of its own says so.
func TestNoHardware(t *testing.T) {
	space, _, _ := space(t)
	in(t, space, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if h, err := openHardware(fd, "near0"); !errors.Is(err, errNoHardware) {
			t.Errorf("%+v, %v", h, err)
		}
		if h, err := openHardware(fd, "none0"); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%+v, %v", h, err)
		}
		return nil
	})
}

// TestStampsAfterRefusal: a packet that was refused costs the times of no later one.
func TestStampsAfterRefusal(t *testing.T) {
	namespace.New(t) // skips without privileges
	j := &journal{sockets: map[int]*stamps{}}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if j.wall, err = newWall(); err != nil {
		t.Fatal(err)
	}
	var got []Record
	j.report = func(r Record) { got = append(got, r) }
	to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	for number := range uint32(20) {
		from := j.enable(fd)
		r := Record{Number: number, Handed: now(), Fate: Sent}
		size := 100
		if number%5 == 4 {
			size = 1 << 17
		}
		if err := unix.Sendto(fd, make([]byte, size), 0, to); err != nil {
			r.Fate, r.Error = Failed, err
		}
		j.add(r, from)
		j.collect(now() + int64(time.Second))
	}
	j.end()
	for number, r := range got {
		refused := number%5 == 4
		if int(r.Number) != number || (r.Fate == Failed) != refused || (r.Source == Software) == refused || !refused && r.Driver < r.Handed {
			t.Errorf("%+v", r)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d records", len(got))
	}
}
