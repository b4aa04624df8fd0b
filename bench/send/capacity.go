package main

import (
	"fmt"

	"pillion.dev/bench/estimate"
)

// capacityReport is what the report takes from the results of bench/capacity: E7 and E9.
type capacityReport struct {
	Claims []estimate.Claim `json:"claims"`
	Bars   []estimate.Bar   `json:"bars"`
	Pairs  []struct {
		Load  string            `json:"load"`
		Arm   string            `json:"arm"`
		GapUS estimate.Estimate `json:"gap_p50_us"`
		P90US estimate.Estimate `json:"gap_p90_us"`
	} `json:"pairs"`
	Trains []struct {
		Arm   string            `json:"arm"`
		Asked float64           `json:"mbit_asked"`
		Error estimate.Estimate `json:"error"`
		Sent  estimate.Estimate `json:"sent_error"`
	} `json:"trains"`
}

func (c *capacityReport) plots() []*figure {
	series := map[string]string{"pre-dispatch": "initial"}
	of := func(arm string) string {
		if s, ok := series[arm]; ok {
			return s
		}
		return "socket"
	}
	pairs := &figure{file: "pairs-routers", title: "E7: distance of the packets of a pair behind two routers (p50 to p90)", unit: "us"}
	for _, p := range c.Pairs {
		pairs.add(p.Load+", "+p.Arm, of(p.Arm), p.GapUS, p.P90US, 1)
	}
	rates := &figure{file: "rates", title: "E9: error of the rate of 50-packet trains: sent, to received behind two routers", unit: "% of the rate asked for"}
	for _, t := range c.Trains {
		rates.add(fmt.Sprintf("%g Mbit/s, %s", t.Asked, t.Arm), of(t.Arm), t.Sent, t.Error, 100)
	}
	var all []*figure
	for _, f := range []*figure{pairs, rates} {
		if len(f.rows) > 0 {
			all = append(all, f)
		}
	}
	return all
}
