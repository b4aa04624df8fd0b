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
	emulator.Change
	Link string `arg:"" help:"The link."`
	From string `help:"Only packets sent by this host." placeholder:"HOST"`
	Calm bool   `help:"Disable random loss, duplication and reordering."`
}

// Run changes the link.
func (c *labChangeCmd) Run(ctx context.Context) error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	if c.Calm {
		calm := emulator.Calm()
		c.Loss, c.Duplicate, c.Reorder = calm.Loss, calm.Duplicate, calm.Reorder
	}
	return up.Change(ctx, c.Link, c.From, c.Change)
}
