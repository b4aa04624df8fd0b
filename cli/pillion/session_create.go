package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"time"

	"connectrpc.com/connect"
	"github.com/alecthomas/kong"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/command"
	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

// specFlags modify a specification; options that are not given leave it unchanged.
type specFlags struct {
	session.Spec `embed:""`
	DryRun       bool `help:"Print the plan without carrying it out."`
}

// apply sets the given flags in the specification. Entries of maps are added to the existing ones.
func (f *specFlags) apply(line *kong.Context, s *session.Spec) error {
	f.Spec = *s
	if _, err := line.Apply(); err != nil { // flags that are not given leave their fields alone
		return err
	}
	f.Device, f.Transit = joined(s.Device, f.Device), joined(s.Transit, f.Transit)
	*s = f.Spec
	return nil
}

// joined has the entries of both maps; entries of the second one take precedence.
func joined(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}

// decodePoint reads a point as session.ParsePoint does.
func decodePoint(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := command.Pop(ctx)
	if err != nil {
		return err
	}
	request, err := session.ParsePoint(text)
	target.Set(reflect.ValueOf(request))
	return err
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
func (c *sessionCreateCmd) Run(ctx context.Context, line *kong.Context, a *app, client *api.Client) error {
	var spec session.Spec
	if c.File != "" {
		var err error
		if spec, err = readSpec(c.File, a.in); err != nil {
			return err
		}
	}
	if err := c.apply(line, &spec); err != nil {
		return err
	}
	spec.Name = cmp.Or(c.Name, spec.Name, "session-"+time.Now().UTC().Format("20060102-150405"))
	message := api.SpecMessage(spec)
	if c.DryRun {
		return a.plan(ctx, client, message)
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

// plan asks the server to plan a specification, and prints the plan and its problems.
func (a *app) plan(ctx context.Context, client *api.Client, spec *pillionv1.SessionSpec) error {
	answer, err := client.Sessions.PlanSession(ctx, &pillionv1.PlanSessionRequest{Spec: spec})
	if err != nil {
		return a.refused("plan session "+spec.GetName(), err)
	}
	if len(answer.Problems) > 0 && a.format == "table" {
		a.problems(answer.Problems)
	}
	if err := a.showPlan(answer); err != nil {
		return err
	}
	if len(answer.Problems) > 0 {
		return fmt.Errorf("plan session %s: %w: %s", spec.GetName(), ErrRefused, quantity.Count(len(answer.Problems), "error"))
	}
	return nil
}

func (a *app) problems(problems []*pillionv1.Problem) {
	for _, p := range problems {
		a.note("%s: %s", cmp.Or(p.Field, "session"), p.Message)
	}
}

// refused prints the problems that the server returned with an error.
func (a *app) refused(doing string, err error) error {
	var refusal *connect.Error
	var problems []*pillionv1.Problem
	if errors.As(err, &refusal) {
		for _, detail := range refusal.Details() {
			value, err := detail.Value()
			if problem, ok := value.(*pillionv1.Problem); err == nil && ok {
				problems = append(problems, problem)
			}
		}
	}
	if len(problems) > 0 {
		a.problems(problems)
		return fmt.Errorf("%s: %w: %s", doing, ErrRefused, quantity.Count(len(problems), "error"))
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
func (c *sessionChangeCmd) Run(ctx context.Context, line *kong.Context, a *app, client *api.Client) error {
	before, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: c.Name})
	if err != nil {
		return failed("change session "+c.Name, err)
	}
	spec, err := c.current(a, before.GetSession().GetSpec())
	if err != nil {
		return err
	}
	if err := c.apply(line, &spec); err != nil {
		return err
	}
	if spec.Name != c.Name {
		return fmt.Errorf("change session %s: %w: the file describes session %q", c.Name, errValue, spec.Name)
	}
	message := api.SpecMessage(spec)
	if c.DryRun {
		return a.plan(ctx, client, message)
	}
	answer, err := client.Sessions.ChangeSession(ctx, &pillionv1.ChangeSessionRequest{Spec: message})
	if err != nil {
		return a.refused("change session "+c.Name, err)
	}
	for _, warning := range answer.Warnings {
		a.note("warning: %s", warning)
	}
	changes := specChanges(before.GetSession().GetSpec(), answer.GetSession().GetSpec())
	if changes == "" {
		return a.sessionNow("session "+c.Name+" is unchanged; it", answer.Session, nil)
	}
	return a.sessionNow("session "+c.Name+" changed: "+changes+"; it", answer.Session, nil)
}

// current returns the specification that the flags change: the file, or the session's.
func (c *sessionChangeCmd) current(a *app, before *pillionv1.SessionSpec) (session.Spec, error) {
	if c.File != "" {
		spec, err := readSpec(c.File, a.in)
		spec.Name = cmp.Or(spec.Name, c.Name)
		return spec, err
	}
	spec, problems := api.SpecOf(before)
	for _, problem := range problems {
		return spec, fmt.Errorf("change session %s: %w: %v", c.Name, errValue, problem)
	}
	return spec, nil
}
