package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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
	program := filepath.Join(s.bin, "bench", "traffic")
	if s.flavour == "nooml-c" {
		program += "-plain"
	}
	receive = []string{program, "receive", trafficPort, s.flavour, s.threads, s.folder + "/rcv.csv"}
	send = []string{program, "send", rcvAddress, trafficPort, strconv.FormatFloat(s.rate*1e6, 'f', 0, 64), strconv.FormatFloat(s.length.Seconds(), 'f', 3, 64),
		s.flavour, s.threads, s.folder + "/snd.csv"}
	if s.flavour != "nooml-c" {
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
func runIperf(ctx context.Context, s settings) (err error) {
	b, err := newBed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	reports := newStore()
	closed, err := reports.serve(b)
	if err != nil {
		return err
	}
	defer closed()
	meter, err := s.meter(ctx, "traffic", "traffic-plain")
	if err != nil {
		return err
	}
	var dumps []*program
	for _, end := range []string{b.snd, b.rcv} {
		dump, err := tcpdump(ctx, end, s.folder+"/"+end)
		if err != nil {
			return err
		}
		dumps = append(dumps, dump)
	}
	meter.begin()
	snd, rcv, err := s.transmit(ctx, b)
	used, failed := meter.end()
	for _, dump := range dumps {
		failed = errors.Join(failed, dump.stop(syscall.SIGINT))
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if s.flavour != "nooml-c" {
		reports.await(2)
	}
	atSnd, err := readTrace(s.folder + "/" + b.snd)
	if err != nil {
		return err
	}
	atRcv, err := readTrace(s.folder + "/" + b.rcv)
	if err != nil {
		return err
	}
	r, err := s.reported(reports)
	if err != nil {
		return err
	}
	intervals, result := compare(atSnd, atRcv, r)
	result["packets"], result["received"], result["dropped"] = snd.Packets, rcv.Packets, snd.Dropped+rcv.Dropped
	result["reports_lost"] = r.lost(s.flavour, snd, rcv)
	result["cpu_us_per_packet"] = snd.CPU * 1e6 / float64(max(snd.Packets, 1))
	result["resident_kb"] = snd.Resident
	for key, value := range used {
		result[key] = value
	}
	return show(append(intervals, result)...)
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
// rate is that of tcpdump at the sender (R_t^Snd), rate_diff is |R_t^Rcv - R_i^Snd|, bytes/s,
// and jitter_diff is |J_t - J_i|, ms.
func compare(atSnd, atRcv []packet, r reportedBy) (intervals []map[string]any, result map[string]any) {
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
		intervals = append(intervals, map[string]any{"interval": n, "rate": a, "rate_diff": d, "jitter_diff": jd})
	}
	n := float64(max(counted, 1))
	return intervals, map[string]any{"intervals": counted, "rate": rate / n, "rate_diff": rateDiff / n, "jitter_diff": jitterDiff / n}
}
