package main

import (
	"context"
	"maps"
	"math"
	"path/filepath"

	"pillion.dev/study/bench/result"
)

// runCapture measures how many packets a capture with reports misses, and whether its
// timestamps are tcpdump's, beside another tcpdump.
func runCapture(ctx context.Context, s settings) (result.Result, error) {
	t, err := s.try(ctx, []string{"pillion-agent", "tcpdump"}, func(b *bed, end string) ([]*program, error) { return s.capture(ctx, b, end) })
	if err != nil {
		return nil, err
	}
	r := result.Result{"packets": t.snd.Packets}
	for end, name := range map[string]string{t.bed.snd: "snd", t.bed.rcv: "rcv"} {
		reference, err := readTrace(s.folder + "/" + end)
		if err != nil {
			return nil, err
		}
		alternative := tupled(t.reports.of(name, "pcap_ip"))
		if s.trace != "yes" {
			all, err := readTrace(s.folder + "/" + end + "-other")
			if err != nil {
				return nil, err
			}
			alternative = observed(all)
		}
		a := account(observed(reference), alternative)
		r["reference_"+name], r["missed_"+name], r["reference_missed_"+name] = a.reference, a.missed, a.reverse
		loss := float64(a.missed) / float64(max(a.reference+a.reverse, 1))
		r["loss_"+name], r["captured_"+name] = loss, 1-loss
		r["time_diff_us_"+name], r["time_diff_most_us_"+name] = a.diff, a.diffMost
	}
	maps.Copy(r, t.used)
	return r, nil
}

// capture starts the two captures at one end, the reference first.
func (s settings) capture(ctx context.Context, b *bed, end string) (both []*program, err error) {
	reference, err := tcpdump(ctx, end, s.folder+"/"+end)
	if err != nil {
		return nil, err
	}
	var alternative *program
	if s.trace == "yes" {
		name := map[string]string{b.snd: "snd", b.rcv: "rcv"}[end]
		alternative, err = start(ctx, end, "capturing on", filepath.Join(s.bin, "pillion-agent"), "capture", "--dev", device, "--filter", "udp port "+trafficPort,
			"--oml", "tcp:"+b.collectorOf(end), "--oml-domain", "s4", "--oml-id", name)
	} else {
		alternative, err = tcpdump(ctx, end, s.folder+"/"+end+"-other")
	}
	if err != nil {
		return []*program{reference}, err
	}
	return []*program{reference, alternative}, nil
}

// observation is a packet as a capture reports it: its number in the IP header, and the
// time, us since 1970.
type observation struct {
	ipID uint16
	us   int64
}

func observed(packets []packet) (list []observation) {
	for _, p := range packets {
		list = append(list, observation{p.ipID, p.at / 1000})
	}
	return list
}

// tupled are the rows of the point pcap_ip, in the order of the capture.
func tupled(r *rows) (list []observation) {
	for _, i := range r.sorted("pkt_id") {
		list = append(list, observation{uint16(r.columns["id"][i]), (r.at[i] + 500) / 1000})
	}
	return list
}

// accounted is what a capture missed of another one.
type accounted struct {
	reference, missed int
	// reverse are those that the reference misses of the alternative.
	reverse        int
	diff, diffMost float64 // us
}

// numbered gives the packets of one socket numbers that do not wrap, by the gaps in the numbers of
// their IP headers. It begins at the first number of the reference, after which fewer than
// 32,768 packets are missing in a row.
func numbered(list []observation, first uint16) []int64 {
	numbers := make([]int64, len(list))
	last, at := first, int64(0)
	for i, o := range list {
		at += int64(int16(o.ipID - last)) // the kernel may exchange neighbours
		last = o.ipID
		numbers[i] = at
	}
	return numbers
}

// account counts the packets of the reference that the alternative does not have, and
// compares the times of the others.
func account(reference, alternative []observation) (a accounted) {
	if a.reference = len(reference); a.reference == 0 {
		return a
	}
	first := reference[0].ipID
	times := map[int64]int64{}
	for i, n := range numbered(alternative, first) {
		times[n] = alternative[i].us
	}
	compared := 0
	for i, n := range numbered(reference, first) {
		us, has := times[n]
		if !has {
			a.missed++
			continue
		}
		d := math.Abs(float64(us - reference[i].us))
		a.diff, a.diffMost = a.diff+d, max(a.diffMost, d)
		compared++
	}
	a.reverse = len(times) - compared
	a.diff /= float64(max(compared, 1))
	return a
}
