// Package emulator is a link between two taps that delays, drops, duplicates, reorders
// and rate-limits packets, and records exactly what it did: the truth. It runs in a
// separate process, which package lab starts.
//
// It replaces netem, which needs a kernel module and does not report what it did. It
// does not modify packets, and the truth does not cover what happens between a host's
// stack and its tap.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// End is one side of the link.
type End struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Interface string `json:"interface"`
}

// Config of an emulator.
type Config struct {
	Lab     string    `json:"lab"`
	Link    string    `json:"link"`
	Seed    uint64    `json:"seed"`
	MTU     int       `json:"mtu"`
	Ends    [2]End    `json:"ends"`
	Faults  [2]Faults `json:"faults"`  // [0] is what Ends[0] sends
	Truth   string    `json:"truth"`   // the truth file
	Socket  string    `json:"socket"`  // the control socket
	Packets bool      `json:"packets"` // also write the packet logs
}

// PacketLog is the packet log of the direction that leaves from a host.
func (c *Config) PacketLog(host string) string {
	return c.Truth[:len(c.Truth)-len(filepath.Ext(c.Truth))] + "." + host + ".packets"
}

// truthPeriod is the interval at which the truth file is rewritten; it is increased so
// that writing takes at most a twentieth of the time.
const truthPeriod = time.Second

type emulator struct {
	config     Config
	directions [2]*direction
	stopping   atomic.Bool
	writing    sync.Mutex
	final      bool // the last truth is written
}

// Run forwards frames between the taps, one for each end, until ctx is done or a tap
// fails, and then writes the final truth. It calls ready once it accepts changes and
// frames. SIGUSR1 writes the truth immediately.
func Run(ctx context.Context, config Config, taps [2]int, ready func()) error {
	// A thread that returns from the kernel must not wait for a processor.
	runtime.GOMAXPROCS(max(8, runtime.NumCPU()))
	debug.SetGCPercent(400)
	e := &emulator{config: config}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create eventfd: %w", err)
	}
	defer unix.Close(stop)
	for i := range e.directions {
		if e.directions[i], err = e.newDirection(i, taps, stop); err != nil {
			return err
		}
	}
	control, err := listen(config.Socket, e)
	if err != nil {
		return err
	}
	defer control.close()
	if err := e.writeTruth(false); err != nil {
		return err
	}

	ended := make(chan error, len(e.directions))
	for _, d := range e.directions {
		go func() { ended <- d.run() }()
	}
	ready()
	failed := e.report(ctx, ended)
	running := len(e.directions)
	if failed != nil {
		running--
	}
	e.stopping.Store(true)
	if _, err := unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("stop directions: %w", err)
	}
	for range running {
		failed = errors.Join(failed, <-ended)
	}
	failed = errors.Join(failed, e.writeTruth(true))
	for _, d := range e.directions {
		failed = errors.Join(failed, d.log.close())
	}
	return failed
}

// newDirection prepares the direction from Ends[i].
func (e *emulator) newDirection(i int, taps [2]int, stop int) (*direction, error) {
	size := e.config.MTU + etherHeader + 4
	d := &direction{
		from: e.config.Ends[i], to: e.config.Ends[1-i],
		in: taps[i], out: taps[1-i], stop: stop, stopping: &e.stopping,
		dice: newDice(e.config.Seed, i), faults: e.config.Faults[i],
		frameSize: size, frameLimit: maxLineBytes / size,
		flows: newFlows(maxFlows),
	}
	var err error
	if d.unread, err = dropCounter(d.from); err != nil {
		return nil, err
	}
	if e.config.Packets {
		d.log, err = createPacketLog(e.config.PacketLog(d.from.Host))
	}
	return d, err
}

// report writes the truth periodically and on SIGUSR1 until ctx is done or a
// direction has ended; it returns why that one ended.
func (e *emulator) report(ctx context.Context, ended <-chan error) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	defer signal.Stop(asked)
	period := time.NewTimer(truthPeriod)
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-asked:
		case <-period.C:
		}
		began := time.Now()
		// A full disk must not end the link; the file's time shows that it is stale.
		_ = e.writeTruth(false)
		period.Reset(max(truthPeriod, 20*time.Since(began)))
	}
}

// writeTruth brings the truth file and the packet logs up to date.
func (e *emulator) writeTruth(final bool) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.final {
		return nil
	}
	e.final = final
	truth := Truth{
		Lab: e.config.Lab, Link: e.config.Link, Seed: e.config.Seed,
		Written: time.Now(), Final: final,
	}
	var failed error
	for _, d := range e.directions {
		truth.Directions = append(truth.Directions, d.snapshot())
		d.mu.Lock()
		failed = errors.Join(failed, d.log.flush())
		d.mu.Unlock()
	}
	return errors.Join(failed, truth.write(e.config.Truth))
}
