package router

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// hogSpell is a time in which the hog had its processor to itself, in ns of the
// monotonic clock.
type hogSpell struct{ begin, end uint64 }

const (
	hogName = "hog"
	// hogGap is the least time that the hog takes for having been interrupted: no other
	// process or packet has the processor for less.
	hogGap = 2 * time.Microsecond
)

// pin puts the thread on one processor, before all ordinary processes, under a name.
// The thread is to end afterwards.
func pin(cpu int, name string) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("set affinity: %w", err)
	}
	raw := append([]byte(name), 0)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptrOf(raw), 0, 0, 0); err != nil {
		return fmt.Errorf("set name: %w", err)
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("set real-time priority: %w", err)
	}
	return nil
}

// hog keeps a processor busy in the interval that it receives, in ns of the monotonic
// clock, and returns the spells in which it had the processor.
func hog(cpu int, ready *sync.WaitGroup, when <-chan [2]uint64) (spells []hogSpell, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		spells = make([]hogSpell, 0, 100_000)
		err = pin(cpu, hogName)
		ready.Done()
		times := <-when
		if err != nil {
			return
		}
		start, end := times[0], times[1]
		last, _ := monotonic()
		begin := last
		for {
			now, _ := monotonic()
			if now-last > uint64(hogGap) {
				if last > start && len(spells) < cap(spells)-1 {
					spells = append(spells, hogSpell{begin, last})
				}
				begin = now
			}
			if now > end {
				spells = append(spells, hogSpell{begin, now})
				return
			}
			last = now
		}
	}()
	<-done
	return spells, err
}

// spray sends by one processor, as fast as it can, and returns when it tried
// to; it may not where all its packets still wait.
func (r *rig) spray(cpu int, client *net.UDPConn, ready *sync.WaitGroup, when <-chan [2]uint64) (sent []uint64, err error) {
	raw, err := client.SyscallConn()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		payload := make([]byte, 22)
		sent = make([]uint64, 0, 1_000_000)
		err = pin(cpu, "spray")
		ready.Done()
		times := <-when
		if err != nil {
			return
		}
		start, end := times[0], times[1]
		raw.Control(func(fd uintptr) {
			for {
				now, _ := monotonic()
				if now > end || len(sent) == cap(sent) {
					return
				}
				if now >= start {
					unix.RawSyscall(unix.SYS_WRITE, fd, uintptrOf(payload), uintptr(len(payload)))
					sent = append(sent, now)
				}
			}
		})
	}()
	<-done
	return sent, err
}

// steer lets that processor receive all that comes by the router's interface.
func (r *rig) steer(device string, cpu int) {
	r.t.Helper()
	mask := strconv.FormatUint(1<<cpu, 16)
	r.run(r.router, "unshare", "-m", "sh", "-c",
		"mount -t sysfs sysfs /sys && echo "+mask+" > /sys/class/net/"+device+"/queues/rx-0/rps_cpus")
}

// slow lets the router take some microseconds more for each packet than who sends them.
func (r *rig) slow() {
	r.t.Helper()
	r.forwardBy(asm.Instructions{
		asm.Mov.Imm(asm.R0, 30_000),
		asm.Sub.Imm(asm.R0, 1).WithSymbol("again"),
		asm.JNE.Imm(asm.R0, 1, "again"),
		asm.Return(),
	})
}

const burns = 4000 // that are remembered

// burner makes softirqs other than that of the network take a time on a processor. It is
// attached behind the profile: what runs before its hook is no part of the softirq.
func burner(t *testing.T, cpu int32) occupant {
	t.Helper()
	log, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8 + 16*burns, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 3, "end"), // NET_RX
		asm.FnGetSmpProcessorId.Call(),
		asm.JNE.Imm(asm.R0, cpu, "end"),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Imm(asm.R8, 10_000),
		asm.FnKtimeGetNs.Call().WithSymbol("again"),
		asm.Sub.Imm(asm.R8, 1),
		asm.JNE.Imm(asm.R8, 0, "again"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, log.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JGE.Imm(asm.R1, burns, "end"),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.LSh.Imm(asm.R2, 4),
		asm.Add.Reg(asm.R2, asm.R0),
		asm.StoreMem(asm.R2, 8, asm.R7, asm.DWord),
		asm.StoreMem(asm.R2, 16, asm.R9, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	var l link.Link
	attach := func() {
		if l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "softirq_entry", Program: program}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	busy := func() []hogSpell {
		t.Helper()
		var raw struct {
			Count uint64
			Times [burns][2]uint64
		}
		if err := errors.Join(l.Close(), log.Lookup(uint32(0), &raw)); err != nil {
			t.Fatal(err)
		}
		var all []hogSpell
		for _, times := range raw.Times[:raw.Count] {
			all = append(all, hogSpell{times[0], times[1]})
		}
		return all
	}
	keep := func(ready *sync.WaitGroup, when <-chan [2]uint64) error {
		ready.Done()
		<-when
		return nil
	}
	return occupant{attach: attach, keep: keep, busy: busy}
}

// joined makes one of spells that are not so far apart, and leaves out what is shorter.
func joined(spells []hogSpell, gap, least time.Duration) (all []hogSpell) {
	for _, s := range spells {
		if n := len(all); n > 0 && s.begin < all[n-1].end+uint64(gap) {
			all[n-1].end = s.end
		} else {
			all = append(all, s)
		}
	}
	return slices.DeleteFunc(all, func(s hogSpell) bool { return s.end-s.begin < uint64(least) })
}

// twoProcessors skips where a sender would have none beside the hog.
func twoProcessors(t *testing.T) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("one processor: the sender needs another than the hog")
	}
	if _, err := os.Stat("/sys/class/net/lo/queues/rx-0/rps_cpus"); err != nil {
		t.Skip("the kernel does not steer packets: CONFIG_RPS")
	}
}
