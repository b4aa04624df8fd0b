package lab_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/lab/emulator"
)

// blockLine is what a source or a destination counted of a flow in a block.
type blockLine struct {
	blockKey
	Packets  uint64 `json:"packets"`
	Marked   int64  `json:"marked_ns"`
	Doubtful uint64 `json:"doubtful"`
}

type blockKey struct {
	Number   uint64 `json:"number"`
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Protocol string `json:"proto"`
	Sport    uint16 `json:"sport"`
	Dport    uint16 `json:"dport"`
}

// blockSum is what both ends together say of blocks.
type blockSum struct {
	blocks           int
	sent, arrived    uint64
	lost, duplicated uint64
	delays           []int64 // ascending
}

// sumBlocks compares the blocks of both ends, which are all over.
func sumBlocks(t *testing.T, s, d *runningProbe) (sum blockSum) {
	t.Helper()
	arrived := map[blockKey]blockLine{}
	for _, line := range d.blocks {
		if _, twice := arrived[line.blockKey]; twice || line.Doubtful != 0 {
			t.Errorf("at the destination, twice %v: %+v", twice, line)
		}
		arrived[line.blockKey] = line
	}
	for _, line := range s.blocks {
		got := arrived[line.blockKey]
		delete(arrived, line.blockKey)
		sum.blocks++
		sum.sent += line.Packets
		sum.arrived += got.Packets
		sum.lost += line.Packets - min(line.Packets, got.Packets)
		sum.duplicated += got.Packets - min(line.Packets, got.Packets)
		if line.Marked == 0 {
			t.Errorf("no packet with D: %+v", line)
		} else if got.Marked != 0 {
			sum.delays = append(sum.delays, got.Marked-line.Marked)
		}
	}
	for _, line := range arrived {
		t.Errorf("not sent: %+v", line)
	}
	slices.Sort(sum.delays)
	return sum
}

// blocksEnd waits until the block of this moment is over at both ends.
func blocksEnd(t *testing.T, period time.Duration) {
	t.Helper()
	end := time.Now().Truncate(period).Add(period + period/2 + 100*time.Millisecond)
	eventually(t, "the end of a block", func() bool { return time.Now().After(end) })
}

// A blockRound is a time in which packets were sent and arrived, and what the emulator did with them: nothing
// was under way when its first block began and when its last one ended.
type blockRound struct {
	first, last uint64
	truth       emulator.Tally // up to its end
}

// blockRounds is in how many blocks packets are sent at least.
const blockRounds = 5

// sprayBlocks sends count packets in each of a number of flows, many in each block, and waits at the end of
// each block until they have arrived.
func (b *bed) sprayBlocks(to netip.Addr, flows, count int, period time.Duration) (rounds []blockRound) {
	b.t.Helper()
	const burst, rate = 256, 60000 // less than the link's queue
	streams := make([]*stream, flows)
	for i := range streams {
		streams[i] = b.open("a", "b", netip.AddrPortFrom(to, uint16(9000+i)))
	}
	number := func() uint64 { return uint64(time.Now().UnixNano() / int64(period)) }
	for sent := 0; sent < count; {
		before := number()
		eventually(b.t, "the next block", func() bool { return number() > before })
		first, begun := number(), time.Now()
		var truth emulator.Direction
		for from := sent; sent < count && sent-from < count/blockRounds && time.Since(begun) < period/2; sent += burst {
			for _, s := range streams {
				s.send(burst, rate)
			}
			truth = b.settled("a-b", "a", uint64((sent+burst)*flows))
		}
		if truth.Unread != 0 {
			b.t.Errorf("the emulator did not read %d frames", truth.Unread)
		}
		rounds = append(rounds, blockRound{first, number(), truth.Marked})
	}
	return rounds
}

// compareRounds compares the blocks of each round with what the emulator did with its packets.
func compareRounds(t *testing.T, rounds []blockRound, s, d *runningProbe) {
	t.Helper()
	count := func(lines []blockLine, r blockRound) (packets int64) {
		for _, line := range lines {
			if line.Number >= r.first && line.Number <= r.last {
				packets += int64(line.Packets)
			}
		}
		return packets
	}
	var before emulator.Tally
	for _, r := range rounds {
		sent, arrived := count(s.blocks, r), count(d.blocks, r)
		offered, net := int64(r.truth.Offered-before.Offered), int64(r.truth.Lost-before.Lost)-int64(r.truth.Duplicated-before.Duplicated)
		if sent != offered || sent-arrived != net {
			t.Errorf("blocks %d to %d: sent %d, less arrived %d; truth says %d, %d", r.first, r.last, sent, sent-arrived, offered, net)
		}
		before = r.truth
	}
}

// blocksCountTheTruth: of each block, what was sent less what arrived is exactly what the emulator lost less what it
// duplicated. It returns by how much the median delay differs from the emulator's.
func blocksCountTheTruth(t *testing.T, to netip.Addr, flows, count int) time.Duration {
	t.Helper()
	// On a busy machine packets arrive late, and 3/4 of a block later than the last one was sent they may be in another block.
	const period = 3 * time.Second
	b := up(t, faulty)
	d := b.probe("b", "destination", "a", "--block", period.String())
	s := b.probe("a", "source", "b", "--encoding", "altmark", "--block", period.String())
	rounds := b.sprayBlocks(to, flows, count, period)
	truth := rounds[len(rounds)-1].truth
	blocksEnd(t, period)
	marked, read := both(s, d)
	sum := sumBlocks(t, s, d)
	compareRounds(t, rounds, s, d)
	for name, c := range map[string]struct{ got, want uint64 }{
		"marked":                {marked.Marked, truth.Offered},
		"packets":               {read.Packets, truth.Delivered + truth.Duplicated},
		"sent in blocks":        {sum.sent, truth.Offered},
		"arrived in blocks":     {sum.arrived, truth.Delivered + truth.Duplicated},
		"lost less duplicated":  {sum.lost - sum.duplicated, truth.Lost - truth.Duplicated},
		"rejected":              {read.Rejected, 0},
		"unrestored, contended": {read.Unrestored + read.Contended, 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, truth says %d", name, c.got, c.want)
		}
	}
	if truth.Lost == 0 || truth.Duplicated == 0 || len(sum.delays) == 0 {
		t.Fatalf("truth %+v, %d delays", truth, len(sum.delays))
	}
	p50 := sum.delays[len(sum.delays)/2]
	t.Logf("bar: %d packets marked, in %d blocks of flows, %d rounds; lost %d, duplicated %d, truth %d, %d; %d delays, p50 %d ns, truth %d ns, error %d ns",
		marked.Marked, sum.blocks, len(rounds), sum.lost, sum.duplicated, truth.Lost, truth.Duplicated,
		len(sum.delays), p50, truth.Delay.P50, p50-truth.Delay.P50)
	return time.Duration(p50 - truth.Delay.P50)
}

// TestAltMarkCountsSegments: segmentation buffers, which become many packets of one colour, and what GRO
// merges again, are counted alike at both ends, through every hook.
func TestAltMarkCountsSegments(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, test := range map[string]struct{ source, destination, offload string }{
		"tc":     {"", "", "gro on"},
		"clsact": {"--clsact", "--clsact", "tso off gso off"},
		"xdp":    {"", "--hook xdp", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			b.offload("b", "a", test.offload)
			d := b.probe("b", "destination", "a", append([]string{"--block", "300ms"}, strings.Fields(test.destination)...)...)
			s := b.probe("a", "source", "b", append([]string{"--encoding", "altmark", "--block", "300ms"}, strings.Fields(test.source)...)...)
			b.carry("a", "b", secondIPv6, 4<<20).finish()
			b.datagrams("a", "b", secondIPv6, 100, 1000)
			blocksEnd(t, 300*time.Millisecond)
			marked, read := both(s, d)
			sum := sumBlocks(t, s, d)
			if marked.Marked < 500 || read.Packets != marked.Marked || sum.sent != marked.Marked || sum.arrived != read.Packets ||
				sum.lost+sum.duplicated+read.Rejected+read.Unrestored != 0 {
				t.Errorf("marked %d, read %d of %+v", marked.Marked, read.Packets, sum)
			}
			if len(sum.delays) == 0 || sum.delays[0] < 0 {
				t.Errorf("delays %v", sum.delays)
			}
			t.Logf("marked %d, in %d blocks of flows, skipped %v", marked.Marked, sum.blocks, marked.Skipped)
		})
	}
}
