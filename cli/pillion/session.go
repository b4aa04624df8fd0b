package pillion

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

type sessionCmd struct {
	Create sessionCreateCmd `cmd:"" help:"Start or schedule a session."`
	List   sessionListCmd   `cmd:"" aliases:"ls" help:"List sessions, newest first."`
	Show   sessionShowCmd   `cmd:"" help:"Show a session's specification, tasks and runs."`
	Watch  sessionWatchCmd  `cmd:"" help:"Watch delay and loss of a session live."`
	Change sessionChangeCmd `cmd:"" help:"Change a session, even while it is running."`
	Pause  sessionPauseCmd  `cmd:"" help:"Pause marking; the session and its schedule are kept."`
	Resume sessionResumeCmd `cmd:"" help:"Resume a paused session."`
	Stop   sessionStopCmd   `cmd:"" help:"Stop a session permanently."`
	Delete sessionDeleteCmd `cmd:"" help:"Delete a session that has ended. Its rows are kept."`
	Points sessionPointsCmd `cmd:"" help:"List the additional points, and the modules of marks, that a session can measure."`
}

// sessionName is embedded in the commands on one session.
type sessionName struct {
	Name string `arg:"" predictor:"session" help:"The session."`
}

type sessionListCmd struct{ repeated }

// Help has the example.
func (sessionListCmd) Help() string { return "Example:\n\n  pillion session list" }

// Run lists sessions.
func (c *sessionListCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	sessions, err := listSessions(ctx, client)
	if err != nil {
		return failed("list sessions", err)
	}
	if len(sessions) == 0 && a.format == "table" {
		a.note("no sessions yet: pillion session create --help shows how to start one")
	}
	return a.show(messageList(sessions), sessionTable(sessions...), nil)
}

func sessionTable(sessions ...*pillionv1.Session) *table {
	t := newTable("name", "state", "sources", "destinations", ">pairs", "interval", "started", "ends", "next_start", "reason")
	for _, s := range sessions {
		spec := s.GetSpec()
		t.add(text(spec.GetName()), text(s.GetState()), text(strings.Join(spec.GetSources(), " ")), text(strings.Join(spec.GetDestinations(), " ")),
			number(len(s.GetPairs())), length(spec.GetInterval()), when(s.GetStarted()), when(s.GetEnds()), when(s.GetNextStart()), text(s.GetReason()))
	}
	return t
}

type sessionShowCmd struct {
	sessionName
	repeated
}

// Help has the example.
func (sessionShowCmd) Help() string {
	return "An agent has one task for each role and interface: several if its routes to the addresses of the peers use\n" +
		"several interfaces.\n\nExample:\n\n  pillion session show web-delay"
}

// Run shows a session.
func (c *sessionShowCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: c.Name})
	if err != nil {
		return failed("show session "+c.Name, err)
	}
	return a.show(answer, sessionTable(answer.GetSession()), func(w io.Writer) error {
		return writeSession(w, a.color, answer)
	})
}

func writeSession(w io.Writer, color bool, answer *pillionv1.GetSessionResponse) error {
	s, f := answer.GetSession(), facts{}
	f.add("name", s.GetSpec().GetName())
	f.add("state", s.GetState())
	if len(answer.GetReasons()) == 0 {
		f.add("reason", s.GetReason())
	}
	f.add("created", when(s.GetCreated()).shown)
	f.add("created by", s.GetCreatedBy())
	f.add("started", when(s.GetStarted()).shown)
	f.add("ends", when(s.GetEnds()).shown)
	f.add("next start", when(s.GetNextStart()).shown)
	f.add("pairs", pairNames(s.GetPairs()))
	specFacts(&f, s.GetSpec())
	return f.write(w, color, reasonTable(answer.GetReasons()), taskTable(s.GetTasks()), runTable(answer.GetRuns()))
}

// reasonTable lists why a session is not measured, or less than it asks for.
func reasonTable(reasons []*pillionv1.Reason) *table {
	t := newTable("agent", "check", "level", "found=REASON", "since", "advice")
	for _, r := range reasons {
		t.add(text(r.Agent), text(r.Name), text(r.Level), text(r.Found), when(r.Since), text(r.Advice))
	}
	return t
}

func pairNames(pairs []*pillionv1.Pair) string {
	const most = 20
	var words []string
	for i, p := range pairs {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(pairs)-most))
			break
		}
		words = append(words, p.GetSource()+" > "+p.GetDestination())
	}
	return strings.Join(words, ", ")
}

// specFacts lists the contents of a specification.
func specFacts(f *facts, s *pillionv1.SessionSpec) {
	f.add("sources", strings.Join(s.GetSources(), " "))
	f.add("destinations", strings.Join(s.GetDestinations(), " "))
	if s.GetBoth() {
		f.add("directions", "both")
	}
	f.add("modules", strings.Join(s.GetModules(), " "))
	settingFacts(f, s, func(group string) bool { return group == session.MarkGroup })
	f.add("filters", strings.Join(s.GetFilters(), "; "))
	spec, _ := api.SpecOf(s)
	if spec.Sampling != (session.Sampling{}) {
		f.add("sampling", spec.Sampling.String())
	}
	for agent, sampling := range sorted(spec.SamplingFor) {
		f.add("sampling at "+agent, sampling.String())
	}
	f.add("interval", length(s.GetInterval()).shown)
	f.add("rows by", s.GetGranularity())
	if s.GetRecords() {
		f.add("records", "a row per packet")
	}
	f.add("interfaces", pairsText(s.GetDevice()))
	f.add("hosts behind", pairsText(s.GetTransit()))
	f.add("waypoints", strings.Join(s.GetWaypoints(), " "))
	settingFacts(f, s, func(group string) bool { return group != session.MarkGroup })
	if trace := s.GetTrace(); trace != nil && trace.AsDuration() < 0 {
		f.add("trace", "never")
	} else if trace != nil {
		f.add("trace", "every "+quantity.FormatDuration(trace.AsDuration()))
	}
	f.add("routers", strings.Join(s.GetRouters(), " "))
	for _, p := range s.GetPoints() {
		f.add("point", session.PointRequest{Name: p.GetName(), Agents: p.GetAgents(), Options: p.GetOptions()}.Chosen().String())
	}
	f.add("first start", when(s.GetStart()).shown)
	f.add("duration", length(s.GetDuration()).shown)
	f.add("cron", strings.TrimSpace(s.GetCron()+" "+s.GetTimeZone()))
}

// settingFacts lists the settings of some groups that have a value.
func settingFacts(f *facts, s *pillionv1.SessionSpec, of func(group string) bool) {
	spec, _ := api.SpecOf(s)
	for _, one := range session.Settings() {
		if one.Group != "" && of(one.Group) && one.Shown(&spec) {
			f.add(one.Label, one.Text(spec.Value(one.Name)))
		}
	}
}

type sessionPauseCmd struct{ sessionName }

// Help has the example.
func (sessionPauseCmd) Help() string { return "Example:\n\n  pillion session pause web-delay" }

// Run pauses a session.
func (c *sessionPauseCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Sessions.PauseSession(ctx, &pillionv1.PauseSessionRequest{Name: c.Name})
	return a.sessionDone(answer.GetSession(), failed("pause session "+c.Name, err))
}

type sessionResumeCmd struct{ sessionName }

// Help has the example.
func (sessionResumeCmd) Help() string { return "Example:\n\n  pillion session resume web-delay" }

// Run ends a pause.
func (c *sessionResumeCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Sessions.ResumeSession(ctx, &pillionv1.ResumeSessionRequest{Name: c.Name})
	return a.sessionDone(answer.GetSession(), failed("resume session "+c.Name, err))
}

type sessionStopCmd struct{ sessionName }

// Help has the example.
func (sessionStopCmd) Help() string { return "Example:\n\n  pillion session stop web-delay" }

// Run stops a session.
func (c *sessionStopCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Sessions.StopSession(ctx, &pillionv1.StopSessionRequest{Name: c.Name})
	return a.sessionDone(answer.GetSession(), failed("stop session "+c.Name, err))
}

// sessionDone prints the state of a session after a command, unless that failed.
func (a *app) sessionDone(s *pillionv1.Session, err error) error {
	return a.sessionNow("session "+s.GetSpec().GetName(), s, err)
}

// sessionNow confirms an action on a session and prints its state.
func (a *app) sessionNow(done string, s *pillionv1.Session, err error) error {
	if err != nil {
		return err
	}
	return a.show(s, sessionTable(s), func(w io.Writer) error {
		reason := s.GetReason()
		if reason != "" {
			reason = ": " + reason
		}
		_, err := fmt.Fprintln(w, clean(done+" is "+s.GetState()+reason))
		return err
	})
}

// specChanges describes how two specifications differ: interval 1s -> 5s; records - -> a row
// per packet.
func specChanges(before, after *pillionv1.SessionSpec) string {
	var names, changes []string
	values := [2]map[string]string{{}, {}}
	for i, s := range []*pillionv1.SessionSpec{before, after} {
		f := facts{}
		specFacts(&f, s)
		for _, fact := range f {
			names = append(names, fact[0])
			values[i][fact[0]] = strings.TrimPrefix(values[i][fact[0]]+", "+fact[1], ", ")
		}
	}
	for _, name := range names {
		if from, to := values[0][name], values[1][name]; from != to {
			changes = append(changes, fmt.Sprintf("%s %s -> %s", name, cmp.Or(from, "-"), cmp.Or(to, "-")))
			values[0][name] = to // a name occurs twice
		}
	}
	return strings.Join(changes, "; ")
}

type sessionDeleteCmd struct{ sessionName }

// Help has the example.
func (sessionDeleteCmd) Help() string { return "Example:\n\n  pillion session delete web-delay" }

// Run deletes a session.
func (c *sessionDeleteCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if _, err := client.Sessions.DeleteSession(ctx, &pillionv1.DeleteSessionRequest{Name: c.Name}); err != nil {
		return failed("delete session "+c.Name, err)
	}
	return a.done("session %s deleted; its rows are kept", c.Name)
}
