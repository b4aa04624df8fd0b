package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// specFlags change a specification; what is not given stays as it is.
type specFlags struct {
	From     []string           `placeholder:"AGENT" predictor:"agent" help:"Sources: agents by name, by label (key=value, or key), or * for all."`
	To       []string           `placeholder:"AGENT" predictor:"agent" help:"Destinations, likewise."`
	Both     *bool              `negatable:"" help:"Measure each pair in both directions."`
	Modules  []string           `placeholder:"LIST" help:"delay, loss; default both."`
	Encoding *string            `placeholder:"NAME" help:"Encoding of marks in IPv4: one of ${encodings}; default ${encoding}."`
	Family   *string            `placeholder:"NAME" help:"ipv4, ipv6 or any (default)."`
	Filter   []fivetuple.Filter `sep:"none" placeholder:"RULE" help:"Only packets that fit 'src=P dst=P proto=tcp sport=N dport=N'. May be repeated: one that fits is enough."`
	Every    *uint32            `placeholder:"N" help:"Mark one packet in N, by count."`
	Random   *uint32            `placeholder:"N" help:"Mark one packet in N, at random."`
	MinGap   *time.Duration     `placeholder:"TIME" help:"Mark at most one packet in this time, such as 100us."`
	Interval *time.Duration     `placeholder:"TIME" help:"Length of the rows' windows; default 1s."`
	By       *string            `placeholder:"NAME" help:"Rows by flow (default), host-port or host."`
	Records  *bool              `negatable:"" help:"A row for each packet, in the stream packets."`
	Device   map[string]string  `placeholder:"AGENT=DEV" help:"Interface of an agent; default that of the route."`
	Lease    *time.Duration     `placeholder:"TIME" help:"Mark on for so long when nothing is heard; default 10s."`
	Trace    *time.Duration     `placeholder:"TIME" help:"Trace the paths so often; default 1m, negative never."`
	Router   []string           `sep:"none" placeholder:"AGENT" predictor:"agent" help:"Profile this host as a router while the session runs: where in it packets wait. May be repeated."`
	Point    []pointFlag        `sep:"none" placeholder:"POINT" help:"Measure a further point, as NAME[:OPTION=VALUE,...][@AGENT,...]; pillion session points lists them. May be repeated."`
	Start    *moment            `placeholder:"TIME" help:"First start; default now."`
	Duration *time.Duration     `placeholder:"TIME" help:"Length of a run; default until it is stopped."`
	Cron     *string            `placeholder:"LINE" help:"Start by a cron line of five fields, such as '0 9 * * 1-5'."`
	TZ       *string            `name:"tz" placeholder:"ZONE" help:"Time zone of the cron line, such as Europe/Berlin; default UTC."`
	DryRun   bool               `help:"Print what would be done, and do nothing."`
}

// apply puts the flags over the specification.
func (f *specFlags) apply(s *session.Spec) {
	setList(&s.Sources, f.From)
	setList(&s.Destinations, f.To)
	setList(&s.Modules, f.Modules)
	setList(&s.Filters, f.Filter)
	setList(&s.Routers, f.Router)
	setList(&s.Points, requests(f.Point))
	set(&s.Both, f.Both)
	set(&s.Encoding, f.Encoding)
	set(&s.Family, f.Family)
	set(&s.Granularity, f.By)
	set(&s.Records, f.Records)
	set(&s.Cron, f.Cron)
	set(&s.TimeZone, f.TZ)
	set(&s.Sampling.Every, f.Every)
	set(&s.Sampling.Random, f.Random)
	setSpan(&s.Sampling.MinGap, f.MinGap)
	setSpan(&s.Interval, f.Interval)
	setSpan(&s.Lease, f.Lease)
	setSpan(&s.Trace, f.Trace)
	setSpan(&s.Duration, f.Duration)
	if f.Start != nil {
		s.Start = f.Start.Time
	}
	for agent, device := range f.Device {
		if s.Device == nil {
			s.Device = map[string]string{}
		}
		s.Device[agent] = device
	}
}

// pointFlag is a point as session.ParsePoint reads it.
type pointFlag session.PointRequest

// UnmarshalText reads the flag.
func (p *pointFlag) UnmarshalText(text []byte) error {
	request, err := session.ParsePoint(string(text))
	*p = pointFlag(request)
	return err
}

func requests(flags []pointFlag) (requests []session.PointRequest) {
	for _, flag := range flags {
		requests = append(requests, session.PointRequest(flag))
	}
	return requests
}

func set[T any](field *T, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

func setList[T any](field *[]T, flag []T) {
	if flag != nil {
		*field = flag
	}
}

func setSpan(field *session.Duration, flag *time.Duration) {
	if flag != nil {
		*field = session.Duration(*flag)
	}
}

// readSpec reads a YAML file; - is the standard input.
func readSpec(path string, in io.Reader) (session.Spec, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(in, 1<<20))
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return session.Spec{}, fmt.Errorf("read session: %w", err)
	}
	spec, err := session.ParseSpec(text)
	if err != nil {
		return spec, fmt.Errorf("%s: %w: %w", path, errValue, err)
	}
	return spec, nil
}

type sessionCreateCmd struct {
	File string `arg:"" optional:"" predictor:"file" help:"The session as YAML; - is the standard input. Flags change what it says."`
	Name string `placeholder:"NAME" help:"Name of the session; default that of the file, or session-TIME."`
	specFlags
	Watch bool `help:"Then watch it, as session watch does. The session goes on when the watch is interrupted."`
}

// Help has the examples.
func (sessionCreateCmd) Help() string {
	return `Examples:

  pillion session create --name web-delay --from north1 --to south1 --both --filter 'proto=tcp dport=443'
  pillion session create --from north1 --to south1 --watch
  pillion session create --from site=north --to '*' --every 10 --duration 1h --dry-run
  pillion session create office.yaml --cron '0 9 * * 1-5' --tz Europe/Berlin --duration 8h`
}

// Run creates a session.
func (c *sessionCreateCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	var spec session.Spec
	if c.File != "" {
		var err error
		if spec, err = readSpec(c.File, a.in); err != nil {
			return err
		}
	}
	c.apply(&spec)
	spec.Name = cmp.Or(c.Name, spec.Name, "session-"+time.Now().UTC().Format("20060102-150405"))
	message := api.SpecMessage(spec)
	if done, err := a.plan(ctx, client, message, c.DryRun); done || err != nil {
		return err
	}
	answer, err := client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: message})
	if err != nil {
		return a.refused("create session "+spec.Name, err)
	}
	for _, warning := range answer.Warnings {
		a.note("warning: %s", warning)
	}
	if err := a.sessionDone(answer.Session, nil); err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, a, client, spec.Name)
	}
	return a.done("watch it: pillion session watch %s", spec.Name)
}

func (c *sessionCreateCmd) watch(ctx context.Context, a *app, client *api.Client, name string) error {
	watch := sessionWatchCmd{sessionName: sessionName{name}, By: "pair"}
	if err := watch.Run(ctx, a, client); err != nil {
		return err
	}
	if ctx.Err() != nil {
		a.note("session %s goes on; end it: pillion session stop %s", name, name)
	}
	return nil
}

// plan asks the server what a specification means; it prints that for a dry run,
// and its problems in any case. done says that there is nothing more to do.
func (a *app) plan(ctx context.Context, client *api.Client, spec *pillionv1.SessionSpec, dry bool) (done bool, err error) {
	answer, err := client.Sessions.PlanSession(ctx, &pillionv1.PlanSessionRequest{Spec: spec})
	if err != nil {
		return true, a.refused("plan session "+spec.GetName(), err)
	}
	if len(answer.Problems) > 0 && (!dry || a.format == "table") {
		a.problems(answer.Problems)
	}
	if dry {
		if err := a.showPlan(answer); err != nil {
			return true, err
		}
	}
	if len(answer.Problems) > 0 {
		return true, fmt.Errorf("plan session %s: %w: %d problems", spec.GetName(), errRefused, len(answer.Problems))
	}
	return dry, nil
}

func (a *app) problems(problems []*pillionv1.Problem) {
	for _, p := range problems {
		a.note("%s: %s", cmp.Or(p.Field, "session"), p.Message)
	}
}

// refused shows the problems that came with a refusal, if any.
func (a *app) refused(doing string, err error) error {
	var refusal *connect.Error
	if errors.As(err, &refusal) {
		for _, detail := range refusal.Details() {
			value, err := detail.Value()
			if problem, ok := value.(*pillionv1.Problem); err == nil && ok {
				a.problems([]*pillionv1.Problem{problem})
			}
		}
	}
	return failed(doing, err)
}

func (a *app) showPlan(p *pillionv1.PlanSessionResponse) error {
	steps := newTable(">step", "agent", "action", "description")
	for i, s := range p.Steps {
		steps.add(number(i+1), text(s.Agent), text(s.Action), text(s.Description))
	}
	return a.show(p, steps, func(w io.Writer) error {
		f := facts{}
		f.add("name", p.GetSpec().GetName())
		f.add("pairs", pairNames(p.Pairs))
		specFacts(&f, p.GetSpec())
		for _, start := range p.Starts {
			f.add("start", when(start).shown)
		}
		for _, cost := range p.Costs {
			f.add("cost", cost)
		}
		for _, warning := range p.Warnings {
			f.add("warning", warning)
		}
		return f.write(w, a.color, steps)
	})
}

type sessionChangeCmd struct {
	sessionName
	File string `arg:"" optional:"" predictor:"file" help:"The whole new session as YAML; - is the standard input."`
	specFlags
}

// Help has the examples.
func (sessionChangeCmd) Help() string {
	return `Without FILE the flags change what the session has now. A running session follows without a gap
where it can.

Examples:

  pillion session change web-delay --every 100 --interval 5s
  pillion session change web-delay office.yaml`
}

// Run changes a session.
func (c *sessionChangeCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	spec, err := c.current(ctx, a, client)
	if err != nil {
		return err
	}
	c.apply(&spec)
	if spec.Name != c.Name {
		return fmt.Errorf("change session %s: %w: the file is of session %q", c.Name, errValue, spec.Name)
	}
	message := api.SpecMessage(spec)
	if c.DryRun {
		_, err := a.plan(ctx, client, message, true)
		return err
	}
	answer, err := client.Sessions.ChangeSession(ctx, &pillionv1.ChangeSessionRequest{Spec: message})
	if err != nil {
		return a.refused("change session "+c.Name, err)
	}
	for _, warning := range answer.Warnings {
		a.note("warning: %s", warning)
	}
	return a.sessionDone(answer.Session, nil)
}

// current is what the flags change: the file, or the session as it is.
func (c *sessionChangeCmd) current(ctx context.Context, a *app, client *api.Client) (session.Spec, error) {
	if c.File != "" {
		spec, err := readSpec(c.File, a.in)
		spec.Name = cmp.Or(spec.Name, c.Name)
		return spec, err
	}
	answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: c.Name})
	if err != nil {
		return session.Spec{}, failed("change session "+c.Name, err)
	}
	spec, problems := api.SpecOf(answer.GetSession().GetSpec())
	for _, problem := range problems {
		return spec, fmt.Errorf("change session %s: %w: %v", c.Name, errValue, problem)
	}
	return spec, nil
}
