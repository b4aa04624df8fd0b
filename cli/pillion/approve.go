package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type agentsApproveCmd struct {
	Name string   `arg:"" predictor:"agent" help:"The agent."`
	What []string `arg:"" optional:"" placeholder:"WHAT" help:"KEY=VALUE approves a label, an address or prefix those addresses without a proof; KEY- or ADDRESS- withdraws the approval."`
}

// Help has the examples.
func (agentsApproveCmd) Help() string {
	return "Sessions select agents by labels that an operator or the join token has approved, not by those that an\n" +
		"agent claims in its configuration. Addresses need no approval where the agent proves that it has them.\n\n" +
		"Examples:\n\n  pillion agents approve north1 site=north\n  pillion agents approve north1 10.0.0.0/24\n  pillion agents approve north1 site-"
}

// Run approves.
func (c *agentsApproveCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	request, pairs := &pillionv1.ApproveAgentRequest{Name: c.Name}, []string(nil)
	for _, word := range c.What {
		if away, ends := strings.CutSuffix(word, "-"); ends && away != "" && !strings.Contains(word, "=") {
			request.Withdraw = append(request.Withdraw, away)
		} else if isAddress(word) {
			request.Addresses = append(request.Addresses, word)
		} else if !strings.Contains(word, "=") {
			return fmt.Errorf("read what to approve: %w: %.70q is neither KEY=VALUE nor an address or prefix", errNothing, word)
		} else {
			pairs = append(pairs, word)
		}
	}
	var err error
	if request.Labels, err = parsePairs(pairs); err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	if len(c.What) == 0 {
		return c.hint(ctx, client)
	}
	answer, err := client.Agents.ApproveAgent(ctx, request)
	if err != nil {
		return failed("approve agent "+c.Name, err)
	}
	return a.show(answer.Agent, agentTable(answer.Agent), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "labels of %s: %s\napproved addresses: %s\n", clean(c.Name), clean(cmp.Or(pairsText(answer.GetAgent().GetLabels()), "none")),
			clean(cmp.Or(strings.Join(answer.GetAgent().GetApprovedAddresses(), " "), "none")))
		return err
	})
}

// hint says what could be approved.
func (c *agentsApproveCmd) hint(ctx context.Context, client *api.Client) error {
	answer, err := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: c.Name})
	if err != nil {
		return failed("approve agent "+c.Name, err)
	}
	claimed := pairsText(answer.GetAgent().GetClaimedLabels())
	if claimed == "" {
		return fmt.Errorf("approve agent %s: %w: it claims no label that is not approved", c.Name, errNothing)
	}
	return fmt.Errorf("approve agent %s: %w: it claims %s", c.Name, errNothing, clean(claimed))
}

var errNothing = errors.New("name what to approve")

func isAddress(word string) bool {
	if _, err := netip.ParsePrefix(word); err == nil {
		return true
	}
	_, err := netip.ParseAddr(word)
	return err == nil
}
