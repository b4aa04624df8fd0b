package router

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
)

func TestFilterSelectsPackets(t *testing.T) {
	const n = 50
	prefix := netip.MustParsePrefix
	r := build(t)
	for _, c := range []struct {
		name    string
		options Options
		want    uint64 // of n packets each of IPv4 and IPv6, to ports 9 and 10
	}{
		{"port", Options{Match: Match{DestinationPort: 9, Protocol: unix.IPPROTO_UDP}}, 2 * n},
		{"other port", Options{Match: Match{DestinationPort: 11}}, 0},
		{"source port", Options{Match: Match{SourcePort: 1}}, 0},
		{"protocol", Options{Match: Match{Protocol: unix.IPPROTO_TCP}}, 0},
		{"network", Options{Match: Match{Destination: prefix("10.9.2.0/24"), Protocol: unix.IPPROTO_UDP}}, 2 * n},
		{"other network", Options{Match: Match{Destination: prefix("10.9.2.0/31")}}, 0},
		{"network of IPv6", Options{Match: Match{Source: prefix("fd09:1::2/128"), Destination: prefix("fd09:2::/63"), Protocol: unix.IPPROTO_UDP}}, 2 * n},
		{"input", Options{In: []string{"in0"}, Match: Match{Protocol: unix.IPPROTO_UDP}}, 4 * n},
		{"other input", Options{In: []string{"in1"}, Match: Match{Protocol: unix.IPPROTO_UDP}}, 0},
		{"output", Options{Out: []string{"in1"}, Match: Match{Protocol: unix.IPPROTO_UDP}}, 4 * n},
		{"other output", Options{Out: []string{"in0"}, Match: Match{Protocol: unix.IPPROTO_UDP}}, 0},
		{"both", Options{In: []string{"in1", "in0"}, Out: []string{"in0", "in1"}, Match: Match{Protocol: unix.IPPROTO_UDP}}, 4 * n},
	} {
		t.Run(c.name, func(t *testing.T) {
			profile := r.profile(c.options)
			defer profile.detach()
			for _, address := range []string{"10.9.2.2:9", "10.9.2.2:10", "[fd09:2::2]:9", "[fd09:2::2]:10"} {
				r.flood(address, n, 40)
			}
			s := settled(t, profile)
			r.closes(s.Account)
			if missed := r.hidden(s.Account, c.want); s.Account.Forwarded+missed != c.want {
				t.Errorf("seen %d, forwarded %d, missed %d, want %d", s.Account.Seen, s.Account.Forwarded, missed, c.want)
			}
			if skipped := s.Account.Skipped["filter"]; skipped+c.want < 4*n {
				r.mayHide(4*n - c.want - skipped)
			}
		})
	}
}

func TestSamplingRate(t *testing.T) {
	r := build(t)
	profile := r.profile(Options{Sampling: 10, Match: Match{Protocol: unix.IPPROTO_UDP}})
	const n = 10_000
	r.flood("10.9.2.2:9", n, 40)
	s := settled(t, profile)
	r.closes(s.Account)
	// Six standard deviations of the binomial.
	if s.Account.Forwarded < 820 || s.Account.Forwarded > 1180 {
		t.Errorf("%d sampled of %d, want 1000", s.Account.Forwarded, n)
	}
	if met := s.Account.Seen + s.Account.Skipped["sampling"]; met > n {
		t.Errorf("seen %d, skipped %v, want %d", s.Account.Seen, s.Account.Skipped, n)
	} else {
		r.mayHide(n - met)
	}
}

func TestPairsAreSeparate(t *testing.T) {
	r := build(t)
	third := r.third()
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.flood("10.9.2.2:9", 100, 40)
	r.flood("10.9.3.2:9", 200, 40)
	left := r.left
	r.left = third
	r.flood("10.9.2.2:9", 300, 40)
	r.left = left
	s := settled(t, profile)
	r.closes(s.Account)
	missed := r.hidden(s.Account, 600)
	for _, want := range []struct {
		in, out string
		n       uint64
	}{{"in0", "in1", 100}, {"in0", "in2", 200}, {"in2", "in1", 300}} {
		p := pair(t, s, want.in, want.out)
		if p.Packets > want.n || p.Packets+missed < want.n || p.Stages[Processing].Count != p.Packets {
			t.Errorf("%s to %s: %d packets, want %d", want.in, want.out, p.Packets, want.n)
		}
	}
}

func TestPairTableOverflow(t *testing.T) {
	r := build(t)
	r.third()
	profile := r.profile(Options{Pairs: 1, Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.flood("10.9.2.2:9", 100, 40)
	r.flood("10.9.3.2:9", 200, 40)
	s := settled(t, profile)
	r.closes(s.Account)
	missed := r.hidden(s.Account, 300)
	if p := pair(t, s, "", ""); p.Packets > 200 || p.Packets+missed < 200 {
		t.Errorf("%d packets in the rest, want 200", p.Packets)
	}
	if p := pair(t, s, "in0", "in1"); p.Packets > 100 || p.Packets+missed < 100 {
		t.Errorf("%d packets in the pair, want 100", p.Packets)
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    error
	}{
		"pairs":    {Options{Pairs: 257}, ErrOptions},
		"records":  {Options{Records: true, RecordBytes: 5000}, ErrOptions},
		"devices":  {Options{In: make([]string, 17)}, ErrOptions},
		"families": {Options{Match: Match{Source: netip.MustParsePrefix("::/0"), Destination: netip.MustParsePrefix("0.0.0.0/0")}}, ErrOptions},
		"device":   {Options{In: []string{"pt-none"}}, hook.ErrNoDevice},
	} {
		t.Run(name, func(t *testing.T) {
			profile, err := Open(c.options)
			if err == nil {
				profile.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
