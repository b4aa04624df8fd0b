package pillion

import (
	"context"
	"math"
	"time"

	"pillion.dev/api/pillionv1"
)

// topPairs is the level of all pairs, from the figures of each second.
type topPairs struct {
	*top
	pairs map[[2]string]*pairHistory
	// newest is the latest second, s since 1970 by the server's clock, and arrived when it came.
	newest, oldest int64
	arrived        time.Time
}

// pairHistory has the last seconds of a pair, each at its number modulo their count.
type pairHistory [historyMax]pairSecond

type pairSecond struct {
	start                                          int64 // s since 1970; 0: none
	packets, expected, lost, reordered, duplicated uint32
	p50, p99, rate, bound                          float32
}

func newTopPairs(t *top) *topPairs { return &topPairs{top: t, pairs: map[[2]string]*pairHistory{}} }

func (p *topPairs) title() string        { return "pairs" }
func (p *topPairs) columns() []topColumn { return topColumnsOf(false) }

func (p *topPairs) body(width, height int) []string {
	return p.table(p.columns(), p.rows(), width, height)
}

func (p *topPairs) feed() feedFunc { return p.follow }

func (p *topPairs) follow(ctx context.Context, send func(topNews)) error {
	var names []string // of the stream that is open
	return follow(ctx, func(ctx context.Context) (*followed[pillionv1.WatchPairsResponse], error) {
		names = nil
		return p.client.Flows.WatchPairs(ctx, &pillionv1.WatchPairsRequest{Session: p.cmd.Session})
	}, func(m *pillionv1.WatchPairsResponse) error {
		names = append(names, m.GetAgents()...)
		known := names
		send(topNews{apply: func() { p.take(m, known) }})
		return nil
	}, func(err error) { send(topNews{lost: err}) })
}

// take adds the figures of a second.
func (p *topPairs) take(m *pillionv1.WatchPairsResponse, names []string) {
	start := m.GetStartMs() / 1000
	for i := range m.GetSources() {
		s, ok := pairSecondOf(m, i)
		if !ok || int(m.Sources[i]) >= len(names) || int(m.Destinations[i]) >= len(names) {
			continue
		}
		ends := [2]string{names[m.Sources[i]], names[m.Destinations[i]]}
		if p.cmd.Source != "" && ends[0] != p.cmd.Source || p.cmd.Destination != "" && ends[1] != p.cmd.Destination {
			continue
		}
		if p.pairs[ends] == nil {
			p.pairs[ends] = &pairHistory{}
		}
		p.pairs[ends][start%historyMax] = s
	}
	if len(m.GetSources()) == 0 {
		return
	}
	if start >= p.newest {
		p.newest, p.arrived = start, time.Now()
	}
	if p.oldest == 0 || start < p.oldest {
		p.oldest = start
	}
}

// pairSecondOf reads the figures at an index; a message that lacks some has none.
func pairSecondOf(m *pillionv1.WatchPairsResponse, i int) (s pairSecond, ok bool) {
	for _, n := range []int{len(m.Destinations), len(m.Packets), len(m.Expected), len(m.Lost), len(m.P50Ns), len(m.P99Ns), len(m.Rate), len(m.ClockErrorNs), len(m.Reordered), len(m.Duplicated)} {
		if i >= n {
			return s, false
		}
	}
	return pairSecond{start: m.StartMs / 1000, packets: m.Packets[i], expected: m.Expected[i], lost: m.Lost[i], reordered: m.Reordered[i],
		duplicated: m.Duplicated[i], p50: m.P50Ns[i], p99: m.P99Ns[i], rate: m.Rate[i], bound: m.ClockErrorNs[i]}, m.StartMs > 0
}

// now is the latest second, also if none arrives any more.
func (p *topPairs) now() int64 {
	if p.lost != nil || p.newest == 0 {
		return p.newest
	}
	return p.newest + max(0, int64(time.Since(p.arrived)/time.Second)-1)
}

func (p *topPairs) rows() []*topRow {
	var rows []*topRow
	now := p.now()
	for ends, history := range p.pairs {
		if r := p.row(ends, history, now); r != nil {
			rows = append(rows, r)
		} else {
			delete(p.pairs, ends)
		}
	}
	return rows
}

// row sums the latest seconds; nil if there is none at all.
func (p *topPairs) row(ends [2]string, history *pairHistory, now int64) *topRow {
	none := math.NaN()
	r := &topRow{key: ends[0] + "\x00" + ends[1], source: ends[0], destination: ends[1], p50: none, p99: none, bound: none, bitRate: none, packetRate: none,
		opens: &pillionv1.Selection{Source: ends[0], Destination: ends[1], Session: p.cmd.Session}}
	over := int64(p.cmd.Over / time.Second)
	over = max(1, min(over, now-p.oldest+1))
	rates, any := 0, false
	for second := now - historyMax + 1; second <= now; second++ {
		s := &history[max(second, 0)%historyMax]
		if s.start != second {
			r.history = append(r.history, math.NaN())
			continue
		}
		any = true
		r.history = append(r.history, float64(s.p50))
		if second <= now-over {
			continue
		}
		r.packets, r.expected, r.lost = r.packets+uint64(s.packets), r.expected+uint64(s.expected), r.lost+uint64(s.lost)
		r.reordered, r.duplicated = r.reordered+uint64(s.reordered), r.duplicated+uint64(s.duplicated)
		if rates++; rates == 1 {
			r.bitRate = 0
		}
		r.bitRate += float64(s.rate)
		if !math.IsNaN(float64(s.p50)) {
			r.delays, r.p50, r.p99, r.bound = 1, float64(s.p50), float64(s.p99), float64(s.bound)
		}
	}
	if !any {
		return nil
	}
	if rates > 0 {
		r.bitRate /= float64(rates)
		r.packetRate = float64(r.packets) / float64(over)
	}
	return r
}
