package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
)

// stamps collects the transmit time stamps of a socket (SO_TIMESTAMPING), which the kernel
// puts into its error queue. The kernel numbers the packets of a socket, beginning with 0.
type stamps struct {
	fd       int
	flags    int
	hardware *hardwareClock // nil: none
	next     uint32         // the next packet's number
	// Packets without their stamp, by number: their places in the queue of records.
	awaited map[uint32]uint64
	control [256]byte
	// Launch times of the last packets, by number.
	launches [2 * mostLaunched]int64
}

// stampBytes bounds the memory of stamps that were not collected yet, enough for more than
// mostAwaited packets.
const stampBytes = 8 << 20

func newStamps(fd int, hardware *hardwareClock) (*stamps, error) {
	s := &stamps{fd: fd, hardware: hardware, awaited: map[uint32]uint64{}}
	s.flags = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE | unix.SOF_TIMESTAMPING_OPT_TSONLY
	if hardware != nil {
		s.flags |= unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE | unix.SOF_TIMESTAMPING_OPT_TX_SWHW
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, stampBytes); err != nil {
		return nil, fmt.Errorf("set memory of time stamps: %w", err)
	}
	return s, s.reset()
}

// reset numbers the packets from 0 again, because a packet that was refused may have a number
// or none. Packets that await their stamp get none.
func (s *stamps) reset() error {
	clear(s.awaited)
	s.next = 0
	for _, flags := range []int{s.flags, s.flags | unix.SOF_TIMESTAMPING_OPT_ID} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags); err != nil {
			return fmt.Errorf("enable time stamps: %w", err)
		}
	}
	return nil
}

// await notes that the next packet was sent.
func (s *stamps) await(place uint64) {
	s.awaited[s.next] = place
	s.next++
}

// launchedAt is the number of the packet with a launch time; a number of no packet if there is none.
func (s *stamps) launchedAt(at int64) uint32 {
	for id := range s.awaited {
		if s.launches[id%uint32(len(s.launches))] == at {
			return id
		}
	}
	return s.next
}

// stamp is a message of the error queue.
type stamp struct {
	id       uint32
	software int64 // of the driver; CLOCK_REALTIME, ns; 0: not in this message
	hardware int64 // of the device's clock, ns; likewise
	missed   bool  // the packet was dropped because its launch time had passed
	launch   int64 // of such a packet, by which it is known
}

// read takes the next message off the error queue.
func (s *stamps) read() (stamp, bool) {
	for {
		header := unix.Msghdr{Control: &s.control[0]}
		header.SetControllen(len(s.control))
		_, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&header)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return stamp{}, false
		}
		if parsed, ok := parseStamp(s.control[:header.Controllen]); ok {
			return parsed, true
		}
	}
}

// parseStamp reads the control messages of a message of the error queue.
func parseStamp(b []byte) (s stamp, ok bool) {
	for len(b) > 0 {
		head, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			return stamp{}, false
		}
		b = rest
		switch {
		case head.Level == unix.SOL_SOCKET && head.Type == unix.SO_TIMESTAMPING:
			if len(data) < 3*timespecBytes {
				return stamp{}, false
			}
			s.software, s.hardware = timespec(data), timespec(data[2*timespecBytes:])
		case head.Level == unix.SOL_PACKET && head.Type == unix.PACKET_TX_TIMESTAMP,
			head.Level == unix.SOL_IP && head.Type == unix.IP_RECVERR,
			head.Level == unix.SOL_IPV6 && head.Type == unix.IPV6_RECVERR:
			if len(data) < int(unsafe.Sizeof(unix.SockExtendedErr{})) {
				return stamp{}, false
			}
			info, value := binary.NativeEndian.Uint32(data[8:]), binary.NativeEndian.Uint32(data[12:])
			switch data[4] {
			case unix.SO_EE_ORIGIN_TIMESTAMPING:
				ok = info == unix.SCM_TSTAMP_SND
				s.id = value
			case unix.SO_EE_ORIGIN_TXTIME:
				ok, s.missed = true, true
				s.launch = int64(uint64(value)<<32 | uint64(info))
			}
		}
	}
	return s, ok
}

const timespecBytes = int(unsafe.Sizeof(unix.Timespec{}))

// timespec reads a struct timespec; 0 if it is empty.
func timespec(b []byte) int64 {
	if timespecBytes == 8 {
		return int64(int32(binary.NativeEndian.Uint32(b)))*int64(time.Second) + int64(int32(binary.NativeEndian.Uint32(b[4:])))
	}
	return int64(binary.NativeEndian.Uint64(b))*int64(time.Second) + int64(binary.NativeEndian.Uint64(b[8:]))
}

// wall converts times of the real-time clock. A step of that clock changes the conversion:
// times that may be of either side of a step are not converted.
type wall struct {
	base  clock.Base
	valid int64 // CLOCK_MONOTONIC, ns: no step since
	read  func() clock.Base
}

func newWall() (*wall, error) {
	base, err := clock.ReadMonotonicBase()
	return &wall{base: base, read: readWall, valid: now()}, err
}

// readWall compares the clocks once, which takes less than the best of several readings.
func readWall() clock.Base {
	before, day, after := now(), nowOf(unix.CLOCK_REALTIME), now()
	took := time.Duration(after - before)
	return clock.Base{Distance: time.Duration(day-before) - took/2, Uncertainty: took}
}

// check looks for a step. It is called between the receipt of times and their conversion.
func (w *wall) check() {
	base := w.read()
	if base.StepSince(w.base) != 0 {
		w.base, w.valid = base, now()
	} else if base.Uncertainty < w.base.Uncertainty {
		w.base = base
	}
}

// convert returns the monotonic time of an event that came after another one; 0 if a step
// or an error makes it doubtful. Tolerance is the uncertainty of the time itself.
func (w *wall) convert(realtime, after int64, tolerance time.Duration) int64 {
	at := realtime - int64(w.base.Distance)
	tolerance += w.base.Uncertainty
	if after <= w.valid || at < after-int64(tolerance) || at > now()+int64(tolerance) {
		return 0
	}
	return max(at, after)
}

// hardwareClock is the clock by which a device stamps packets.
type hardwareClock struct {
	fd       int
	restore  func() error
	distance int64 // real time minus the device's
	bound    time.Duration
	read     int64 // when; CLOCK_MONOTONIC, ns
}

// hardwareAge is the age from which a distance is read again: 1 us of error at a
// difference of 100 ppm between the clocks' rates.
const hardwareAge = 10 * time.Millisecond

// openHardware makes a device stamp packets that leave, if it can. It uses a socket in the
// device's namespace.
func openHardware(socket int, device string) (*hardwareClock, error) {
	info, err := unix.IoctlGetEthtoolTsInfo(socket, device)
	if err != nil {
		return nil, fmt.Errorf("read time stamping of %s: %w", device, err)
	}
	if info.So_timestamping&unix.SOF_TIMESTAMPING_TX_HARDWARE == 0 || info.Phc_index < 0 {
		return nil, errNoHardware
	}
	before, err := unix.IoctlGetHwTstamp(socket, device)
	if err != nil {
		return nil, fmt.Errorf("read time stamping of %s: %w", device, err)
	}
	h := &hardwareClock{restore: func() error { return nil }}
	if before.Tx_type == unix.HWTSTAMP_TX_OFF {
		on := *before
		on.Tx_type = unix.HWTSTAMP_TX_ON
		if err := unix.IoctlSetHwTstamp(socket, device, &on); err != nil {
			return nil, fmt.Errorf("enable time stamping of %s: %w", device, err)
		}
		h.restore = func() error { return unix.IoctlSetHwTstamp(socket, device, before) }
	}
	if h.fd, err = unix.Open(fmt.Sprintf("/dev/ptp%d", info.Phc_index), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("open clock of %s: %w", device, err), h.restore())
	}
	if err := h.compare(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

var errNoHardware = errors.New("device does not stamp packets")

// compare reads the device's clock beside the real-time clock.
func (h *hardwareClock) compare() error {
	const samples = 5
	readings, err := unix.IoctlPtpSysOffsetExtended(h.fd, samples)
	if err != nil {
		return fmt.Errorf("compare device's clock: %w", err)
	}
	h.bound = 1<<63 - 1
	for _, r := range readings.Ts[:samples] {
		before, device, after := ptpTime(r[0]), ptpTime(r[1]), ptpTime(r[2])
		if took := time.Duration(after - before); took < h.bound {
			h.bound, h.distance = took, before+int64(took)/2-device
		}
	}
	h.read = now()
	return nil
}

func ptpTime(t unix.PtpClockTime) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// realtime converts a time of the device; 0 if that fails.
func (h *hardwareClock) realtime(device int64) int64 {
	if now()-h.read > int64(hardwareAge) && h.compare() != nil {
		return 0
	}
	return device + h.distance
}

func (h *hardwareClock) close() error { return errors.Join(unix.Close(h.fd), h.restore()) }
