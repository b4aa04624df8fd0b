package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// journal holds the records of packets until their time stamps have come, and reports them
// in order. It is used by one thread.
type journal struct {
	options  Options
	report   func(Record)
	reading  time.Duration // of the clock
	wall     *wall
	hardware *hardwareClock
	sockets  map[int]*stamps
	remarks  []string

	queue    []Record // not reported yet
	awaiting []bool   // their time stamps
	reported uint64   // place of the first record in the queue
	software bool     // a software stamp has come

	// proof makes a stamp the proof that a packet left: the queueing discipline may drop it
	// without a word. Without its stamp, a packet has failed.
	proof bool
}

// proofWait is how long after its launch time a packet counts as on its way.
const proofWait = time.Second

// errVanished is a packet that was handed over, and did not reach the driver.
var errVanished = errors.New("packet was handed over but did not reach the driver")

// Collecting one time stamp takes less than collectTime. While packets follow each other
// more closely, up to mostAwaited records wait.
const (
	collectTime = 5 * time.Microsecond
	mostAwaited = 4096
)

func newJournal(options Options) (*journal, error) {
	j := &journal{options: options, reading: readingTime(), sockets: map[int]*stamps{}}
	if options.NoDriver {
		return j, nil
	}
	var err error
	if j.wall, err = newWall(); err != nil {
		return nil, err
	}
	err = onThread(options.Namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		j.hardware, err = openHardware(fd, options.Device)
		return err
	})
	if err != nil && !errors.Is(err, errNoHardware) && !errors.Is(err, unix.EOPNOTSUPP) {
		j.remarks = append(j.remarks, fmt.Sprintf("no hardware time stamps: %v", err))
	}
	return j, nil
}

// enable enables the time stamps of a socket, once, and returns it; -1 if it has none.
func (j *journal) enable(fd int) int {
	if fd < 0 || j.wall == nil {
		return -1
	}
	if _, known := j.sockets[fd]; !known {
		s, err := newStamps(fd, j.hardware)
		if err != nil {
			j.remarks = append(j.remarks, fmt.Sprintf("no driver times: %v", err))
			s = nil
		}
		j.sockets[fd] = s
	}
	if j.sockets[fd] == nil {
		return -1
	}
	return fd
}

// add takes the record of a packet that left, or did not leave, by a socket whose time
// stamps are enabled, or by none.
func (j *journal) add(r Record, from int) {
	s := j.sockets[from]
	j.queue, j.awaiting = append(j.queue, r), append(j.awaiting, s != nil && r.Fate == Sent)
	switch {
	case s == nil:
	case r.Fate == Sent:
		s.await(j.reported + uint64(len(j.queue)-1))
	default:
		j.forget(s)
	}
}

// forget gives up the time stamps of a socket that refused a packet.
func (j *journal) forget(s *stamps) {
	for _, place := range s.awaited {
		j.awaiting[place-j.reported] = false
	}
	if err := s.reset(); err != nil {
		j.remarks = append(j.remarks, fmt.Sprintf("no driver times: %v", err))
		j.sockets[s.fd] = nil
	}
}

// collect takes stamps and reports records until shortly before the next packet is due.
func (j *journal) collect(due int64) {
	for _, s := range j.sockets {
		for s != nil && len(s.awaited) > 0 && (now()+int64(collectTime) < due || len(j.queue) > mostAwaited) {
			m, ok := s.read()
			if !ok {
				break
			}
			j.note(s, m)
		}
	}
	for len(j.queue) > 0 && (now()+int64(collectTime) < due || len(j.queue) > mostAwaited) {
		wait := stampWait
		if j.proof {
			wait = proofWait
		}
		if r := &j.queue[0]; j.awaiting[0] && max(r.Handed, r.Intended)+int64(wait) > now() && len(j.queue) <= mostAwaited {
			return
		}
		j.release()
	}
}

// note adds the times of a stamp to the packet's record.
func (j *journal) note(s *stamps, m stamp) {
	if m.missed {
		m.id = s.launchedAt(m.launch)
	}
	place, ok := s.awaited[m.id]
	if !ok {
		return
	}
	r := &j.queue[place-j.reported]
	if m.missed {
		r.Fate = DroppedLate
		delete(s.awaited, m.id)
		j.awaiting[place-j.reported] = false
		return
	}
	j.wall.check()
	if m.software != 0 {
		if r.Driver = j.wall.convert(m.software, r.Handed, 0); r.Driver != 0 {
			r.Source, j.software = Software, true
		}
	}
	if m.hardware != 0 && s.hardware != nil {
		if at := s.hardware.realtime(m.hardware); at != 0 {
			r.Hardware = j.wall.convert(at, r.Handed, s.hardware.bound)
		}
	}
	if s.hardware == nil || m.hardware != 0 { // which comes last
		delete(s.awaited, m.id)
		j.awaiting[place-j.reported] = false
	}
}

// release reports the first record. A stamp that comes later finds nothing.
func (j *journal) release() {
	if j.awaiting[0] {
		if j.proof {
			j.queue[0].Fate, j.queue[0].Error = Failed, errVanished
		}
		for _, s := range j.sockets {
			for id, place := range s.awaited {
				if place == j.reported {
					delete(s.awaited, id)
				}
			}
		}
	}
	j.report(j.queue[0])
	j.queue, j.awaiting = j.queue[1:], j.awaiting[1:]
	j.reported++
}

// launched notes the launch time of the packet that was added last.
func (j *journal) launched(from int, at int64) {
	s := j.sockets[from]
	s.launches[(s.next-1)%uint32(len(s.launches))] = at
}

// inFlight is the number of packets whose stamp has not come.
func (j *journal) inFlight() (n int) {
	for _, s := range j.sockets {
		if s != nil {
			n += len(s.awaited)
		}
	}
	return n
}

// settle waits until each packet has its time stamp or has failed.
func (j *journal) settle() {
	for j.collect(1<<63 - 1); j.inFlight() > 0; j.collect(1<<63 - 1) {
		time.Sleep(100 * time.Microsecond)
	}
}

// end reports the remaining packets once their time stamps have come.
func (j *journal) end() {
	for j.collect(1<<63 - 1); len(j.queue) > 0; j.collect(1<<63 - 1) {
		time.Sleep(100 * time.Microsecond)
	}
}

func (j *journal) uncertainty() map[Source]time.Duration {
	bounds := map[Source]time.Duration{Handover: j.reading}
	if j.software {
		bounds[Software] = j.reading + j.wall.base.Uncertainty
	}
	if j.hardware != nil {
		bounds[Hardware] = j.reading + j.wall.base.Uncertainty + j.hardware.bound
	}
	return bounds
}

func (j *journal) close() error {
	if j.hardware == nil {
		return nil
	}
	return onThread(j.options.Namespace, j.hardware.close)
}

// readingTime is the time between two readings of the clock, at the 99th percentile.
func readingTime() time.Duration {
	const readings = 1000
	took := make([]int64, readings)
	last := now()
	for i := range took {
		here := now()
		took[i], last = here-last, here
	}
	slices.Sort(took)
	return time.Duration(took[readings*99/100])
}
