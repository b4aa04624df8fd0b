package agent

import (
	"context"
	"encoding/json"
	"os"

	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

type labTruthCmd struct {
	whichLab
	Link string `arg:"" optional:"" help:"The link; default: all emulated links."`
	JSON bool   `help:"Print JSON, with every flow."`
}

// Run prints the truth.
func (c *labTruthCmd) Run(ctx context.Context) error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	links := []string{c.Link}
	if c.Link == "" {
		links = up.EmulatedLinks()
	}
	for _, link := range links {
		truth, err := up.Truth(ctx, link)
		if err != nil {
			return err
		}
		if !c.JSON {
			if err := truth.WriteTable(os.Stdout); err != nil {
				return err
			}
			continue
		}
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(truth); err != nil {
			return err
		}
	}
	return nil
}

// labChangeCmd has one flag per impairment; those not given remain unchanged.
type labChangeCmd struct {
	whichLab
	Link       string             `arg:"" help:"The link."`
	From       string             `help:"Only packets sent by this host." placeholder:"HOST"`
	Calm       bool               `help:"Disable random loss, duplication and reordering."`
	Delay      *emulator.Duration `placeholder:"TIME" help:"Delay, such as 5ms."`
	Jitter     *emulator.Duration `placeholder:"TIME" help:"Jitter, uniform, plus or minus."`
	KeepOrder  *bool              `help:"Prevent jitter from reordering packets." negatable:""`
	Loss       *emulator.Fraction `placeholder:"PERCENT" help:"Loss, such as 0.1%."`
	Duplicate  *emulator.Fraction `placeholder:"PERCENT" help:"Duplicated packets."`
	Reorder    *emulator.Fraction `placeholder:"PERCENT" help:"Packets delayed out of order."`
	ReorderGap *emulator.Duration `placeholder:"TIME" help:"Additional delay of these packets."`
	Rate       *emulator.Rate     `placeholder:"RATE" help:"Rate, such as 100mbit; 0 is no limit."`
	Queue      *emulator.Queue    `placeholder:"SIZE" help:"Queue limit in packets, or in bytes such as 64kB."`
}

// Run changes the link.
func (c *labChangeCmd) Run(ctx context.Context) error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	change := emulator.Change{
		Delay: c.Delay, Jitter: c.Jitter, KeepOrder: c.KeepOrder, Loss: c.Loss, Duplicate: c.Duplicate,
		Reorder: c.Reorder, ReorderGap: c.ReorderGap, Rate: c.Rate, Queue: c.Queue,
	}
	if c.Calm {
		calm := emulator.Calm()
		change.Loss, change.Duplicate, change.Reorder = calm.Loss, calm.Duplicate, calm.Reorder
	}
	return up.Change(ctx, c.Link, c.From, change)
}
