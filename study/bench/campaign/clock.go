package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clock steps the real-time clock of one process. Setting the machine's would disturb
// every other program, and namespaces of time do not cover this clock. Programs read it
// through a function that the kernel maps into each process (vDSO): the process gets a
// private copy of that function that adds an offset. This covers the Go runtime and the C
// library, so rows, certificates and time-outs; what calls the kernel directly, as the
// agent does to compare two kernel clocks, sees no step.
type clock struct {
	memory *os.File
	offset int64 // address
}

// canStep reports whether clocks can be stepped on this machine.
const canStep = runtime.GOARCH == "amd64"

// readClock is the function, for amd64 (System V calling convention):
//
//	mov $228, %eax; syscall      clock_gettime(clock, result)
//	test %eax, %eax; jnz ret
//	test %edi, %edi; jz add      CLOCK_REALTIME
//	cmp $5, %edi; jne ret        CLOCK_REALTIME_COARSE
//	add: mov offset(%rip), %rcx; add %rcx, (%rsi)
//	ret: ret
//	offset: .quad 0              seconds
var readClock = []byte{
	0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05,
	0x85, 0xc0, 0x75, 0x13,
	0x85, 0xff, 0x74, 0x05,
	0x83, 0xff, 0x05, 0x75, 0x0a,
	0x48, 0x8b, 0x0d, 0x04, 0, 0, 0, 0x48, 0x01, 0x0e,
	0xc3,
	0, 0, 0, 0, 0, 0, 0, 0,
}

const (
	offsetAt = 31
	// spareBytes at the end of the mapping are padding, where readClock fits.
	spareBytes = 64
	jumpBytes  = 5
)

// replaceClock replaces the clock of a running process: its function becomes a jump to
// readClock. The process is stopped for that moment, while no thread is inside the jump.
func replaceClock(pid int) (*clock, error) {
	begin, end, err := vdso(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		return nil, err
	}
	entry, err := clockIn(image)
	if err != nil {
		return nil, err
	}
	spare := end - spareBytes
	if slices.ContainsFunc(image[len(image)-spareBytes:], func(b byte) bool { return b != 0 }) {
		return nil, errors.New("the vDSO has no space at its end")
	}
	if _, err := memory.WriteAt(readClock, spare); err != nil {
		return nil, err
	}
	entry += begin
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(spare-entry-jumpBytes))
	return &clock{memory: memory, offset: spare + offsetAt}, whileStopped(pid, entry, func() error {
		_, err := memory.WriteAt(jump, entry)
		return err
	})
}

// clockIn returns where the function is in the image of the vDSO.
func clockIn(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no clock")
}

// whileStopped calls f while the process is stopped and none of its threads is about to
// execute the jump.
func whileStopped(pid int, entry int64, f func() error) error {
	for range stopAttempts {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		free, err := false, error(nil)
		for range stopPolls { // until the signal has reached all threads
			time.Sleep(time.Millisecond)
			if free, err = isFree(pid, entry); free || err != nil {
				break
			}
		}
		if free && err == nil {
			err = f()
		}
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
		if free || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errNotStopped
}

const stopAttempts, stopPolls = 10, 300

// errNotStopped is a process that waits for a disk all the time, say.
var errNotStopped = errors.New("the process does not stop outside of its clock")

// isFree reports whether all threads have stopped, at other addresses.
func isFree(pid int, entry int64) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread + "/stat")
		if err != nil {
			return false, err
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(after, "T") {
			return false, nil
		}
		where, err := os.ReadFile(thread + "/syscall")
		if err != nil {
			return false, err
		}
		words := strings.Fields(string(where))
		counter, err := strconv.ParseInt(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
		if err != nil || counter >= entry && counter < entry+jumpBytes {
			return false, nil
		}
	}
	return true, nil
}

// vdso returns where the kernel has mapped its functions.
func vdso(pid int) (begin, end int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		begin, err = strconv.ParseInt(from, 16, 64)
		if err == nil {
			end, err = strconv.ParseInt(to, 16, 64)
		}
		return begin, end, err
	}
	// It has just ended, or executes a new program whose image is not whole yet.
	return 0, 0, fmt.Errorf("no vDSO in the memory map of the process: %w", os.ErrNotExist)
}

// step sets how far the clock is ahead of the machine's, in whole seconds.
func (c *clock) step(ahead time.Duration) error {
	_, err := c.memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)), c.offset)
	return err
}

func (c *clock) Close() error { return c.memory.Close() }
