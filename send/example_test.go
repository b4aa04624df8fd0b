package send_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// A program draws its own schedule: ten packets whose distances grow.
func ExampleRun() {
	growing := func(yield func(schedule.Entry, error) bool) {
		var due time.Duration
		for i := range 10 {
			due += time.Duration(i) * time.Millisecond
			if !yield(schedule.Entry{Due: due, Number: uint32(i), Size: 200}, nil) {
				return
			}
		}
	}
	header := &frame.Header{Destination: netip.MustParseAddr("127.0.0.1"), SourcePort: 50000, DestinationPort: 9}
	if err := send.Address(header, "lo"); err != nil {
		fmt.Println(err)
		return
	}
	sender, err := dispatch.Open(dispatch.Options{Device: "lo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sender.Close()
	account := send.NewAccount(send.DefaultLate)
	job := send.Job{Schedule: growing, Headers: map[string]*frame.Header{"": header}}
	err = send.Run(context.Background(), sender, job, func(r dispatch.Record) { account.Add(r) })
	account.Close()
	fmt.Println(account.Scheduled, account.Sent+account.Failed, err)
}
