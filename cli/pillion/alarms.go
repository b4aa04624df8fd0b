package pillion

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

type alarmsCmd struct {
	List     alarmsListCmd     `cmd:"" default:"withargs" help:"List active alarms (the default)."`
	Ack      alarmsAckCmd      `cmd:"" help:"Acknowledge an alarm: notifications about it are not repeated."`
	Silence  alarmsSilenceCmd  `cmd:"" help:"Mute notifications about alarms whose labels match."`
	Silences alarmsSilencesCmd `cmd:"" help:"List silences."`
	Expire   alarmsExpireCmd   `cmd:"" help:"End a silence now."`
	Rules    alarmsRulesCmd    `cmd:"" help:"List the rules of alarms."`
}

type alarmsListCmd struct {
	repeated
	All   bool   `help:"Also list alarms that have ended in the last 15 minutes."`
	Match string `placeholder:"LABEL=VALUE" help:"Only alarms with this label."`
}

// Help has the examples.
func (alarmsListCmd) Help() string {
	return "Examples:\n\n  pillion alarms\n  pillion alarms --all --match severity=critical"
}

// Run lists alarms, the latest first.
func (c *alarmsListCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	name, value, found := strings.Cut(c.Match, "=")
	if c.Match != "" && !found {
		return fmt.Errorf("read --match %q: %w: use LABEL=VALUE", c.Match, errValue)
	}
	alarms, err := listAlarms(ctx, client, !c.All)
	if err != nil {
		return failed("list alarms", err)
	}
	alarms = slices.DeleteFunc(alarms, func(one *pillionv1.Alarm) bool { return c.Match != "" && one.Labels[name] != value })
	slices.SortStableFunc(alarms, func(a, b *pillionv1.Alarm) int { return b.Began.AsTime().Compare(a.Began.AsTime()) })
	t := newTable("id", "state", "severity", "rule", "began", "ended", "session", "source", "destination", "agent", "summary")
	for _, one := range alarms {
		t.add(text(one.Id), text(alarmState(one)), text(one.Labels["severity"]), text(one.Rule), when(one.Began), when(one.Ended),
			text(one.Session), text(one.Source), text(one.Destination), text(one.Agent), text(cmp.Or(one.Ending, one.Summary)))
	}
	return a.show(messageList(alarms), t, nil)
}

// alarmState is active, ended, silenced, or who has acknowledged an alarm.
func alarmState(one *pillionv1.Alarm) string {
	switch {
	case one.Ended != nil:
		return "ended"
	case len(one.SilencedBy) > 0:
		return "silenced"
	case one.Acknowledgement != nil:
		return "acknowledged by " + one.Acknowledgement.By
	}
	return "active"
}

type alarmsAckCmd struct {
	ID       []string `arg:"" help:"IDs of active alarms."`
	Comment  string   `placeholder:"TEXT" help:"What is being done."`
	Withdraw bool     `help:"Withdraw the acknowledgement."`
}

// Help has the example.
func (alarmsAckCmd) Help() string {
	return "Example:\n\n  pillion alarms ack 2f7c0c5e1d0b9a64 --comment 'provider informed'"
}

// Run acknowledges alarms.
func (c *alarmsAckCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	for _, id := range c.ID {
		_, err := client.Alarms.AcknowledgeAlarm(ctx, &pillionv1.AcknowledgeAlarmRequest{Id: id, Comment: c.Comment, Withdraw: c.Withdraw})
		if err != nil {
			return failed("acknowledge alarm "+id, err)
		}
	}
	what := "acknowledged"
	if c.Withdraw {
		what = "withdrew the acknowledgement of"
	}
	return a.done("%s %s", what, quantity.Count(len(c.ID), "alarm"))
}

type alarmsSilenceCmd struct {
	Matchers []string      `arg:"" help:"Matchers, all of which must match: LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEXP, LABEL!~REGEXP."`
	For      time.Duration `required:"" placeholder:"DURATION" help:"How long, such as 2h or 7d."`
	Comment  string        `placeholder:"TEXT" help:"Why."`
}

// Help has the examples.
func (alarmsSilenceCmd) Help() string {
	return `A silence mutes notifications; alarms are listed nevertheless.

Examples:

  pillion alarms silence source=north1 --for 2h --comment maintenance
  pillion alarms silence alertname=loss 'destination=~lab-.*' --for 7d`
}

// Run creates a silence.
func (c *alarmsSilenceCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Alarms.CreateSilence(ctx, &pillionv1.CreateSilenceRequest{Matchers: c.Matchers, DurationNs: int64(c.For), Comment: c.Comment})
	if err != nil {
		return failed("create silence", err)
	}
	return a.show(answer.Silence, silenceTable(answer.Silence), nil)
}

type alarmsSilencesCmd struct {
	repeated
	All bool `help:"Also list those that have expired in the last 24 hours."`
}

// Help has the example.
func (alarmsSilencesCmd) Help() string { return "Example:\n\n  pillion alarms silences" }

// Run lists silences.
func (c *alarmsSilencesCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Alarms.ListSilences(ctx, &pillionv1.ListSilencesRequest{})
	if err != nil {
		return failed("list silences", err)
	}
	silences := slices.DeleteFunc(answer.Silences, func(s *pillionv1.Silence) bool { return !c.All && !time.Now().Before(s.Ends.AsTime()) })
	return a.show(messageList(silences), silenceTable(silences...), nil)
}

func silenceTable(silences ...*pillionv1.Silence) *table {
	t := newTable("id", "matchers", "ends", "by", "comment")
	for _, s := range silences {
		t.add(text(s.Id), text(strings.Join(s.Matchers, " ")), when(s.Ends), text(s.By), text(s.Comment))
	}
	return t
}

type alarmsExpireCmd struct {
	ID []string `arg:"" help:"IDs of silences."`
}

// Help has the example.
func (alarmsExpireCmd) Help() string { return "Example:\n\n  pillion alarms expire k3v9x2m7qa" }

// Run ends silences.
func (c *alarmsExpireCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	for _, id := range c.ID {
		if _, err := client.Alarms.ExpireSilence(ctx, &pillionv1.ExpireSilenceRequest{Id: id}); err != nil {
			return failed("expire silence "+id, err)
		}
	}
	return a.done("expired %s", quantity.Count(len(c.ID), "silence"))
}

type alarmsRulesCmd struct{}

// Help has the example.
func (alarmsRulesCmd) Help() string {
	return "Rules are part of the server's configuration.\n\nExample:\n\n  pillion alarms rules"
}

// Run lists rules.
func (c *alarmsRulesCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Alarms.ListAlarmRules(ctx, &pillionv1.ListAlarmRulesRequest{})
	if err != nil {
		return failed("list rules of alarms", err)
	}
	t := newTable("name", "on", "above", ">over", ">packets", ">for", ">keep_firing_for", "severity", "state")
	for _, r := range answer.Rules {
		state := "enabled"
		if r.Disabled {
			state = "disabled"
		}
		t.add(text(r.Name), text(r.On), text(r.Above), text(lengthOf(r.OverNs)), number(r.Packets), text(lengthOf(r.ForNs)), text(lengthOf(r.KeepFiringForNs)),
			text(r.Severity), text(state))
	}
	return a.show(messageList(answer.Rules), t, nil)
}

// lengthOf is empty for none.
func lengthOf(ns int64) string {
	if ns == 0 {
		return ""
	}
	return quantity.FormatDuration(time.Duration(ns))
}
