package loader

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pillion.dev/agent/hops"
	"pillion.dev/agent/policy"
	"pillion.dev/agent/runner"
	"pillion.dev/measure"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/trace"
)

// tracer traces the paths that sessions request, each at its own interval.
type tracer struct {
	policy *policy.Policy
	sink   runner.Sink
	log    *slog.Logger

	mu      sync.Mutex
	running map[session.TraceTask]context.CancelFunc
	done    map[session.TraceTask]*traced
	tasks   sync.WaitGroup
	// slots bounds concurrent traces.
	slots chan struct{}
}

type traced struct {
	runs, failed uint64
	err          string
}

// Routers limit ICMP errors to a few a second per host.
const concurrentTraces = 1

func newTracer(sink runner.Sink, allowed *policy.Policy, log *slog.Logger) *tracer {
	if allowed == nil {
		allowed = policy.Default()
	}
	return &tracer{policy: allowed,
		sink: sink, log: log, running: map[session.TraceTask]context.CancelFunc{},
		done: map[session.TraceTask]*traced{}, slots: make(chan struct{}, concurrentTraces),
	}
}

// apply starts new tasks and stops those no longer assigned.
func (t *tracer) apply(ctx context.Context, tasks []session.TraceTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for task, cancel := range t.running {
		if !slices.Contains(tasks, task) {
			cancel()
			delete(t.running, task)
			delete(t.done, task)
		}
	}
	for _, task := range tasks {
		if t.running[task] != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		t.running[task], t.done[task] = cancel, &traced{}
		t.tasks.Go(func() { t.repeat(own, task) })
	}
}

func (t *tracer) repeat(ctx context.Context, task session.TraceTask) {
	ticks := time.NewTicker(max(time.Duration(task.Every), time.Second))
	defer ticks.Stop()
	for {
		result := t.once(ctx, task)
		t.mu.Lock()
		if done := t.done[task]; done != nil {
			done.runs++
			if done.err = result.Error; result.Error != "" {
				done.failed++
			}
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// once traces a path and emits its hops.
func (t *tracer) once(ctx context.Context, task session.TraceTask) session.TraceResult {
	failed := func(err error) session.TraceResult {
		return session.TraceResult{Time: time.Now(), Address: task.Address, Protocol: task.Protocol, Error: err.Error()}
	}
	if err := t.policy.Trace(task); err != nil {
		return failed(err)
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return failed(ctx.Err())
	}
	destination, err := netip.ParseAddr(task.Address)
	if err != nil {
		return failed(err)
	}
	path, err := trace.Trace(ctx, trace.Options{Destination: destination, Protocol: task.Protocol, Mark: source.ProbeMark})
	if err != nil {
		if ctx.Err() == nil {
			t.log.Warn("trace path", "to", task.Address, "error", err)
		}
		return failed(err)
	}
	for _, sample := range trace.Samples(&path, task.Session, task.Peer) {
		t.sink(&measure.Hops, sample)
	}
	return hops.Result(&path)
}

// states returns the state of each task.
func (t *tracer) states() []session.TaskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	var states []session.TaskState
	for task, done := range t.done {
		states = append(states, session.TaskState{
			Session: task.Session, Role: "trace", Device: task.Address, Running: done.err == "", Error: done.err,
			Counters: map[string]uint64{"traces": done.runs, "failed": done.failed},
		})
	}
	slices.SortFunc(states, func(a, b session.TaskState) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Device, b.Device))
	})
	return states
}

func (t *tracer) close() {
	t.mu.Lock()
	for _, cancel := range t.running {
		cancel()
	}
	t.mu.Unlock()
	t.tasks.Wait()
}
