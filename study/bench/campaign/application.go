package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
)

// What applications report: rows of this stream in the archive.
const (
	domain = "campaign"
	app    = "ledger"
	point  = "rows"
	stream = "oml_" + domain + "_" + app + "_" + point
)

// Variables that make this program an application: its name, and where it reports to.
const (
	senderVariable  = "PILLION_CAMPAIGN_SENDER"
	addressVariable = "PILLION_CAMPAIGN_ADDRESS"
)

const (
	rowEvery    = 10 * time.Millisecond
	reportEvery = 100 * time.Millisecond
	closeTime   = 5 * time.Minute
)

// runApplication is an instrumented application in its own process: it reports numbered
// rows, and tells on standard output how many it has sent and how many were acknowledged.
// When its input ends, it waits until all are.
func runApplication(sender, address string) error {
	c, err := client.New(client.Options{Address: address, Domain: domain, Sender: sender, App: app, Buffer: 256 << 20})
	if err != nil {
		return err
	}
	p, err := c.Point(point, omsp.Field{Name: "number", Type: omsp.Int64})
	if err != nil {
		return err
	}
	tell := func(complete bool) {
		sent, stored := p.Progress()
		fmt.Println(sent, stored, complete)
	}
	ended := make(chan struct{})
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		close(ended)
	}()
	rows, reports := time.NewTicker(rowEvery), time.NewTicker(reportEvery)
	for number := int64(1); ; {
		select {
		case <-ended:
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			err := c.Close(ctx)
			tell(err == nil)
			return err
		case <-reports.C:
			tell(false)
		case <-rows.C:
			var value omsp.Value
			value.SetInt(omsp.Int64, number)
			if err := p.Inject([]omsp.Value{value}); err != nil {
				return err
			}
			number++
		}
	}
}
