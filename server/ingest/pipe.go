package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
)

// pipe queues, decodes and commits the batches of one lane, or all batches of a server
// without lanes.
type pipe struct {
	in     *Ingest
	lane   int // bus.NoLane: for the server's own rows, and for all without lanes
	linger time.Duration
	groups chan []item
	ended  sync.WaitGroup
	// own are batches of the server that the archive could not store: there is no other
	// copy. They precede the next group. Only commitAll uses it.
	own []item

	// The mutex of the Ingest guards the fields below.
	arrived *sync.Cond
	queue   []item
	bytes   int64
	ahead   bool // a group is decoded or committed
	// committed is when the last commit ended, and took how long it took.
	committed time.Time
	took      time.Duration
	closed    bool
	failing   error   // of the last commit
	target    *target // nil: the lane is not open
	stats     LaneStats
}

// target is where a pipe stores its batches.
type target struct {
	store func(context.Context, []archive.Batch) ([]bool, map[int]error, error)
	// held reports whether what is stored now may be acknowledged; lost is called once when
	// it may not any more.
	held func() bool
	lost func(error)
	// ctx ends when the lane is lost.
	ctx  context.Context
	stop context.CancelCauseFunc
}

// errLane is the answer to batches of a lane that this server does not hold, or not any more:
// their senders send them again.
var errLane = errors.New("another server stores the batches of this agent")

func (i *Ingest) newPipe(lane int, linger time.Duration, to *target) *pipe {
	p := &pipe{in: i, lane: lane, linger: linger, groups: make(chan []item, 1), arrived: sync.NewCond(&i.mu), target: to}
	p.stats.Lane = lane
	p.ended.Go(p.gather)
	p.ended.Go(p.commitAll)
	return p
}

// full reports whether the queue has no space for an item, of a lane or in total.
func (p *pipe) full(it *item) (share, total bool) {
	i := p.in
	total = i.bytes > 0 && i.bytes+it.size() > i.options.QueueBytes
	share = p.lane != bus.NoLane && p.bytes > 0 && p.bytes+it.size() > i.options.QueueBytes/laneShare
	return share, total
}

// laneShare is the part of the queue that one lane may have: others go on when its commits
// take long.
const laneShare = 4

// enqueue returns nil, errClosing, or bus.ErrBusy for a lane that has its share of the queue.
// It waits for space in the queue.
func (p *pipe) enqueue(it item) error {
	i := p.in
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		share, total := p.full(&it)
		switch {
		case p.closed:
			return errClosing
		case share:
			return fmt.Errorf("%w: batches of lane %d arrive faster than they are stored", bus.ErrBusy, p.lane)
		case total && i.hurried:
			return errClosing
		}
		if !total {
			break
		}
		i.changed.Wait()
	}
	if it.batch.Agent == OwnAgent {
		i.number(&it)
	}
	p.queue = append(p.queue, it)
	p.resize(it.size())
	p.arrived.Signal()
	return nil
}

// resize counts bytes that enter or leave the queue.
func (p *pipe) resize(by int64) {
	p.bytes += by
	p.in.bytes += by
}

// gather groups queued batches and decodes them, without lanes while the previous group is being
// committed.
func (p *pipe) gather() {
	defer close(p.groups)
	for {
		group := p.next()
		if group == nil {
			return
		}
		p.in.decode(group)
		p.groups <- group
	}
}

// A lane lingers until its previous group is committed, and so long that all busy lanes of the server together spend
// about 1/lingerShare of the time of one with commits, but at most lingerMost: to the archive a commit of a few rows costs
// nearly as much as one of many, and the more it has to do with the commits of many lanes, the fewer and larger they
// should be. A lane is busy for busyFor after a commit.
const (
	lingerShare = 2
	lingerMost  = 2 * time.Second
	busyFor     = 5 * time.Second
)

// lingers returns how long the next group waits for more batches.
func (p *pipe) lingers() time.Duration {
	if p.lane == bus.NoLane {
		return p.linger
	}
	busy := time.Duration(1)
	for _, other := range p.in.lanes {
		if other != p && time.Since(other.committed) < busyFor {
			busy++
		}
	}
	return max(p.linger, min(lingerShare*p.took*busy, lingerMost))
}

// next waits for a first batch, lingers for more, and dequeues them.
func (p *pipe) next() []item {
	i := p.in
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(p.queue) == 0 {
		if p.closed {
			return nil
		}
		p.arrived.Wait()
	}
	begun, linger := time.Now(), p.lingers()
	wake := time.AfterFunc(linger, func() {
		i.mu.Lock() // a broadcast between the check of the time and Wait below would be lost
		defer i.mu.Unlock()
		p.arrived.Broadcast()
	})
	defer wake.Stop()
	for (time.Since(begun) < linger || p.ahead) && p.bytes < i.options.CommitBytes && !p.closed {
		p.arrived.Wait()
	}
	var n int
	var size int64
	for n = 0; n < len(p.queue) && (n == 0 || size+p.queue[n].size() <= i.options.CommitBytes); n++ {
		size += p.queue[n].size()
	}
	group := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	p.ahead = p.lane != bus.NoLane
	return group
}

// ownRetry is the delay before batches of the server are stored again.
const ownRetry = time.Second

func (p *pipe) commitAll() {
	for open := true; open; {
		var again <-chan time.Time
		if len(p.own) != 0 { // no other batch may arrive for a long time: the queue may be full
			again = time.After(ownRetry)
		}
		var group []item
		select {
		case group, open = <-p.groups:
		case <-again:
		}
		if len(group) != 0 || again != nil && open {
			p.commit(group)
			p.behind()
		}
	}
	if len(p.own) != 0 {
		p.commit(nil)
	}
	for n := range p.own {
		p.in.drop(&p.own[n])
	}
}

// behind lets the next group follow.
func (p *pipe) behind() {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.ahead = false
	p.arrived.Broadcast()
}

// commit stores a group and answers each of its batches.
func (p *pipe) commit(group []item) {
	group = append(p.own, group...)
	p.own = nil
	batches := make([]archive.Batch, 0, len(group))
	places := make([]int, 0, len(group))
	for n := range group {
		if group[n].err == nil {
			batches, places = append(batches, group[n].batch), append(places, n)
		}
	}
	var stored []bool
	var rejected map[int]error
	var err error
	var took time.Duration
	if len(batches) != 0 {
		stored, rejected, took, err = p.store(batches)
	}
	for n, place := range places {
		switch {
		case err != nil:
			group[place].err = err
		case rejected[n] != nil:
			group[place].err = refusal(rejected[n])
		}
	}
	p.settle(group, places, stored, took)
}

// store stores batches. After an error nothing of them may be acknowledged, although they may
// be stored.
func (p *pipe) store(batches []archive.Batch) (stored []bool, rejected map[int]error, took time.Duration, err error) {
	i := p.in
	i.mu.Lock()
	to := p.target
	i.mu.Unlock()
	if to == nil || to.ctx.Err() != nil {
		return nil, nil, 0, errLane
	}
	if i.commits != nil {
		i.commits <- struct{}{}
		defer func() { <-i.commits }()
	}
	begun := time.Now()
	stored, rejected, err = to.store(to.ctx, batches)
	took = time.Since(begun)
	if err == nil && !to.held() {
		err = fmt.Errorf("%w: the lease ended during a commit", archive.ErrFenced)
	}
	if errors.Is(err, archive.ErrFenced) {
		p.lose(to, err)
	}
	p.tell(err)
	return stored, rejected, took, err
}

// lose ends the use of a target. Nothing more is stored there.
func (p *pipe) lose(to *target, reason error) {
	p.in.mu.Lock()
	mine := p.target == to
	if mine {
		p.target = nil
	}
	p.in.mu.Unlock()
	to.stop(reason)
	if mine && to.lost != nil {
		to.lost(reason)
	}
}

// refusal is the answer to a batch that the archive rejects.
func refusal(reason error) error {
	if archive.Temporary(reason) {
		return reason
	}
	return fmt.Errorf("%w: %w", bus.ErrRejected, reason)
}

// tell logs when the archive stops storing batches and when it resumes, not each of the
// retries in between.
func (p *pipe) tell(err error) {
	i := p.in
	i.mu.Lock()
	before := p.failing
	p.failing = err
	i.mu.Unlock()
	log := i.options.Log
	if p.lane != bus.NoLane {
		log = log.With("lane", p.lane)
	}
	switch {
	case err != nil && before == nil:
		log.Error("cannot store batches; agents keep them", "error", err)
	case err == nil && before != nil:
		log.Info("batches are stored again")
	}
}

// settle counts and answers the batches of a group, and publishes the new ones.
func (p *pipe) settle(group []item, places []int, stored []bool, took time.Duration) {
	fresh := map[int]bool{}
	for n, place := range places {
		fresh[place] = group[place].err == nil && n < len(stored) && stored[n]
	}
	i := p.in
	i.mu.Lock()
	s := &i.stats
	s.Commits++
	s.CommitSeconds += took.Seconds()
	for n := range group {
		p.resize(-group[n].size())
		switch it := &group[n]; {
		case fresh[n]:
			s.Batches++
			p.stats.Batches++
			s.Rows += uint64(it.batch.Record.NumRows())
			p.stats.Rows += uint64(it.batch.Record.NumRows())
			s.Implausible += it.implausible
		case it.err == nil:
			s.Duplicates++
		case it.refused():
			s.Rejected++
		case errors.Is(it.err, measure.ErrUnknown):
			s.Unsupported++
		default:
			s.Failed++
			p.stats.Failed++
		}
	}
	p.stats.Commits++
	p.stats.CommitSeconds += took.Seconds()
	p.took, p.committed = took, time.Now()
	i.changed.Broadcast()
	i.mu.Unlock()
	for n := range group {
		it := &group[n]
		if it.refused() || it.err != nil && archive.Temporary(it.err) {
			i.options.Refused(it.batch.Agent, fmt.Errorf("batch of %q: %w", it.batch.Stream, it.err))
		}
		if it.delivery.Answer != nil {
			it.delivery.Answer(it.err)
		} else if it.done != nil && (it.err == nil || it.refused()) {
			it.done(it.err)
		} else if it.err != nil {
			p.keep(it)
			continue
		}
		if fresh[n] {
			i.live.publish(it.batch)
		}
		if it.batch.Record != nil {
			it.batch.Record.Release()
		}
	}
}
