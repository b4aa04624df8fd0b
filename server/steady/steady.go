// Package steady keeps the time by which the server does what cannot be undone, above all
// removing old rows. It advances with the time that elapses, not with the wall clock, which
// anyone may set: a step of the wall clock neither expires what is young nor makes what
// arrives meanwhile look old.
//
// It does not know the clocks of other machines: its witnesses do.
package steady

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/store"
)

const (
	// apartMost is the difference up to which two clocks agree: retention is a matter of hours or more.
	apartMost = 10 * time.Minute
	// offMost is how long a machine may have been off, by its wall clock, without a witness.
	offMost = 24 * time.Hour
	// witnessTime is how long after a start the clock waits for witnesses.
	witnessTime = 10 * time.Minute
	// slewShare of the time that elapses is what the clock may gain or lose to follow the wall clock.
	slewShare = 100

	fileName   = "clock.json"
	acceptName = "clock.accept" // by which an operator confirms the wall clock
)

// Options of a Clock.
type Options struct {
	// Folder of the file that keeps the time across restarts.
	Folder string
	// Witnesses returns how far other machines' clocks are ahead of the wall clock; nil: there are none.
	Witnesses func() []time.Duration
	// Wall is the wall clock; default time.Now.
	Wall func() time.Time
	// Uptime is the time since boot, including suspension; default CLOCK_BOOTTIME.
	Uptime func() time.Duration
	// Boot identifies the running boot; default Boot. Empty: unknown.
	Boot string
}

// state is the file of a Clock, and the clock when Step last ran.
type state struct {
	Time time.Time `json:"time"`
	// Cutoff is the time up to which removing has gone while it is held.
	Cutoff time.Time `json:"cutoff"`
	Held   string    `json:"held,omitempty"`
	// Settled: it is known how long the machine was off, so that only what elapses changes Time.
	Settled bool `json:"settled"`
	// Accepted: an operator has confirmed the wall clock, which witnesses have contradicted since.
	Accepted bool          `json:"accepted,omitempty"`
	Boot     string        `json:"boot,omitempty"`
	Uptime   time.Duration `json:"uptime_ns"`
}

// Clock is safe for concurrent use.
type Clock struct {
	options  Options
	stepping sync.Mutex // held while Step saves, which may take long
	mu       sync.Mutex
	last     state
	opened   time.Duration // uptime
	// off is how long the machine may have been off without a witness.
	off          time.Duration
	new          bool // there was no file
	contradicted bool // by most witnesses, when Step last ran
}

// Open continues with the time of the file. Without one, or with one that is damaged, it begins
// with the wall clock; the error says why the file could not be read.
func Open(options Options) (*Clock, error) {
	if options.Wall == nil {
		options.Wall = time.Now
	}
	if options.Uptime == nil {
		options.Uptime = uptime
	}
	c := &Clock{options: options, opened: options.Uptime(), off: offMost}
	found, err := store.Load(filepath.Join(options.Folder, fileName), &c.last)
	switch last := &c.last; {
	case err != nil || !found || last.Time.IsZero():
		now := c.wall()
		c.last, c.off, c.new = state{Time: now, Cutoff: now}, apartMost, true
	case last.Boot == options.Boot && options.Boot != "" && last.Uptime <= c.opened:
		last.Time = last.Time.Add(c.opened - last.Uptime)
	default:
		last.Settled = false
	}
	c.last.Boot, c.last.Uptime = options.Boot, c.opened
	return c, err
}

// Boot is the running kernel's boot ID; empty if it cannot be read. A service's view of /proc may
// have processes only: its unit tells the boot ID.
func Boot() string {
	boot := os.Getenv("BOOT_ID")
	if text, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		boot = string(text)
	}
	return strings.ReplaceAll(strings.TrimSpace(boot), "-", "")
}

func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every kernel on which this program runs has it
	}
	return time.Duration(t.Nano())
}

// New reports whether there was no file.
func (c *Clock) New() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.new
}

// Begin tells a clock without a file of a time that has passed, such as the one of the last row.
func (c *Clock) Begin(passed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if passed = passed.UTC(); c.new && passed.Before(c.last.Time) {
		c.last.Time, c.last.Cutoff, c.off = passed, passed, offMost
	}
}

func (c *Clock) wall() time.Time { return c.options.Wall().UTC().Round(0) }

// elapsed is the time since Step last ran, added to the time then.
func (c *Clock) elapsed() time.Time { return c.last.Time.Add(c.options.Uptime() - c.last.Uptime) }

// Now is the time at which something arrives. Until it is known how long the machine was off, it
// is no earlier than the wall clock, so that rows are rather kept too long.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wall := c.elapsed(), c.wall()
	if !c.last.Settled && wall.After(now) {
		return wall
	}
	return now
}

// Cutoff is the time from which the age is counted of what is to be removed. It stands still
// while that is held.
func (c *Clock) Cutoff() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Held != "" {
		return c.last.Cutoff
	}
	return c.elapsed()
}

// Held says why nothing is removed by its age; empty: it is.
func (c *Clock) Held() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Held
}

// Issued is the time from which certificates are valid for their lifetime: the wall clock, or the
// time that has elapsed while most witnesses contradict the former. It is no earlier than the time
// that has elapsed: what is issued while the wall clock is behind must not expire when it is right again.
func (c *Clock) Issued() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wall := c.elapsed(), c.wall()
	if c.contradicted || wall.Before(now) {
		return now
	}
	return wall
}

// Step compares the clock with the wall clock and the witnesses, saves it, and returns Held. It is
// to be called every minute or so. The error is one of saving.
func (c *Clock) Step() (held string, err error) {
	c.stepping.Lock()
	defer c.stepping.Unlock()
	accepted, err := c.accepted()
	saved := c.step(accepted)
	return saved.Held, errors.Join(err, store.Save(filepath.Join(c.options.Folder, fileName), saved, 0o600))
}

func (c *Clock) step(accepted bool) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	var witnesses []time.Duration
	if c.options.Witnesses != nil {
		witnesses = c.options.Witnesses()
	}
	apart := 0
	for _, ahead := range witnesses {
		if ahead.Abs() > apartMost {
			apart++
		}
	}
	now, wall, up, all := c.elapsed(), c.wall(), c.options.Uptime(), len(witnesses)
	gap, confirmed := wall.Sub(now), 2*apart < all
	c.last.Accepted = accepted || c.last.Accepted && 2*apart > all
	c.contradicted = 2*apart > all && !c.last.Accepted
	near := gap >= -apartMost && gap <= c.off
	switch {
	case accepted, !c.last.Settled && (confirmed || all == 0 && near && up-c.opened >= witnessTime),
		confirmed && gap.Abs() > apartMost && gap.Abs() <= offMost: // a virtual machine was paused
		now, c.last.Settled, gap = wall, true, 0
	case c.last.Settled && gap.Abs() <= apartMost && !c.contradicted:
		most := (up - c.last.Uptime) / slewShare
		now = now.Add(min(max(gap, -most), most))
	}
	c.last.Time, c.last.Uptime, c.last.Held, c.new = now, up, "", false
	switch {
	case c.contradicted:
		c.last.Held = fmt.Sprintf("the clocks of %d of %d other hosts differ from the server's by more than %v", apart, all, apartMost)
	case gap.Abs() > offMost && c.last.Settled:
		c.last.Held = fmt.Sprintf("the server's clock was set: it is %v from the time that has elapsed", gap.Round(time.Minute))
	case gap.Abs() > offMost:
		c.last.Held = fmt.Sprintf("by its clock, the server was off for %v, which no agent on another host confirms", gap.Round(time.Minute))
	}
	if c.last.Held != "" {
		c.last.Held += "; correct the clock, or confirm it: pillion-server accept-clock"
	} else {
		c.last.Cutoff = now
	}
	return c.last
}

// accepted reports, once, whether an operator has confirmed the wall clock.
func (c *Clock) accepted() (bool, error) {
	path := filepath.Join(c.options.Folder, acceptName)
	var at time.Time
	found, err := store.Load(path, &at)
	if err == nil && !found {
		return false, nil
	}
	if removed := os.Remove(path); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return false, removed // it would count again
	}
	return err == nil && c.wall().Sub(at).Abs() <= offMost, err
}

// Accept confirms the wall clock to the server with the data directory, which removes old rows by
// it from its next Step on. It returns the file that says so.
func Accept(folder string, wall time.Time) (path string, err error) {
	path = filepath.Join(folder, acceptName)
	return path, store.Save(path, wall.UTC(), 0o600)
}
