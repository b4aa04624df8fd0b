package device

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// probes are a source on a device of one host and a destination on one of another.
type probes struct {
	t testing.TB
	s *source.Source
	d *destination.Destination

	before source.Tally
	read   destination.Tally
}

// measure attaches to both devices, for packets to some addresses.
func measure(from host, out string, to host, in string, encodings string, addresses ...netip.Addr) *probes {
	t := from.t
	t.Helper()
	list, err := wire.ParseEncodings(encodings)
	if err != nil {
		t.Fatal(err)
	}
	settings := source.Settings{Policy: source.Policy{Modules: wire.Delay | wire.Loss, Encodings: list}}
	for _, a := range addresses {
		settings.Rules = append(settings.Rules, fivetuple.Filter{Dst: netip.PrefixFrom(a, a.BitLen())})
	}
	p := &probes{t: t}
	to.do(func() error {
		device, err := hook.Find(in)
		if err != nil {
			return err
		}
		p.d, err = destination.Open(device, destination.Settings{Records: true})
		return err
	})
	t.Cleanup(func() { p.d.Close() })
	from.do(func() error {
		device, err := hook.Find(out)
		if err != nil {
			return err
		}
		if p.s, err = source.Open(device, settings); err != nil {
			return err
		}
		return p.s.Renew(source.Forever)
	})
	t.Cleanup(func() { p.s.Close() })
	p.tallies()
	return p
}

// close ends the source first.
func (p *probes) close() {
	p.t.Helper()
	if err := p.s.Close(); err != nil {
		p.t.Error(err)
	}
	if err := p.d.Close(); err != nil {
		p.t.Error(err)
	}
}

// tallies reads both and returns by how much they grew.
func (p *probes) tallies() (marked uint64, skipped map[string]uint64, read destination.Counts) {
	p.t.Helper()
	if _, err := p.d.Read(destination.ByFlow); err != nil {
		p.t.Fatal(err)
	}
	came, err := p.d.Tally()
	if err != nil {
		p.t.Fatal(err)
	}
	now, err := p.s.Tally() // last: what was read is among what was marked
	if err != nil {
		p.t.Fatal(err)
	}
	skipped = map[string]uint64{}
	for name, n := range now.Skipped {
		if n > p.before.Skipped[name] && name != "no_match" {
			skipped[name] = n - p.before.Skipped[name]
		}
	}
	marked = now.Marked - p.before.Marked
	read = destination.Counts{
		Packets: came.Packets - p.read.Packets, Expected: came.Expected - p.read.Expected,
		Lost: came.Lost - p.read.Lost, Duplicated: came.Duplicated - p.read.Duplicated, Late: came.Late - p.read.Late,
	}
	if bad := came.Rejected + came.Unrestored - p.read.Rejected - p.read.Unrestored; bad != 0 {
		p.t.Errorf("destination %+v", came)
	}
	p.before, p.read = now, came
	return marked, skipped, read
}

// settle waits until every mark was read, checks the account and returns how most packets
// were marked, or why they were not.
func (p *probes) settle() string {
	p.t.Helper()
	var marked uint64
	var read destination.Counts
	skipped := map[string]uint64{}
	eventually(p.t, "marks to be read", func() bool {
		m, left, r := p.tallies()
		marked += m
		for name, n := range left {
			skipped[name] += n
		}
		read.Packets += r.Packets
		read.Expected += r.Expected
		read.Lost += r.Lost
		read.Duplicated += r.Duplicated + r.Late
		return read.Packets >= marked && read.Expected >= marked // of the last packet, too, on whatever processor it is
	})
	if read.Packets != marked || read.Expected != marked || read.Lost+read.Duplicated != 0 {
		p.t.Errorf("marked %d packets, read %+v", marked, read)
	}
	p.t.Logf("marked %d, skipped %v, read %+v", marked, skipped, read)
	names := p.encodings()
	for name, n := range skipped {
		names["unmarked ("+name+")"] += n
	}
	if len(names) == 0 {
		return "not seen"
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(names)), func(a, b string) int { return int(names[a]) - int(names[b]) })
	return most
}

// encodings counts the packets of the records since the last call by how they were marked.
func (p *probes) encodings() map[string]uint64 {
	p.t.Helper()
	counts := map[string]uint64{}
	var records [256]destination.Record
	for {
		n, err := p.d.ReadRecords(records[:], time.Now().Add(time.Millisecond))
		if err != nil {
			p.t.Fatal(err)
		}
		if n == 0 {
			return counts
		}
		for _, r := range records[:n] {
			counts[fmt.Sprintf("`%v`", r.Encoding)] += uint64(r.Packets)
		}
	}
}

// parse reads addresses.
func parse(texts ...string) (addresses []netip.Addr) {
	for _, text := range texts {
		text, _, _ = strings.Cut(text, "/")
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return addresses
}
