package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/measure"
	"pillion.dev/session"
)

// Point measures one point of package measure/point for all sessions that need it on this
// host.
type Point interface {
	// Apply makes it do exactly these tasks; unchanged ones are not interrupted.
	Apply(tasks []session.PointTask)
	// States has one state for each task; Session, Role and Running or Error are set.
	States() []session.TaskState
	// Close emits the remaining samples and ends all tasks.
	Close() error
}

var factories = struct {
	sync.RWMutex
	byPoint map[string]func(Options) Point
}{byPoint: map[string]func(Options) Point{}}

// Register adds the code that measures a point, by the name of its descriptor.
func Register(name string, open func(Options) Point) {
	factories.Lock()
	defer factories.Unlock()
	factories.byPoint[name] = open
}

func factoryOf(name string) func(Options) Point {
	factories.RLock()
	defer factories.RUnlock()
	return factories.byPoint[name]
}

var (
	errNoPulse = errors.New("no pulse from the server")
	errPoint   = errors.New("this agent cannot measure it")
)

// runPoints starts and stops points, so that the points of the host's own configuration run, and the points of
// sessions until their lease expires.
func (r *Runner) runPoints() {
	wanted := map[string][]session.PointTask{}
	silence := r.now().steady - r.lastMessage
	for _, task := range slices.Concat(r.options.Points, r.allowed) {
		switch {
		case factoryOf(task.Point) == nil:
			r.fail(task.Point, task.Session, "", fmt.Errorf("point %s: %w", task.Point, errPoint))
		case task.Lease != session.Forever && silence > time.Duration(task.Lease):
			r.fail(task.Point, task.Session, "", fmt.Errorf("%w for %v", errNoPulse, silence.Round(time.Second)))
		default:
			wanted[task.Point] = append(wanted[task.Point], task)
		}
	}
	for name, point := range r.points {
		if len(wanted[name]) == 0 {
			r.report(name, "", point.Close())
			delete(r.points, name)
		}
	}
	for name, tasks := range wanted {
		if r.points[name] == nil {
			r.points[name] = factoryOf(name)(r.options)
		}
		r.points[name].Apply(tasks)
	}
}

// PerTask makes a Point from a function that measures one task until its context ends. A
// function that returns an error is called again after retryAfter; the error is the task's
// state until it emits a sample.
func PerTask(run func(ctx context.Context, task session.PointTask, sink Sink) error) func(Options) Point {
	return func(options Options) Point { return &perTask{options: options, run: run} }
}

type perTask struct {
	options Options
	run     func(context.Context, session.PointTask, Sink) error
	tasks   []*runningTask
}

type runningTask struct {
	session.PointTask
	stop  context.CancelFunc
	ended chan struct{}
	rows  atomic.Uint64
	fault atomic.Pointer[error]

	mu       sync.Mutex
	counters map[string]uint64 // sums of counters in its rows
}

// sentCounters are columns of the stream send whose sums are counters of the task.
var sentCounters = []string{"scheduled", "sent", "late", "late_dropped", "cancelled", "failed"}

// count adds up the counters of a row.
func (t *runningTask) count(schema *measure.Schema, sample measure.Sample) {
	t.rows.Add(1)
	if schema != &measure.Send {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, field := range schema.Fields {
		if slices.Contains(sentCounters, field.Name) {
			t.counters[field.Name] += sample[i].Uint64()
		}
	}
}

// Apply implements Point.
func (p *perTask) Apply(tasks []session.PointTask) {
	before := p.tasks
	p.tasks = nil
	for _, task := range tasks {
		i := slices.IndexFunc(before, func(t *runningTask) bool { return reflect.DeepEqual(t.PointTask, task) })
		if i >= 0 {
			p.tasks = append(p.tasks, before[i])
			before = slices.Delete(before, i, i+1)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		t := &runningTask{PointTask: task, stop: cancel, ended: make(chan struct{}), counters: map[string]uint64{}}
		p.tasks = append(p.tasks, t)
		go p.repeat(ctx, t)
	}
	stop(before)
}

func stop(tasks []*runningTask) {
	for _, t := range tasks {
		t.stop()
	}
	for _, t := range tasks {
		<-t.ended
	}
}

// retryAfter is the delay before a failed task is retried.
const retryAfter = 5 * time.Second

func (p *perTask) repeat(ctx context.Context, t *runningTask) {
	defer close(t.ended)
	sink := func(schema *measure.Schema, sample measure.Sample) {
		t.count(schema, sample)
		t.fault.Store(nil)
		p.options.Sink(schema, sample)
	}
	for ctx.Err() == nil {
		if err := p.run(ctx, t.PointTask, sink); err != nil && ctx.Err() == nil {
			t.fault.Store(&err)
			p.options.Log.Warn("measure point", "point", t.Point, "session", t.Session, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// States implements Point.
func (p *perTask) States() []session.TaskState {
	var states []session.TaskState
	for _, t := range p.tasks {
		t.mu.Lock()
		counters := maps.Clone(t.counters)
		t.mu.Unlock()
		counters["rows"] = t.rows.Load()
		state := session.TaskState{Session: t.Session, Role: t.Point, Running: true, Counters: counters}
		if fault := t.fault.Load(); fault != nil {
			state.Running, state.Error = false, (*fault).Error()
		}
		states = append(states, state)
	}
	return states
}

// Close implements Point.
func (p *perTask) Close() error {
	stop(p.tasks)
	return nil
}

// pointStates returns the states of all points, sorted by name.
func (r *Runner) pointStates() []session.TaskState {
	var states []session.TaskState
	for _, name := range slices.Sorted(maps.Keys(r.points)) {
		states = append(states, r.points[name].States()...)
	}
	return states
}
