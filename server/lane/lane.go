// Package lane divides the lanes of a cluster evenly among its living servers. A server
// announces itself, takes the lanes that nobody holds up to its share, each by a lease, and
// hands over what exceeds its share without waiting for a lease to expire.
//
// Its place in the flow: it tells the bus whose batches to take, and ingest where to store
// them. It stores nothing itself; the archive ends what an earlier owner of a lane has under
// way.
package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/server/event"
	"pillion.dev/server/ingest"
)

// Bucket has the leases of lanes and the living servers; TTL is after how long the leases of a
// server that is gone are free.
const (
	Bucket = "pillion-lanes"
	TTL    = 3 * time.Second

	lanePrefix   = "lane."
	memberPrefix = "member."
	// openings limits how many lanes are opened at a time.
	openings = 16
	checks   = 200 * time.Millisecond
	// drainTime limits the commit of what is queued when a lane is handed over.
	drainTime = 10 * time.Second
	// failedWait is how long a server leaves a lane that it could not open to others.
	failedWait = 2 * time.Second
	// freeTime is how long a lane may have no owner before health reports it.
	freeTime = 10 * time.Second
)

// Options of Lanes.
type Options struct {
	Bus     *bus.Server
	KV      *bus.KV // Bucket
	Archive archive.Laned
	Ingest  *ingest.Ingest
	// ID distinguishes the running servers. Own is the lane of this server's own rows.
	ID  string
	Own int
	// Agents are the names of all agents: the agents of a lane that was taken are asked to send
	// again what is not acknowledged.
	Agents func() []string
	Events event.Sink
	Log    *slog.Logger
}

// Lanes are a server's part of the lanes.
type Lanes struct {
	options Options
	log     *slog.Logger
	opening chan struct{} // one for each lane that is being opened
	wake    chan struct{}
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	parts   sync.WaitGroup
	endOwn  context.CancelFunc
	own     sync.WaitGroup

	mu      sync.Mutex
	members map[string]uint64 // revisions of their leases
	holders map[int]holder    // by lane
	// absences in a row of the other servers, once they have answered.
	absences map[string]int
	free     map[int]time.Time
	known    bool // the watch is current
	mine     map[int]context.CancelFunc
	open     map[int]bool
	ownOpen  bool
	later    map[int]time.Time // not before
	// changes since the last event.
	taken, left []int
	lost        bool
}

// holder is the server that has the lease of a lane.
type holder struct {
	id       string
	revision uint64 // of the lease
}

// Start begins to take lanes.
func Start(options Options) *Lanes {
	l := &Lanes{
		options: options, log: options.Log, opening: make(chan struct{}, openings), wake: make(chan struct{}, 1),
		members: map[string]uint64{}, holders: map[int]holder{}, absences: map[string]int{}, free: map[int]time.Time{},
		mine: map[int]context.CancelFunc{}, open: map[int]bool{}, later: map[int]time.Time{},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	for lane := range bus.Lanes {
		l.free[lane] = time.Now()
	}
	var own context.Context
	own, l.endOwn = context.WithCancel(context.Background())
	l.own.Go(func() { l.holdOwn(own) })
	l.parts.Go(l.announce)
	l.parts.Go(l.lookOut)
	l.parts.Go(func() {
		// The error is the end of the context.
		_ = options.KV.Watch(l.ctx, "", l.changed, func() {
			l.mu.Lock()
			l.known = true
			l.mu.Unlock()
			l.poke()
		})
	})
	l.parts.Go(l.run)
	return l
}

// Stop hands over all lanes but the server's own: what is queued is stored first.
func (l *Lanes) Stop() {
	l.stop()
	l.parts.Wait()
}

// Close ends Lanes after Stop, when the server's own rows are stored.
func (l *Lanes) Close() {
	l.Stop()
	l.endOwn()
	l.own.Wait()
}

func (l *Lanes) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// changed notes who lives and who holds what.
func (l *Lanes) changed(e bus.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if member, ok := strings.CutPrefix(e.Key, memberPrefix); ok {
		_, lived := l.members[member]
		l.members[member] = e.Revision
		if e.Deleted {
			delete(l.members, member)
		}
		if lived == e.Deleted {
			l.poke()
		}
		return
	}
	lane, err := strconv.Atoi(strings.TrimPrefix(e.Key, lanePrefix))
	if err != nil || lane < 0 || lane >= bus.Lanes {
		return // the own lane of a server
	}
	if e.Deleted {
		delete(l.holders, lane)
		l.free[lane] = time.Now()
		l.poke()
		return
	}
	delete(l.free, lane)
	id, err := bus.HolderOf(e.Value)
	if err != nil {
		id = "?"
	}
	l.holders[lane] = holder{id, e.Revision}
}

// announce keeps this server among the living ones.
func (l *Lanes) announce() {
	if err := l.options.Bus.ServePresence(l.options.ID); err != nil { // then the others wait for the ends of its leases
		l.log.Warn("announce this server", "error", err)
	}
	for l.ctx.Err() == nil {
		lease, err := l.options.KV.Acquire(l.ctx, memberPrefix+l.options.ID, l.options.ID)
		if err != nil {
			pause(l.ctx, checks)
			continue
		}
		select {
		case <-lease.Done():
		case <-l.ctx.Done():
			release(lease, l.log)
		}
	}
}

// run takes and hands over lanes.
func (l *Lanes) run() {
	ticks := time.NewTicker(checks)
	defer ticks.Stop()
	for {
		select {
		case <-l.ctx.Done():
			l.tell()
			return
		case <-l.wake:
		case <-ticks.C:
			l.tell()
		}
		l.balance()
	}
}

// balance takes free lanes, or hands lanes over, until this server has its share.
func (l *Lanes) balance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || l.ctx.Err() != nil {
		return
	}
	share, first := l.share()
	for _, lane := range l.preferred(first, share) {
		_, held := l.holders[lane]
		_, mine := l.mine[lane]
		if held || mine || len(l.mine) >= share || time.Now().Before(l.later[lane]) {
			continue
		}
		ctx, cancel := context.WithCancel(l.ctx)
		l.mine[lane] = cancel
		l.parts.Go(func() {
			wait := l.hold(ctx, lane)
			cancel()
			l.mu.Lock()
			delete(l.mine, lane)
			l.later[lane] = time.Now().Add(wait)
			l.mu.Unlock()
			l.poke()
		})
	}
	surplus := len(l.mine) - share
	for n := bus.Lanes - 1; n >= 0 && surplus > 0; n-- {
		if end, mine := l.mine[(first+n)%bus.Lanes]; mine {
			end() // again, if it is being handed over
			surplus--
		}
	}
}

// preferred are all lanes in the order in which they are taken: those in which agents wait for
// an acknowledgement come first.
func (l *Lanes) preferred(first, share int) (order []int) {
	if len(l.mine) >= share {
		return nil
	}
	var waited [bus.Lanes]bool
	for _, agent := range l.options.Agents() {
		waited[bus.LaneOf(agent)] = true
	}
	for _, now := range []bool{true, false} {
		for n := range bus.Lanes {
			if lane := (first + n) % bus.Lanes; waited[lane] == now {
				order = append(order, lane)
			}
		}
	}
	return order
}

// share is how many lanes this server should have, and the first one that it prefers.
func (l *Lanes) share() (share, first int) {
	members := []string{l.options.ID}
	for member := range l.members {
		if member != l.options.ID {
			members = append(members, member)
		}
	}
	slices.Sort(members)
	place := slices.Index(members, l.options.ID)
	share = bus.Lanes / len(members)
	if place < bus.Lanes%len(members) {
		share++
	}
	return share, place * bus.Lanes / len(members)
}

// hold takes a lane and keeps it until the context ends or it is lost. It returns how long
// to leave it to others.
func (l *Lanes) hold(ctx context.Context, lane int) time.Duration {
	select {
	case l.opening <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	h, err := l.take(ctx, lane)
	if err == nil {
		if err = l.options.Ingest.OpenLane(h.ctx, lane, h.lane, h.lease.Held, h.lose); err == nil {
			err = l.options.Bus.OpenLane(lane)
		}
	}
	<-l.opening
	if err != nil {
		if h != nil {
			l.options.Ingest.CloseLane(lane, err)
			h.end(l.log)
		}
		if errors.Is(err, bus.ErrChanged) { // another server was faster
			return checks
		}
		l.log.Warn("take lane", "lane", lane, "error", err)
		return failedWait
	}
	l.note(lane, true, nil)
	l.resend(lane)
	select {
	case <-ctx.Done(): // what is queued is committed, while the lease lasts
	case <-h.ctx.Done():
	}
	l.options.Bus.CloseLane(lane)
	cause := context.Cause(h.ctx)
	drain := time.AfterFunc(drainTime, func() { h.cancel(errDrain) })
	l.options.Ingest.CloseLane(lane, cause)
	drain.Stop()
	h.end(l.log)
	l.note(lane, false, cause)
	return failedWait
}

func (l *Lanes) resend(lane int) {
	for _, agent := range l.options.Agents() {
		if bus.LaneOf(agent) == lane {
			if err := l.options.Bus.Resend(agent); err != nil {
				l.log.Debug("ask agent to resend", "agent", agent, "error", err)
			}
		}
	}
}

// note counts a lane that was taken or left.
func (l *Lanes) note(lane int, taken bool, lost error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken {
		l.open[lane] = true
		l.taken = append(l.taken, lane)
		return
	}
	delete(l.open, lane)
	l.left = append(l.left, lane)
	l.lost = l.lost || lost != nil
	if lost != nil {
		l.log.Warn("lane lost", "lane", lane, "error", lost)
	}
}

// tell raises one event for all lanes that moved since the last.
func (l *Lanes) tell() {
	l.mu.Lock()
	taken, left, lost, now := l.taken, l.left, l.lost, len(l.open)
	busy := len(l.opening) != 0 && l.ctx.Err() == nil
	if busy || len(taken)+len(left) == 0 {
		l.mu.Unlock()
		return
	}
	l.taken, l.left, l.lost = nil, nil, false
	l.mu.Unlock()
	e := event.Event{Kind: "lanes-moved", Level: event.Info,
		Message: fmt.Sprintf("this server (%s) stores %d of %d lanes; took %s, left %s", l.options.ID, now, bus.Lanes, ranges(taken), ranges(left))}
	if lost {
		e.Level = event.Warning
		e.Message += ", some because their leases ended"
	}
	l.options.Events.Event(e)
}

// ranges lists lanes as in "1-3, 7".
func ranges(lanes []int) string {
	if len(lanes) == 0 {
		return "none"
	}
	slices.Sort(lanes)
	var text []string
	for i := 0; i < len(lanes); {
		j := i
		for j+1 < len(lanes) && lanes[j+1] <= lanes[j]+1 {
			j++
		}
		part := strconv.Itoa(lanes[i])
		if lanes[j] != lanes[i] {
			part += "-" + strconv.Itoa(lanes[j])
		}
		text, i = append(text, part), j+1
	}
	return strings.Join(text, ", ")
}

// Status of the lanes.
type Status struct {
	// Open lanes of this server, Free ones that no server has had for some time.
	Open, Free int
	// Own reports whether this server's own rows are stored.
	Own     bool
	Servers int // living
}

// Status returns the current one.
func (l *Lanes) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Open: len(l.open), Own: l.ownOpen, Servers: len(l.members)}
	for _, since := range l.free {
		if time.Since(since) > freeTime {
			s.Free++
		}
	}
	return s
}

// Err returns what is wrong, or nil.
func (s Status) Err() error {
	switch {
	case s.Free != 0:
		return fmt.Errorf("no server has taken %d of the lanes for %s", s.Free, freeTime)
	case !s.Own:
		return errors.New("the server's own rows wait: its lane is not open")
	}
	return nil
}

func (s Status) String() string {
	return fmt.Sprintf("%d of %d lanes, %d servers", s.Open, bus.Lanes, cmp.Or(s.Servers, 1))
}

func pause(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}
