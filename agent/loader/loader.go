// Package loader is the privileged part of an agent: it runs the tasks of sessions with
// BPF programs and raw sockets, within the policy of the host, traces paths, captures packets
// and reads the clock. It passes what is measured to a sink.
//
// It does not speak to a server, and parses nothing from the network but what package
// session describes, which the unprivileged part of the agent (package service) hands on.
// That part may run in another process, which is not trusted: Serve and Remote are the two
// ends of a link to it.
package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/agent/doctor"
	"pillion.dev/agent/host"
	"pillion.dev/agent/policy"
	"pillion.dev/agent/runner"
	"pillion.dev/internal/machine"
	"pillion.dev/internal/version"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// Options of a Loader. They come from the configuration of the host, never from a server.
type Options struct {
	Sink runner.Sink
	Log  *slog.Logger
	// Points are measured independently of sessions.
	Points []session.PointTask
	// ValidatePaths marks packets to a peer only after path validation.
	ValidatePaths bool
	// ProveAddresses marks packets to a peer only while it proves its address.
	ProveAddresses bool
	// Policy is what the host allows; nil: the default policy.
	Policy *policy.Policy
	// Captures are devices whose packet headers are reported.
	Captures []Capture
	// Interval at which the clock, and the counters of captures, are reported.
	Interval time.Duration
	// ReportClock: the clock is a point of this agent; it is read in any case.
	ReportClock bool
	// Folder of the spool, whose disk the doctor checks.
	Folder string
	// TokenFile has the token of the Kubernetes API, which the kubelet lets only root read; empty: the
	// API is not used.
	TokenFile string
}

// Loader is what sessions make the host do.
type Loader struct {
	options Options
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	parts   sync.WaitGroup

	runner   *runner.Runner
	tracer   *tracer
	sampler  *host.Sampler
	applying sync.Mutex
	// unknown are the tasks of the assignment that require a newer agent.
	unknown atomic.Pointer[[]session.TaskState]
	closing sync.Once
	closed  error
}

// New starts a Loader without an assignment.
func New(options Options) *Loader {
	l := &Loader{options: options, log: options.Log}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.runner = runner.New(runner.Options{
		Sink: options.Sink, Log: options.Log, Points: options.Points, ValidatePaths: options.ValidatePaths,
		ProveAddresses: options.ProveAddresses, Policy: options.Policy,
	})
	l.tracer = newTracer(options.Sink, options.Policy, options.Log)
	points := []*measure.Schema{}
	if options.ReportClock {
		points = append(points, &measure.Clock)
	}
	l.sampler = &host.Sampler{Interval: options.Interval, Sink: l.samples, Log: options.Log, Points: points}
	for _, part := range []func(context.Context){
		l.runner.Run, l.capture, func(ctx context.Context) { _ = l.sampler.Run(ctx) },
	} {
		l.parts.Go(func() { part(l.ctx) })
	}
	return l
}

func (l *Loader) samples(schema *measure.Schema, samples []measure.Sample) error {
	for _, sample := range samples {
		l.options.Sink(schema, sample)
	}
	return nil
}

// requestMax bounds a request, bytes; the bus has no larger messages.
const requestMax = 8 << 20

// ErrRequest marks a request that is not carried out.
var ErrRequest = errors.New("read request")

// Serve answers a request of the server, a session.Request.
func (l *Loader) Serve(ctx context.Context, text []byte) ([]byte, error) {
	request, refused, err := parseRequest(text)
	if err != nil {
		return nil, err
	}
	var reply session.Reply
	switch {
	case request.Apply != nil:
		reply.Tasks = l.apply(*request.Apply, request.Pulse, refused)
	case request.Trace != nil:
		result := l.tracer.once(ctx, *request.Trace)
		reply.Trace, reply.Error = &result, result.Error
	case request.Doctor != nil:
		reply.Doctor = l.examine(ctx, request.Doctor.Peers)
	case request.Describe != nil:
		reply.Facts = machine.Read(request.Describe.Devices...)
		reply.Facts["version"] = version.String()
	case request.Sent != nil:
		l.runner.Settle(request.Sent)
	}
	return json.Marshal(reply)
}

// examine checks the host, and the paths to those peers that the policy allows: checks send
// packets, too.
func (l *Loader) examine(ctx context.Context, peers []session.Peer) []session.Check {
	allowed := l.options.Policy
	if allowed == nil {
		allowed = policy.Default()
	}
	permitted, refused := allowed.Permit(peers)
	checks := doctor.Check(ctx, doctor.Options{Peers: permitted, Paths: l.runner.Paths(), Folder: l.options.Folder})
	if refused != nil {
		checks = append(checks, session.Check{
			Name: "peers", Level: doctor.Warning, Found: refused.Error(), Advice: "paths to these peers are not checked; change the policy of this host if they should be",
		})
	}
	return checks
}

// parseRequest accepts a request of a bounded size.
func parseRequest(text []byte) (request session.Request, refused []session.TaskState, err error) {
	if len(text) > requestMax {
		return request, nil, fmt.Errorf("%w: %d bytes, limit %d", ErrRequest, len(text), requestMax)
	}
	if request, refused, err = session.ReadRequest(text); err != nil {
		return request, nil, err
	}
	if len(request.Sent) > session.SentReportsMax || sentFlows(request.Sent) > session.SentFlowsMax {
		return request, nil, fmt.Errorf("%w: %d reports of %d flows, limits %d and %d", ErrRequest,
			len(request.Sent), sentFlows(request.Sent), session.SentReportsMax, session.SentFlowsMax)
	}
	if request.Apply == nil && request.Trace == nil && request.Doctor == nil && request.Describe == nil && request.Sent == nil {
		return request, nil, fmt.Errorf("%w: unknown kind", ErrRequest)
	}
	return request, refused, nil
}

func sentFlows(reports []session.SentReport) (flows int) {
	for _, report := range reports {
		flows += len(report.Flows)
	}
	return flows
}

// apply runs an assignment, of which this version does not know the refused tasks, and grants the first lease,
// which may be nil. The server repeats whatever it finds not in effect.
func (l *Loader) apply(assignment session.Assignment, lease *session.Pulse, refused []session.TaskState) []session.TaskState {
	l.applying.Lock()
	defer l.applying.Unlock()
	for _, task := range refused {
		l.log.Warn("task refused", "session", task.Session, "role", task.Role, "reason", task.Error)
	}
	l.unknown.Store(&refused)
	tasks := l.runner.Apply(assignment, lease)
	l.tracer.apply(l.ctx, assignment.Traces)
	return append(append(tasks, l.tracer.states()...), refused...)
}

// refused returns the tasks of the assignment that this version does not know.
func (l *Loader) refused() []session.TaskState {
	if tasks := l.unknown.Load(); tasks != nil {
		return *tasks
	}
	return nil
}

// Pulse handles the heartbeat of the server, a session.Pulse, about once a second.
func (l *Loader) Pulse(text []byte) {
	var pulse session.Pulse
	err := fmt.Errorf("%d bytes, limit %d", len(text), requestMax)
	if len(text) <= requestMax {
		err = json.Unmarshal(text, &pulse)
	}
	if err != nil {
		l.log.Warn("read pulse", "error", err)
		return
	}
	if pulse.Notice != "" {
		l.log.Warn("refused by the server", "reason", pulse.Notice)
	}
	l.runner.Pulse(pulse)
}

// Tell sets what the unprivileged part knows of the agent and its server.
func (l *Loader) Tell(self runner.Self) { l.runner.Tell(self) }

// Status is what the unprivileged part reports of the privileged one.
type Status struct {
	Revision uint64              `json:"revision"`
	Tasks    []session.TaskState `json:"tasks,omitempty"`
	Clock    session.Clock       `json:"clock"`
	// Cost of the BPF programs; nil if the kernel does not count it.
	Cost *hook.Cost `json:"cost,omitempty"`
	// Usage of a process of its own; nil in the same process.
	Usage *host.Usage `json:"usage,omitempty"`
}

// Status of the tasks, the clock and the programs.
func (l *Loader) Status() (Status, error) {
	status := Status{Revision: l.runner.Revision(), Clock: l.sampler.Clock()}
	status.Tasks = append(append(l.runner.States(), l.tracer.states()...), l.refused()...)
	if cost, counted := l.runner.Cost(); counted {
		status.Cost = &cost
	}
	return status, nil
}

// Close ends all tasks. The last rows have been passed on when it returns.
func (l *Loader) Close() error {
	l.closing.Do(func() {
		l.cancel()
		l.parts.Wait()
		l.tracer.close()
		l.closed = l.runner.Close()
	})
	return l.closed
}
