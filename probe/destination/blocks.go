package destination

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
)

// BlockReport is what the source of a flow sent in a block that is over.
type BlockReport struct {
	block.Count
	// Whole: marks have been read here since before the block began.
	Whole bool
}

const (
	// blocksFor is how long counts of blocks wait for the report of their source.
	blocksFor = 90 * time.Second
	// blocksMost bounds the counts that wait; the oldest blocks give way.
	blocksMost = 1 << 18
	// blocksLate is how long after its end packets are counted in a block, in blocks.
	blocksLate = 0.5
)

// blocks are the counts of blocks that are over, of marks without numbers. What arrived in one of
// a flow that is not among them, from first on, is nothing.
type blocks struct {
	reader  block.Reader
	period  time.Duration
	arrived map[uint64]map[flow.Raw]*arrived // by number of the block
	held    int
	first   uint64
	last    uint64
	missed  uint64 // packets of marks that are in no block
	reports []BlockReport
	news    []block.Count

	unsettled uint64
}

// arrived is what arrived of a flow in a block.
type arrived struct {
	block.Count
	settled bool
}

func newBlocks(settings Settings) *blocks {
	return &blocks{
		reader: block.Reader{Late: blocksLate, Idle: settings.Idle}, period: cmp.Or(settings.Block, block.Default),
		arrived: map[uint64]map[flow.Raw]*arrived{},
	}
}

// SetBlock changes the length of blocks. What was counted before has no figures.
func (d *Destination) SetBlock(period time.Duration) error {
	period = cmp.Or(period, block.Default)
	if err := block.Check(period); err != nil {
		return err
	}
	if err := d.objects.BlockNs.Set(uint64(period)); err != nil {
		return fmt.Errorf("set length of blocks: %w", err)
	}
	if d.blocks.period != period {
		d.restartBlocks(period)
	}
	return nil
}

// SettleBlocks takes reports of sources, which Read accounts for as soon as their blocks are
// over here.
func (d *Destination) SettleBlocks(reports []BlockReport) {
	d.blocks.reports = append(d.blocks.reports, reports...)
	if surplus := len(d.blocks.reports) - blocksMost; surplus > 0 {
		for _, r := range d.blocks.reports[:surplus] {
			d.blocks.unsettled += r.Packets
		}
		d.blocks.reports = d.blocks.reports[surplus:]
	}
}

// Blocks returns what has arrived in blocks that are over, by flow, since the last call.
func (d *Destination) Blocks() []block.Count {
	news := d.blocks.news
	d.blocks.news = nil
	return news
}

// BlocksUnsettled returns the packets in reports of blocks for which there is no figure: not all
// that arrived in them is known, or to which block it belongs.
func (d *Destination) BlocksUnsettled() uint64 { return d.blocks.unsettled }

// readBlocks takes the blocks that are over, and enters what their sources have reported.
func (d *Destination) readBlocks(r *reading) error {
	now, b := d.clock.Now(), d.blocks
	counts, span, err := b.reader.Read(d.objects.ModuleStates, now, b.period)
	if err != nil {
		return err
	}
	if b.last != 0 && span.First > b.last+1 { // some were not read in time
		b.first = span.First
	}
	b.last = max(b.last, span.Last)
	if err := d.readMissedBlocks(now); err != nil {
		return err
	}
	for _, count := range counts {
		if count.Period == b.period {
			b.hold(count)
			b.news = append(b.news, count)
		}
	}
	if surplus := len(b.news) - blocksMost; surplus > 0 {
		b.news = b.news[surplus:]
	}
	return d.settleBlocks(r, now)
}

// readMissedBlocks: if packets were in no block, what arrived up to the present one is not known.
func (d *Destination) readMissedBlocks(now time.Time) error {
	var missed, full uint64
	if err := errors.Join(d.objects.BlocksMissed.Get(&missed), d.objects.ModuleStatesFull.Get(&full)); err != nil {
		return fmt.Errorf("read blocks: %w", err)
	}
	if b := d.blocks; missed+full != b.missed {
		b.missed = missed + full
		b.first = block.Of(now, b.period) + 2
	}
	return nil
}

// hold keeps a count until its source has reported.
func (b *blocks) hold(count block.Count) *arrived {
	flows := b.arrived[count.Number]
	if flows == nil {
		flows = map[flow.Raw]*arrived{}
		b.arrived[count.Number] = flows
	}
	a, key := &arrived{Count: count}, flow.RawOf(count.Key)
	if flows[key] == nil {
		b.held++
	}
	flows[key] = a
	return a
}

// forget drops the blocks for which no report can come any more, and the oldest if there are
// too many.
func (b *blocks) forget(now time.Time) {
	for number, flows := range b.arrived {
		if block.End(number, b.period).Before(now.Add(-blocksFor)) {
			b.held -= len(flows)
			delete(b.arrived, number)
			b.first = max(b.first, number+1)
		}
	}
	for b.held > blocksMost {
		oldest := b.last
		for number := range b.arrived {
			oldest = min(oldest, number)
		}
		b.held -= len(b.arrived[oldest])
		delete(b.arrived, oldest)
		b.first = max(b.first, oldest+1)
	}
}

// settleBlocks enters the reports of blocks that are over here.
func (d *Destination) settleBlocks(r *reading, now time.Time) error {
	b := d.blocks
	b.forget(now)
	if len(b.reports) == 0 {
		return nil
	}
	doubtful, err := d.doubtful(now)
	if err != nil {
		return err
	}
	var waiting []BlockReport
	for i := range b.reports {
		report := &b.reports[i]
		if report.Number > b.last && report.Period == b.period && report.Number <= b.last+uint64(blocksFor/b.period) {
			waiting = append(waiting, *report)
		} else if c := b.settle(report, doubtful); c != nil {
			r.enter(report.Key, c)
		}
	}
	b.reports = waiting
	return nil
}

// settle returns what a report adds to the rows; nil: nothing. doubtful: packets of unknown flows may have arrived
// nevertheless.
func (b *blocks) settle(report *BlockReport, doubtful bool) *change {
	a := b.arrived[report.Number][flow.RawOf(report.Key)]
	if a != nil && a.settled {
		return nil
	}
	if report.Period != b.period || report.Number < b.first || report.Number > b.last || !report.Whole || a == nil && doubtful || a != nil && a.Doubtful != 0 {
		b.unsettled += report.Packets
		return nil
	}
	if a == nil {
		a = b.hold(block.Count{Key: report.Key, Period: b.period, Number: report.Number})
	}
	a.settled = true
	sent, received := report.Packets, a.Packets
	c := &change{Counts: Counts{Expected: sent, Unchecked: received, Lost: sent - min(sent, received), Duplicated: received - min(sent, received)}}
	if received == 0 {
		c.announced = sent
	}
	if !report.Marked.IsZero() && !a.Marked.IsZero() {
		delay := int64(a.Marked.Sub(report.Marked))
		c.delay.Add(delay)
		c.delay.moments(1, delay, delay, delay)
	}
	return c
}
