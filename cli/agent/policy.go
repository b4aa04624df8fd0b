package agent

import (
	"fmt"
	"os"

	"pillion.dev/agent/policy"
)

// policyCmd shows the policy of the host.
type policyCmd struct {
	File string `arg:"" optional:"" type:"path" help:"Policy file; default: ${policy}, if it exists."`
}

// Help has the examples.
func (policyCmd) Help() string {
	return "The policy is enforced by the agent; no server can change it. Without a valid file, owned by root and\n" +
		"writable by nobody else, the command fails; otherwise it prints what applies, key by key.\n\n" +
		"Examples:\n\n  pillion-agent policy\n  pillion-agent policy ./policy.yaml"
}

// Run checks and prints the policy.
func (c *policyCmd) Run() error {
	p, err := policy.Open(c.File)
	if err != nil {
		return err
	}
	where := "there is no " + policy.DefaultFile + ": the defaults apply"
	if p.File() != "" {
		where = p.File() + " is valid"
	}
	if _, err := fmt.Fprintln(os.Stdout, where); err != nil {
		return err
	}
	for _, setting := range p.Settings() {
		if _, err := fmt.Fprintf(os.Stdout, "%-28s %s\n", setting.Name, setting.Value); err != nil {
			return err
		}
	}
	return nil
}
