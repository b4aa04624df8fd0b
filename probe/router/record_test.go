package router

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// collect reads records in the background; the function it returns ends that.
func collect(t *testing.T, profile *Router) func() []Record {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all []Record
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := profile.Records(ctx, func(r Record) error { all = append(all, r); return nil }); err != nil {
			t.Error(err)
		}
	})
	return func() []Record {
		cancel()
		reader.Wait()
		return all
	}
}

// Records are the oracle of the histograms: the same packets, one by one.
func TestRecordsAddUpToTheHistograms(t *testing.T) {
	for name, queue := range map[string]bool{"no queue": false, "queue": true} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			if queue {
				r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "20mbit", "burst", "3000", "limit", "3000000")
			}
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}, Records: true})
			end := collect(t, profile)
			r.flood("10.9.2.2:9", 1000, 100)
			s := settled(t, profile)
			records := end()
			r.closes(s.Account)
			if missed := r.hidden(s.Account, 1000); uint64(len(records))+profile.Lost()+missed != 1000 || profile.Lost() != 0 {
				t.Fatalf("%d records, %d lost, %d missed of 1000", len(records), profile.Lost(), missed)
			}
			p := pair(t, s, "in0", "in1")
			var stages [Transit + 1][]uint64
			for _, c := range records {
				if c.T2 < c.T1 || c.T3 < c.T2 || c.T4 < c.T3 || c.In != p.In.Index || c.Out != p.Out.Index || c.Length != 128 {
					t.Fatalf("record %+v", c)
				}
				if c.Destination != netip.MustParseAddrPort("10.9.2.2:9") || c.Source.Addr() != netip.MustParseAddr("10.9.1.2") || c.Protocol != 17 {
					t.Fatalf("record of %v to %v", c.Source, c.Destination)
				}
				for stage, ns := range c.stages() {
					stages[stage] = append(stages[stage], ns)
				}
			}
			for i, times := range stages {
				want, got := distributionOf(times...), p.Stages[i]
				if got.Count != want.Count || got.SumNs != want.SumNs || got.MinNs != want.MinNs || got.MaxNs != want.MaxNs {
					t.Errorf("stage %d: %d times, %d ns, %d to %d; records say %d, %d, %d to %d", i,
						got.Count, got.SumNs, got.MinNs, got.MaxNs, want.Count, want.SumNs, want.MinNs, want.MaxNs)
				}
				if !reflect.DeepEqual(got.Histogram, want.Histogram) {
					t.Errorf("stage %d: %v, records say %v", i, got.Histogram, want.Histogram)
				}
			}
			sum := p.Stages[InputQueuing].SumNs + p.Stages[Processing].SumNs + p.Stages[OutputQueuing].SumNs
			if sum != p.Stages[Transit].SumNs && s.Account.NoArrival == 0 {
				t.Errorf("stages sum up to %d ns, transit to %d", sum, p.Stages[Transit].SumNs)
			}
		})
	}
}

func TestDroppedRecordsAreCounted(t *testing.T) {
	r := build(t)
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}, Records: true, RecordBytes: 4096})
	r.flood("10.9.2.2:9", 1000, 100)
	s := settled(t, profile)
	records := collect(t, profile)
	if got := uint64(len(records())) + profile.Lost(); profile.Lost() == 0 || got > s.Account.Forwarded {
		t.Errorf("%d records lost of %d", profile.Lost(), s.Account.Forwarded)
	}
}

func TestRecordsNotEnabled(t *testing.T) {
	profile := build(t).profile(Options{})
	if err := profile.Records(context.Background(), nil); !errors.Is(err, ErrNoRecords) {
		t.Errorf("got %v, want %v", err, ErrNoRecords)
	}
}
