package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"syscall"

	"pillion.dev/study/bench/result"
)

// period is the sampling period of the paper, ns.
const period = 500_000_000

// traffic is what the traffic program says about itself.
type traffic struct {
	Packets  int64   `json:"packets"`
	Reports  int64   `json:"reports"`
	Dropped  int64   `json:"dropped"`
	Start    int64   `json:"start_ns"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu_s"`
	Resident int64   `json:"resident_kb"`
	Close    int     `json:"close"`
}

// ends are the arguments of the two ends' programs.
func (s settings) ends(b *bed) (receive, send []string) {
	program := s.program("traffic")
	if s.flavour == original {
		program += "-plain"
	}
	receive = []string{program, "receive", trafficPort, s.flavour, s.threads, s.folder + "/rcv.csv"}
	send = []string{program, "send", rcvAddress, trafficPort, strconv.FormatFloat(s.rate*1e6, 'f', 0, 64), strconv.FormatFloat(s.length.Seconds(), 'f', 3, 64),
		s.flavour, s.threads, s.folder + "/snd.csv"}
	if s.flavour != original {
		receive = append(receive, "--oml-id", "rcv", "--oml-domain", "s4", "--oml-collect", "tcp:"+b.collectorOf(b.rcv))
		send = append(send, "--oml-id", "snd", "--oml-domain", "s4", "--oml-collect", "tcp:"+b.collectorOf(b.snd))
	}
	return receive, send
}

// transmit runs the traffic once, and returns what both ends say.
func (s settings) transmit(ctx context.Context, b *bed) (snd, rcv traffic, err error) {
	receive, send := s.ends(b)
	receiver, err := start(ctx, b.rcv, "ready", receive...)
	if err != nil {
		return snd, rcv, err
	}
	sender, err := start(ctx, b.snd, "ready", send...)
	if err != nil {
		return snd, rcv, errors.Join(err, receiver.stop(syscall.SIGTERM))
	}
	if err := errors.Join(sender.wait(), receiver.wait()); err != nil {
		return snd, rcv, err
	}
	return snd, rcv, errors.Join(json.Unmarshal(sender.out.Bytes(), &snd), json.Unmarshal(receiver.out.Bytes(), &rcv))
}

// runIperf measures how the reports of an application change its rate, and how well they
// agree with what tcpdump sees.
func runIperf(ctx context.Context, s settings) (result.Result, error) {
	t, err := s.try(ctx, []string{"traffic", "traffic-plain"}, func(_ *bed, end string) ([]*program, error) {
		dump, err := tcpdump(ctx, end, s.folder+"/"+end)
		if err != nil {
			return nil, err
		}
		return []*program{dump}, nil
	})
	if err != nil {
		return nil, err
	}
	atSnd, err := readTrace(s.folder + "/" + t.bed.snd)
	if err != nil {
		return nil, err
	}
	atRcv, err := readTrace(s.folder + "/" + t.bed.rcv)
	if err != nil {
		return nil, err
	}
	reported, err := s.reported(t.reports)
	if err != nil {
		return nil, err
	}
	r := compare(atSnd, atRcv, reported)
	r["packets"], r["received"], r["dropped"] = t.snd.Packets, t.rcv.Packets, t.snd.Dropped+t.rcv.Dropped
	r["reports_lost"] = reported.lost(s.flavour, t.snd, t.rcv)
	r["cpu_us_per_packet"] = t.snd.CPU * 1e6 / float64(max(t.snd.Packets, 1))
	r["resident_kb"] = t.snd.Resident
	maps.Copy(r, t.used)
	return r, nil
}

// reportedBy are the reports of both ends: bytes by interval at the sender, jitter in ms at
// the end of an interval at the receiver.
type reportedBy struct {
	bytes, jitter map[int]float64
	snd, rcv      int // packets reported
}

// lost are the reports of packets that the collector does not have.
func (r reportedBy) lost(flavour string, snd, rcv traffic) int64 {
	if flavour != "oml-O" {
		return 0
	}
	return snd.Packets + rcv.Packets - int64(r.snd+r.rcv)
}

// reported reads what a flavour reports, where it reports it.
func (s settings) reported(from *store) (reportedBy, error) {
	r := reportedBy{bytes: map[int]float64{}, jitter: map[int]float64{}}
	switch s.flavour {
	case "oml-o":
		sent, jitter := from.of("snd", "iperf_transfer"), from.of("rcv", "iperf_jitter")
		for i, begin := range sent.columns["begin_interval"] {
			r.bytes[int(math.Round(begin*2))] = sent.columns["size"][i]
		}
		for i, begin := range jitter.columns["begin_interval"] {
			r.jitter[int(math.Round(begin*2))] = jitter.columns["jitter"][i]
		}
	case "oml-O":
		sent, received := from.of("snd", "iperf_packets"), from.of("rcv", "iperf_packets")
		r.snd, r.rcv = len(sent.at), len(received.at)
		begun := math.Inf(1)
		for _, at := range sent.columns["sent_us"] {
			begun = min(begun, at)
		}
		for i, at := range sent.columns["sent_us"] {
			r.bytes[int((at-begun)*1e3/period)] += sent.columns["packet_size"][i]
		}
		var j jitter
		for _, i := range received.sorted("received_us") {
			at := received.columns["received_us"][i]
			r.jitter[int((at-begun)*1e3/period)] = j.add((at - received.columns["sent_us"][i]) / 1e3)
		}
	default:
		for name, take := range map[string]func(int, []float64){
			"snd": func(n int, v []float64) { r.bytes[n] = v[2] },
			"rcv": func(n int, v []float64) { r.jitter[n] = v[5] },
		} {
			if err := readCSV(s.folder+"/"+name+".csv", take); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func readCSV(path string, take func(interval int, values []float64)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("read report %s: %w", path, err)
	}
	for _, line := range lines {
		var values []float64
		for _, word := range line {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return fmt.Errorf("read report %s: %w", path, err)
			}
			values = append(values, v)
		}
		if len(values) != 6 {
			return fmt.Errorf("read report %s: %d values", path, len(values))
		}
		take(int(math.Round(values[0]*1e9/period)), values)
	}
	return nil
}

// jitter is equation 1 of the paper, of transit times in ms.
type jitter struct {
	before, value float64
	any           bool
}

func (j *jitter) add(transit float64) float64 {
	if j.any {
		j.value += (math.Abs(transit-j.before) - j.value) / 16
	}
	j.before, j.any = transit, true
	return j.value
}

// compare sets the reports beside the captures, by interval without the first and the last:
// rate is tcpdump's at the sender (R_t^Snd), rate_diff is |R_t^Rcv - R_i^Snd|, bytes/s,
// and jitter_diff is |J_t - J_i|, ms.
func compare(atSnd, atRcv []packet, r reportedBy) result.Result {
	compared := result.Result{}
	sent, received, jitters := map[int]float64{}, map[int]float64{}, map[int]float64{}
	last := 0
	var begun int64
	for _, p := range atSnd {
		if p.final {
			continue
		}
		if begun == 0 {
			begun = p.sent
		}
		n := int((p.at - begun) / period)
		sent[n] += float64(p.size)
		last = max(last, n)
	}
	var j jitter
	for _, p := range atRcv {
		if !p.final {
			n := int((p.at - begun) / period)
			received[n] += float64(p.size)
			jitters[n] = j.add(float64(p.at-p.sent) / 1e6)
		}
	}
	const perSecond = 1e9 / period
	var rate, rateDiff, jitterDiff float64
	counted := 0
	for n := 1; n < last; n++ {
		if _, known := r.bytes[n]; !known {
			continue
		}
		counted++
		a, d, jd := sent[n]*perSecond, math.Abs(received[n]-r.bytes[n])*perSecond, math.Abs(jitters[n]-r.jitter[n])
		rate, rateDiff, jitterDiff = rate+a, rateDiff+d, jitterDiff+jd
		compared.AddRow(map[string]any{"interval": n, "rate": a, "rate_diff": d, "jitter_diff": jd})
	}
	n := float64(max(counted, 1))
	compared["compared"], compared["rate"], compared["rate_diff"], compared["jitter_diff"] = counted, rate/n, rateDiff/n, jitterDiff/n
	return compared
}
