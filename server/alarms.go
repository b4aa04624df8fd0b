package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"pillion.dev/measure"
	"pillion.dev/server/alarm"
	"pillion.dev/server/event"
	"pillion.dev/server/notify"
	"pillion.dev/server/web"
)

func (s *server) openAlarms() error {
	rules, err := s.config.rules()
	if err != nil {
		return err
	}
	s.alarms = alarm.New(alarm.Options{
		Rules: rules, PairsMost: s.config.Limits.LossPairs, AlarmsMost: s.config.Limits.Alarms, Events: s.local,
		Agents: watchedAgents{s}, Store: s.store, SiteLabel: s.config.SiteLabel, Log: s.log,
	})
	to, err := s.config.outbound()
	s.notifier = notify.New(notify.Options{Receivers: s.config.Notify, Alarms: s.alarms, URL: s.config.pageURL(), Addresses: to, Log: s.log})
	return err
}

// watchedAgents is what rules need to know of agents.
type watchedAgents struct{ s *server }

// Labels implements alarm.Agents, as the following do.
func (w watchedAgents) Labels() map[string]map[string]string { return w.s.control.Labels() }

func (w watchedAgents) Covers(session, name string) (from, until time.Time) {
	return w.s.control.Covers(session, name)
}

func (w watchedAgents) ClockAhead(name string) time.Duration { return w.s.control.ClockAhead(name) }

func (w watchedAgents) Unheard(since time.Duration) []string { return w.s.control.Unheard(since) }

// pathChanges passes changes of paths on to the rules of alarms, too.
type pathChanges struct {
	event.Sink
	alarms *alarm.Evaluator
}

// Event implements event.Sink.
func (p pathChanges) Event(e event.Event) {
	p.Sink.Event(e)
	if e.Kind == "path-changed" {
		p.alarms.PathChanged(e.Time, e.Session, e.Agent, e.Peer, e.Message)
	}
}

// followAlarms evaluates the rules of alarms as rows are stored, by any server.
func (s *server) followAlarms(ctx context.Context) {
	s.follow(ctx, []string{measure.Flows.Name}, time.Second, s.alarms.Tick, s.alarms.Add)
}

// runAlarms raises alarms and notifies of them until the context ends: what one server of a fleet does.
func (s *server) runAlarms(ctx context.Context) error {
	if err := s.alarms.Load(ctx); err != nil {
		return err
	}
	defer s.alarms.Unload()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	if s.alarms.WatchesSent() {
		parts.Go(func() {
			s.follow(ctx, []string{measure.Sent.Name}, time.Hour, func() {}, s.alarms.Add)
		})
	}
	err := s.notifier.Run(ctx)
	cancel(err)
	parts.Wait()
	saved, stop := context.WithTimeout(context.WithoutCancel(ctx), shutTime)
	defer stop()
	return errors.Join(err, s.alarms.Save(saved))
}

// alarmFigures are the metrics of alarms and notifications.
func (s *server) alarmFigures() (figures []web.Figure) {
	figures = countAlarms(s.alarms.AllRules(), s.alarms.Alarms())
	for _, r := range s.notifier.Stats() {
		for _, one := range []struct {
			name, help string
			value      float64
		}{
			{"pillion_alarm_notifications_total", "Notifications that a receiver accepted.", float64(r.Sent)},
			{"pillion_alarm_notifications_failed_total", "Attempts to notify a receiver that failed, to be repeated.", float64(r.Failed)},
			{"pillion_alarm_notifications_refused_total", "Notifications that a receiver refused, which are not repeated.", float64(r.Refused)},
			{"pillion_alarm_notifications_waiting", "Groups of alarms of which a receiver is to be notified.", float64(r.Waiting)},
		} {
			figures = append(figures, web.Figure{Name: one.name, Help: one.help, Labels: map[string]string{"receiver": r.Receiver}, Value: one.value})
		}
	}
	return figures
}

// countAlarms are the metrics of alarms that have not ended; each rule has one before its first alarm, too.
func countAlarms(rules []alarm.Rule, alarms []alarm.Alarm) (figures []web.Figure) {
	type kind struct{ rule, severity, state string }
	counts := map[kind]int{}
	for _, r := range rules {
		counts[kind{r.Name, r.Severity, "active"}] = 0
	}
	for _, a := range alarms {
		state := "active"
		switch {
		case !a.Active():
			continue
		case len(a.SilencedBy) > 0:
			state = "silenced"
		case a.Acknowledged != nil:
			state = "acknowledged"
		}
		counts[kind{a.Rule, a.Labels["severity"], state}]++
	}
	for k, n := range counts {
		figures = append(figures, web.Figure{Name: "pillion_alarms", Help: "Alarms that have not ended, by rule, severity and state: active, acknowledged, silenced.",
			Labels: map[string]string{"rule": k.rule, "severity": k.severity, "state": k.state}, Value: float64(n)})
	}
	return figures
}
