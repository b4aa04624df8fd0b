package traffic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/session"
	"pillion.dev/wire"
)

func volume(src, dst, source, destination, proto string, packets uint64, sessions ...string) archive.Volume {
	return archive.Volume{
		Flow: flows.Flow{Src: src, Dst: dst, Proto: proto}, Source: source, Destination: destination, Packets: packets, Bytes: 100 * packets, Sessions: sessions,
	}
}

// network has agents a and b at north, c at south; session tenth samples one packet in ten, but all of c.
func network() Network {
	specs := []session.Spec{
		{Name: "all"}, {Name: "tenth", Marking: wire.Marking{Sampling: wire.Sampling{Random: 10}}, SamplingFor: map[string]session.Sampling{"c": {Every: 1}}},
		{Name: "fifth", Marking: wire.Marking{Sampling: wire.Sampling{Every: 5}}}, {Name: "gap", Marking: wire.Marking{Sampling: wire.Sampling{Every: 3, MinGap: 5}}},
	}
	return Network{
		Sampling: NewSampling(specs), MTU: func(agent string) int { return map[string]int{"a": 1500}[agent] },
		Label: func(agent string) string { return map[string]string{"a": "north", "b": "north", "c": "south"}[agent] },
	}
}

func TestMatrix(t *testing.T) {
	pairs := []archive.Volume{
		volume("a", "b", "a", "b", "", 100, "tenth"), volume("b", "a", "b", "a", "", 900, "all"), volume("a", "c", "a", "c", "", 10, "all"), volume("c", "a", "c", "a", "", 7, "tenth"),
	}
	hosts := []archive.Volume{
		volume("10.0.1.1", "10.0.2.1", "a", "b", "udp", 100, "tenth"), volume("10.0.1.9", "10.0.2.1", "a", "b", "udp", 4, "tenth"),
		volume("2001:db8:1:2::1", "::ffff:10.0.2.1", "a", "b", "tcp", 3, "all"), volume("", "10.0.2.1", "a", "b", "tcp", 2, "all"),
	}
	for name, test := range map[string]struct {
		shape   Shape
		volumes []archive.Volume
		want    string
	}{
		"pair":           {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, pairs, "a>b 100=1000±186 scaled, b>a 900=900±0 measured, a>c 10=10±0 measured, c>a 7=7±0 measured"},
		"label":          {Shape{Granularity: ByLabel, Order: ByPackets, Limit: 9}, pairs, "north>north 1000=1900±186 scaled, north>south 10=10±0 measured, south>north 7=7±0 measured"},
		"limit":          {Shape{Granularity: ByPair, Order: ByPackets, Limit: 1}, pairs, "a>b 100=1000±186 scaled"},
		"prefix":         {Shape{Granularity: ByPrefix, IPv4: 24, IPv6: 48, Order: ByBytes, Limit: 9}, hosts, "10.0.1.0/24>10.0.2.0/24 udp 104=1040±190 scaled, 2001:db8:1::/48>10.0.2.0/24 tcp 3=3±0 measured, >10.0.2.0/24 tcp 2=2±0 measured"},
		"longer prefix":  {Shape{Granularity: ByPrefix, IPv4: 32, IPv6: 64, Order: ByBytes, Limit: 1}, hosts, "10.0.1.1/32>10.0.2.1/32 udp 100=1000±186 scaled"},
		"minimum gap":    {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, []archive.Volume{volume("a", "b", "a", "b", "", 30, "gap")}, "a>b 30=90±26 lower_bound"},
		"deleted":        {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, []archive.Volume{volume("a", "b", "a", "b", "", 30, "gone")}, "a>b 30=30±0 lower_bound"},
		"denser beside":  {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, []archive.Volume{volume("a", "b", "a", "b", "", 30, "tenth", "fifth")}, "a>b 30=150±48 lower_bound"},
		"same beside it": {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, []archive.Volume{volume("c", "b", "c", "b", "", 30, "tenth", "all")}, "c>b 30=30±0 measured"},
		"nothing":        {Shape{Granularity: ByPair, Order: ByBytes, Limit: 9}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := archive.VolumesAnswer{Volumes: test.volumes}
			estimated := 0.0
			for _, v := range test.volumes {
				answer.Packets, answer.Bytes = answer.Packets+v.Packets, answer.Bytes+v.Bytes
			}
			matrix := Make(answer, test.shape, network())
			var got []string
			for _, v := range matrix.Volumes {
				proto := ""
				if v.Proto != "" {
					proto = " " + v.Proto
				}
				estimated += v.EstimatedPackets
				got = append(got, fmt.Sprintf("%s>%s%s %d=%.0f±%.0f %s", v.Src, v.Dst, proto, v.Packets, v.EstimatedPackets, v.PacketsError, v.Scaling))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), test.want)
			}
			if test.shape.Limit > 1 && (matrix.Total.EstimatedPackets != estimated || matrix.Total.Packets != answer.Packets || matrix.Found != len(matrix.Volumes)) {
				t.Errorf("total %+v of %d", matrix.Total, matrix.Found)
			}
		})
	}
}

// TestUnread: packets of groups that were not read are in the total, as a lower bound.
func TestUnread(t *testing.T) {
	answer := archive.VolumesAnswer{Volumes: []archive.Volume{volume("a", "b", "a", "b", "", 10, "all")}, Found: 7, Packets: 25, Bytes: 2500}
	matrix := Make(answer, Shape{Granularity: ByPair, Order: ByBytes, Limit: 1}, network())
	if matrix.Unread != 15 || matrix.Total.Packets != 25 || matrix.Total.Bytes != 2500 || matrix.Total.Scaling != LowerBound || matrix.Volumes[0].Scaling != Measured {
		t.Errorf("got %+v", matrix)
	}
}

func TestCheck(t *testing.T) {
	good := Shape{Granularity: ByPrefix, IPv4: 24, IPv6: 48, Order: ByBytes, Limit: 1}
	for want, change := range map[string]func(*Shape){
		"": func(*Shape) {}, "granularity": func(s *Shape) { s.Granularity = "x" }, "prefix_ipv4": func(s *Shape) { s.IPv4 = 33 },
		"prefix_ipv6": func(s *Shape) { s.IPv6 = 0 }, "order": func(s *Shape) { s.Order = "p50" },
	} {
		shape := good
		change(&shape)
		if field, err := shape.Check(); field != want || (err == nil) != (want == "") {
			t.Errorf("%s: got %s, %v", want, field, err)
		}
	}
	for _, granularity := range Granularities {
		for _, protocol := range []bool{false, true} {
			if (&Shape{Granularity: granularity, Protocol: protocol}).Archived() == "" {
				t.Errorf("%s is not archived", granularity)
			}
		}
	}
}

// TestCoverage: 95 % intervals hold the truth in 95 % of simulated samples; those of bytes at least as often. The oracle is the
// simulated traffic itself.
func TestCoverage(t *testing.T) {
	const trials, packets, n = 1500, 4000, 20
	random := rand.New(rand.NewPCG(3, 5))
	heldPackets, heldBytes := 0, 0
	for range trials {
		var all, sampled archive.Volume
		for range packets {
			size := uint64(60)
			if random.IntN(2) == 0 {
				size = 1500
			}
			all.Packets, all.Bytes = all.Packets+1, all.Bytes+size
			if random.IntN(n) == 0 {
				sampled.Packets, sampled.Bytes = sampled.Packets+1, sampled.Bytes+size
			}
		}
		var s sum
		s.add(&sampled, n, true, 1500)
		v := s.volume()
		if math.Abs(v.EstimatedPackets-float64(all.Packets)) <= v.PacketsError {
			heldPackets++
		}
		if math.Abs(v.EstimatedBytes-float64(all.Bytes)) <= v.BytesError {
			heldBytes++
		}
	}
	if share := float64(heldPackets) / trials; share < 0.93 || share > 0.97 {
		t.Errorf("intervals of packets hold the truth in %v of samples", share)
	}
	if share := float64(heldBytes) / trials; share < 0.93 {
		t.Errorf("intervals of bytes hold the truth in %v of samples", share)
	}
}
