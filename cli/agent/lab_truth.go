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
	Link string `arg:"" optional:"" help:"The link; all emulated links without one."`
	JSON bool   `help:"Print the truth as JSON, with every flow."`
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

// labChangeCmd has one flag for each fault; what is not given stays.
type labChangeCmd struct {
	whichLab
	Link       string             `arg:"" help:"The link."`
	From       string             `help:"Only what this host sends." placeholder:"HOST"`
	Calm       bool               `help:"End random loss, duplication and reordering."`
	Delay      *emulator.Duration `placeholder:"TIME" help:"Such as 5ms."`
	Jitter     *emulator.Duration `placeholder:"TIME" help:"Uniform, plus or minus."`
	KeepOrder  *bool              `help:"Let jitter reorder nothing." negatable:""`
	Loss       *emulator.Fraction `placeholder:"PERCENT" help:"Such as 0.1%."`
	Duplicate  *emulator.Fraction `placeholder:"PERCENT" help:"Copied packets."`
	Reorder    *emulator.Fraction `placeholder:"PERCENT" help:"Packets that are held back."`
	ReorderGap *emulator.Duration `placeholder:"TIME" help:"For how long they are."`
	Rate       *emulator.Rate     `placeholder:"RATE" help:"Such as 100mbit; 0 is no limit."`
	Queue      *emulator.Queue    `placeholder:"SIZE" help:"Packets, or bytes such as 64kB, that wait for the rate."`
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
