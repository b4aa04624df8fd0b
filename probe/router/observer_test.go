package router

import (
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock reads the clock of the records.
func clock() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return uint64(now.Nano())
}

// paced sends n numbered payloads from the left host to the right one, each after its
// gap, and returns when each was handed to the kernel. The thread keeps its processor
// busy meanwhile: one that wakes up late has late timers.
func (r *rig) paced(address string, n, length int, gap func(i int) time.Duration) []uint64 {
	r.t.Helper()
	client := r.dial(address)
	defer client.Close()
	raw, err := client.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	room := raw.Control(func(fd uintptr) { // for all: they may wait in the router
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20)
	})
	if err = cmp.Or(room, err); err != nil {
		r.t.Fatal(err)
	}
	sent, payload := make([]uint64, n), make([]byte, length)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	keep(r.t, 0)
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	err = raw.Control(func(fd uintptr) {
		for i, due := 0, clock(); i < n; i++ {
			due += uint64(gap(i))
			for sent[i] = clock(); sent[i] < due; sent[i] = clock() {
			}
			binary.LittleEndian.PutUint64(payload, uint64(i))
			if _, _, e := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&payload[0])), uintptr(length)); e != 0 {
				r.t.Errorf("send packet %d: %v", i, e)
			}
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return sent
}

// keep keeps the thread on a processor until the end of the test, as its caller locked it.
func keep(t testing.TB, cpu int) {
	t.Helper()
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	thread := unix.Gettid()
	t.Cleanup(func() { _ = unix.SchedSetaffinity(thread, &before) })
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
}

// observer is a receiver that lets the kernel stamp what arrives, in a clock that the
// profile does not use.
type observer struct {
	t      testing.TB
	socket *net.UDPConn
}

func (r *rig) observe(address string) *observer {
	r.t.Helper()
	o := &observer{r.t, r.listen(address)}
	raw, err := o.socket.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if controlErr != nil || err != nil {
		r.t.Fatal(controlErr, err)
	}
	return o
}

// arrivals reads the numbers of n packets and when they came, as CLOCK_MONOTONIC would
// have said.
func (o *observer) arrivals(n int) map[uint64]uint64 {
	o.t.Helper()
	ahead := realAhead()
	came := map[uint64]uint64{}
	payload, control := make([]byte, 2048), make([]byte, 128)
	for range n {
		o.socket.SetReadDeadline(time.Now().Add(patience))
		_, m, _, _, err := o.socket.ReadMsgUDP(payload, control)
		if err != nil {
			o.t.Fatalf("read packet %d of %d: %v", len(came), n, err)
		}
		messages, err := unix.ParseSocketControlMessage(control[:m])
		if err != nil || len(messages) != 1 {
			o.t.Fatalf("read time stamp: %v", err)
		}
		stamp := (*unix.Timespec)(unsafe.Pointer(&messages[0].Data[0]))
		came[binary.LittleEndian.Uint64(payload)] = uint64(stamp.Nano() - ahead)
	}
	return came
}

// realAhead is CLOCK_REALTIME less CLOCK_MONOTONIC, by the quickest of many readings.
func realAhead() (ahead int64) {
	best := int64(1) << 62
	for range 100 {
		var before, real, after unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
		_ = unix.ClockGettime(unix.CLOCK_REALTIME, &real)
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &after)
		if took := after.Nano() - before.Nano(); took < best {
			best, ahead = took, real.Nano()-before.Nano()-took/2
		}
	}
	return ahead
}

// trace returns the records of the packets that send sends, in the order in which they
// entered: as many as the account has once all have left. Those without an arrival are first.
func trace(t *testing.T, profile *Router, send func()) []Record {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all []Record
	var came atomic.Uint64
	done := make(chan error, 1)
	go func() {
		done <- profile.Records(ctx, func(r Record) error {
			all = append(all, r)
			came.Add(1)
			return nil
		})
	}()
	send()
	forwarded := settled(t, profile).Account.Forwarded
	await(t, "all records", func() bool { return came.Load()+profile.Lost() >= forwarded })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.T1, b.T1) })
	return all
}

// belong fails the test unless each record is of one of the packets that were sent: it
// entered after that and before the next was sent, and what is said of it adds up. It
// returns the records with an arrival, and which packet each is of; those that hooks did
// not see have none.
func (r *rig) belong(profile *Router, records []Record, sent []uint64) (arrived []Record, of []int) {
	t := r.t
	t.Helper()
	s := settled(t, profile)
	r.closes(s.Account)
	if missed := r.hidden(s.Account, uint64(len(sent))); len(records)+int(missed) != len(sent) || len(records) == 0 {
		t.Fatalf("%d records of %d packets, %d missed", len(records), len(sent), missed)
	}
	sumsUp(t, pair(t, s, "in0", "in1"), records)
	if records = records[s.Account.NoArrival:]; len(records) == 0 || records[0].T1 == 0 {
		t.Fatalf("%d records with an arrival, %d packets without", len(records), s.Account.NoArrival)
	}
	of = make([]int, len(records))
	for i, record := range records {
		next, _ := slices.BinarySearch(sent, record.T1+1)
		if of[i] = next - 1; next == 0 || i > 0 && of[i] <= of[i-1] {
			t.Fatalf("record %d: entered at %d, when no packet was sent", i, record.T1)
		}
		if record.T2 < record.T1 || record.T3 < record.T2 || record.T4 < record.T3 ||
			record.input()+record.processing()+record.output() != record.T4-record.T1 {
			t.Errorf("record %d: %d, %d, %d, %d", i, record.T1, record.T2, record.T3, record.T4)
		}
	}
	return records, of
}

func (r Record) input() uint64      { return r.T2 - r.T1 }
func (r Record) processing() uint64 { return r.T3 - r.T2 }
func (r Record) output() uint64     { return r.T4 - r.T3 }

// stages are the times of the stages that the record has.
func (r Record) stages() map[Stage]uint64 {
	times := map[Stage]uint64{Processing: r.processing(), OutputQueuing: r.output()}
	if r.T1 != 0 {
		times[InputQueuing], times[Transit] = r.input(), r.T4-r.T1
	}
	return times
}

// sumsUp fails the test unless the histograms of the only pair say what the records say.
func sumsUp(t testing.TB, p Pair, records []Record) {
	t.Helper()
	var want [Stages]Distribution
	for _, r := range records {
		for stage, ns := range r.stages() {
			want[stage].Count++
			want[stage].SumNs += ns
			want[stage].MaxNs = max(want[stage].MaxNs, ns)
		}
	}
	for stage := range Hold {
		got := p.Stages[stage]
		if got.Count != want[stage].Count || got.SumNs != want[stage].SumNs || got.MaxNs != want[stage].MaxNs {
			t.Errorf("stage %d: %d times, sum %d, most %d; records: %d, %d, %d", stage,
				got.Count, got.SumNs, got.MaxNs, want[stage].Count, want[stage].SumNs, want[stage].MaxNs)
		}
	}
}

// bar is the most that the median of a stage's error may be.
const bar = 5 * time.Microsecond

// elsewhere is the most that the stages may take in which nothing holds a packet: they
// take some microseconds of their own, and must not have a part of the 200 and more that
// it was held.
const elsewhere = 50 * time.Microsecond

// spread are errors, in ns, of what the profile found against the truth.
type spread []float64

func (s *spread) add(found uint64, truth int64) { *s = append(*s, float64(int64(found)-truth)) }

func (s spread) median() float64 {
	sizes := make([]float64, len(s))
	for i, e := range s {
		sizes[i] = max(e, -e)
	}
	slices.Sort(sizes)
	return sizes[len(sizes)/2]
}

// comparison of the profile with the truth.
type comparison struct {
	what string
	spread
	most time.Duration // limit of the median on an idle machine; 0: only logged
}

// tell logs the differences of the profile from the truth.
func tell(t *testing.T, all []comparison) {
	t.Helper()
	for _, c := range all {
		if len(c.spread) == 0 {
			t.Fatalf("%s: nothing to compare", c.what)
		}
		sorted := slices.Sorted(slices.Values(c.spread))
		t.Logf("%s: median error %.2f us, from %.2f to %.2f, %d packets", c.what, c.median()/1e3,
			sorted[0]/1e3, sorted[len(sorted)-1]/1e3, len(sorted))
	}
}
