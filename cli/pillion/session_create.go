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

// specFlags modify a specification; options that are not given leave it unchanged.
type specFlags struct {
	From     []string           `placeholder:"AGENT" predictor:"agent" help:"Sources: agents by name, by label (KEY=VALUE or KEY), or * for all."`
	To       []string           `placeholder:"AGENT" predictor:"agent" help:"Destinations, in the same form."`
	Both     *bool              `negatable:"" help:"Measure each pair in both directions."`
	Modules  []string           `placeholder:"LIST" help:"What to measure: delay, loss; default: both."`
	Encoding *string            `placeholder:"NAME" help:"Encoding of marks in IPv4: one of ${encodings}; default: ${encoding}."`
	Family   *string            `placeholder:"NAME" help:"Address family: ipv4, ipv6 or any (default)."`
	Filter   []fivetuple.Filter `sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional. Repeatable: a packet has to match one rule."`
	Every    *uint32            `placeholder:"N" help:"Mark one packet in N, by count."`
	Random   *uint32            `placeholder:"N" help:"Mark one packet in N, at random."`
	MinGap   *time.Duration     `placeholder:"TIME" help:"Mark at most one packet in this time, such as 100us."`
	Interval *time.Duration     `placeholder:"TIME" help:"Interval covered by a row; default: 1s."`
	By       *string            `placeholder:"NAME" help:"Aggregation of rows: flow (default), host-port or host."`
	Records  *bool              `negatable:"" help:"Also write one row per packet, to the stream packets."`
	Device   map[string]string  `placeholder:"AGENT=DEV" help:"Network interface of an agent; default: that of the route."`
	Lease    *time.Duration     `placeholder:"TIME" help:"Keep marking this long without a heartbeat; default: 10s."`
	Trace    *time.Duration     `placeholder:"TIME" help:"Interval between path traces; default: 1m; negative disables tracing."`
	Router   []string           `sep:"none" placeholder:"AGENT" predictor:"agent" help:"Profile the forwarding delays of this router while the session runs. Repeatable."`
	Point    []pointFlag        `sep:"none" placeholder:"POINT" help:"Measure an additional point, NAME[:OPTION=VALUE,...][@AGENT,...]; see pillion session points. Repeatable."`
	Start    *moment            `placeholder:"TIME" help:"First start; default: now."`
	Duration *time.Duration     `placeholder:"TIME" help:"Duration of a run; default: until stopped."`
	Cron     *string            `placeholder:"LINE" help:"Start on a cron schedule with five fields, such as '0 9 * * 1-5'."`
	TZ       *string            `name:"tz" placeholder:"ZONE" help:"Time zone of the cron schedule, such as Europe/Berlin; default: UTC."`
	DryRun   bool               `help:"Print the plan without carrying it out."`
}

// apply sets the given flags in the specification.
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
	File string `arg:"" optional:"" predictor:"file" help:"YAML file with the session; - is standard input. Options take precedence over it."`
	Name string `placeholder:"NAME" help:"Name of the session; default: from the file, or session-TIME."`
	specFlags
	Watch bool `help:"Watch the session once it is created. Interrupting the watch does not stop the session."`
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
	return a.done("watch it with: pillion session watch %s", spec.Name)
}

func (c *sessionCreateCmd) watch(ctx context.Context, a *app, client *api.Client, name string) error {
	watch := sessionWatchCmd{sessionName: sessionName{name}, By: "pair"}
	if err := watch.Run(ctx, a, client); err != nil {
		return err
	}
	if ctx.Err() != nil {
		a.note("session %s is still running; stop it with: pillion session stop %s", name, name)
	}
	return nil
}

// plan asks the server to plan a specification. It prints the plan for a dry run and
// problems in any case; done reports that there is nothing more to do.
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

// refused prints the problems that the server returned with an error.
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
	File string `arg:"" optional:"" predictor:"file" help:"YAML file with the complete new session; - is standard input."`
	specFlags
}

// Help has the examples.
func (sessionChangeCmd) Help() string {
	return `Without FILE, the options modify the current specification. A running session adopts changes without
interruption where possible.

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
		return fmt.Errorf("change session %s: %w: the file describes session %q", c.Name, errValue, spec.Name)
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
