package main

import (
	"context"
	"fmt"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
	"pillion.dev/send/schedule"
)

const (
	size    = 1514
	packets = 50 // of a train
)

// arms of E7 and E9.
var arms = map[string]dispatch.Options{
	"pre-dispatch": {Mechanism: "bpf", NoDriver: true},
	"socket":       {Mechanism: "packet-sleep"},
}

// watch opens an observer at one end.
func (b *bed) watch(host string, place observer.Place, device, trains, packets int) (o *observer.Observer, err error) {
	overhead, err := b.header.Overhead()
	if err != nil {
		return nil, err
	}
	const link = 14
	err = b.lab.Do(host, func() error {
		o, err = observer.Open(place, device, overhead-link, trains, packets)
		return err
	})
	return o, err
}

// seen sends trains and returns, by train, when observers saw their packets leave and arrive;
// trains of which they did not see each packet once are left out.
func (b *bed) seen(ctx context.Context, options dispatch.Options, s schedule.Schedule, trains, packets int) (left, arrived [][]int64, err error) {
	near, err := b.watch("a", observer.Departure, b.nearDevice, trains, packets)
	if err != nil {
		return nil, nil, err
	}
	defer near.Close()
	far, err := b.watch("b", observer.Arrival, b.farDevice, trains, packets)
	if err != nil {
		return nil, nil, err
	}
	defer far.Close()
	options.Device, options.Namespace = nearDevice, b.near
	sender, err := dispatch.Open(options)
	if err != nil {
		return nil, nil, err
	}
	defer sender.Close()
	err = send.Run(ctx, sender, send.Job{Schedule: s, Headers: map[string]*frame.Header{"": b.header}}, func(dispatch.Record) {})
	if err != nil {
		return nil, nil, err
	}
	time.Sleep(20 * time.Millisecond) // more than the path takes
	for train := range trains {
		var out, in []int64
		for number := range packets {
			departure, arrival := near.Sight(train, number), far.Sight(train, number)
			if departure.Copies == 1 && arrival.Copies == 1 {
				out, in = append(out, departure.At), append(in, arrival.At)
			}
		}
		if len(in) == packets {
			left, arrived = append(left, out), append(arrived, in)
		}
	}
	if len(arrived) == 0 {
		return nil, nil, fmt.Errorf("observers saw none of %d trains entirely", trains)
	}
	return left, arrived, nil
}
