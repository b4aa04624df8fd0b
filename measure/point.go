package measure

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Point is where samples of one schema are injected. Every measurement is a point.
type Point struct {
	schema *Schema

	mu      sync.Mutex // serialises changes
	unnamed int
	// windows says that a sample's time is the end of a window.
	windows bool
	// Inject reads the subscriptions without a lock: a change replaces the list.
	subscriptions atomic.Pointer[[]*Subscription]
}

// Schema of the samples.
func (p *Point) Schema() *Schema { return p.schema }

// NewPoint returns a point without subscriptions, which discards its samples.
func NewPoint(schema *Schema) (*Point, error) {
	if err := schema.Validate(); err != nil {
		return nil, fmt.Errorf("make point: %w", err)
	}
	return &Point{schema: schema}, nil
}

// Inject passes a sample to every pipeline. Without any it returns at once and does not
// check the sample. ErrSample means that the sample does not fit the schema and no
// pipeline received it; any other error comes from a sink.
func (p *Point) Inject(sample Sample) error {
	list := p.subscriptions.Load()
	if list == nil || len(*list) == 0 {
		return nil
	}
	if err := p.schema.Check(sample); err != nil {
		return fmt.Errorf("inject at point %q: %w", p.schema.Name, err)
	}
	return p.inject(sample)
}

// inject passes on a sample that was checked.
func (p *Point) inject(sample Sample) error {
	list := p.subscriptions.Load()
	if list == nil {
		return nil
	}
	var errs []error
	for _, s := range *list {
		if err := s.take(sample); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RowSink takes the rows of one pipeline, one at a time, each valid until it
// returns. It must not use the subscription.
type RowSink func(schema *Schema, row Sample) error

// SubscriptionCounts count the samples of one pipeline by their fate.
type SubscriptionCounts struct {
	// Samples came in and Rows went out; for Failed of them the sink returned an error.
	Samples, Rows, Failed uint64
	// Overflowed samples were dropped, because there were too many groups.
	Overflowed uint64
	// Late samples were put into the window after theirs.
	Late uint64
	// Saturated values are the nearest that their column can hold.
	Saturated uint64
}

// Subscription is one subscriber's pipeline at a point.
type Subscription struct {
	point  *Point
	schema *Schema
	sink   RowSink
	stream *Stream // that the subscription owns, or nil

	mu      sync.Mutex // guards the following
	windows *windows   // nil without filters
	counts  SubscriptionCounts
	ended   bool

	stop    chan struct{}
	stopped sync.WaitGroup
}

// SubscribeStream gathers the rows of a pipeline into batches. The stream belongs
// to the subscription, and Cancel closes it.
func (p *Point) SubscribeStream(pipeline Pipeline, options StreamOptions, sink BatchSink) (*Subscription, error) {
	return p.subscribe(pipeline, func(s *Subscription) error {
		stream, err := NewStream(s.schema, options, sink)
		s.stream = stream
		// Rows have the types of the schema already: samples were checked, and
		// windows produce no others.
		s.sink = func(_ *Schema, row Sample) error { return stream.appendChecked(row) }
		return err
	})
}

// Derive returns a point whose samples are the rows of a pipeline, so that filters
// chain: sums over a second, then their average over a minute. Cancel subscriptions in
// the order in which they were made: the last rows of one are samples of the next.
func (p *Point) Derive(pipeline Pipeline) (*Point, *Subscription, error) {
	derived := &Point{}
	s, err := p.subscribe(pipeline, func(s *Subscription) error {
		derived.schema, derived.windows = s.schema, pipeline.Every > 0
		s.sink = func(_ *Schema, row Sample) error { return derived.inject(row) }
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return derived, s, nil
}

func (p *Point) subscribe(pipeline Pipeline, attach func(*Subscription) error) (*Subscription, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pipeline.Name == "" {
		pipeline.Name = p.schema.Name
		if len(pipeline.Filters) > 0 {
			pipeline.Name = fmt.Sprintf("%s_%d", p.schema.Name, p.unnamed+1)
		}
	}
	pipeline.OfWindows = pipeline.OfWindows || p.windows && len(pipeline.Filters) > 0
	plan, err := pipeline.plan(p.schema)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{point: p, schema: plan.schema, stop: make(chan struct{})}
	if err := attach(s); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if len(plan.Filters) > 0 {
		s.windows = newWindows(plan, s.hand)
	}
	if plan.Every > 0 {
		s.stopped.Go(s.run)
	}
	if pipeline.Name == fmt.Sprintf("%s_%d", p.schema.Name, p.unnamed+1) {
		p.unnamed++
	}
	p.change(func(list []*Subscription) []*Subscription { return append(list, s) })
	return s, nil
}

func (p *Point) change(edit func([]*Subscription) []*Subscription) {
	var list []*Subscription
	if old := p.subscriptions.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = edit(list)
	p.subscriptions.Store(&list)
}

func (s *Subscription) take(sample Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.counts.Samples++
	if s.windows == nil {
		return s.hand(sample)
	}
	return s.windows.add(sample)
}

// hand passes one row to the sink.
func (s *Subscription) hand(row Sample) error {
	s.counts.Rows++
	if err := s.sink(s.schema, row); err != nil {
		s.counts.Failed++
		return fmt.Errorf("hand over row of %q: %w", s.schema.Name, err)
	}
	return nil
}

// run ends windows by the wall clock. An error of the sink is counted by hand.
func (s *Subscription) run() {
	ticker := time.NewTicker(s.windows.period())
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.mu.Lock()
			_ = s.windows.tick()
			s.mu.Unlock()
		}
	}
}

// flush turns the open windows into rows.
func (s *Subscription) flush() error {
	if s.windows == nil || s.ended {
		return nil
	}
	return s.windows.flush()
}

// Cancel ends the subscription after a last flush. When it returns, the sink will
// not be called again.
func (s *Subscription) Cancel() error {
	s.point.mu.Lock()
	s.point.change(func(list []*Subscription) []*Subscription {
		return slices.DeleteFunc(list, func(other *Subscription) bool { return other == s })
	})
	s.point.mu.Unlock()
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	err := s.flush()
	s.ended = true
	close(s.stop)
	s.mu.Unlock()
	s.stopped.Wait()
	if s.stream != nil {
		err = errors.Join(err, s.stream.Close())
	}
	return err
}

// Counts are those since the subscription began.
func (s *Subscription) Counts() SubscriptionCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	if s.windows != nil {
		counts.Overflowed, counts.Late, counts.Saturated = s.windows.overflowed, s.windows.late, s.windows.saturated
	}
	return counts
}
