// Package task sends the packets of sessions on an agent, within the host's policy: the code of
// the point send.
package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/agent/policy"
	"pillion.dev/agent/runner"
	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/sender"
	"pillion.dev/send/traffic"
	"pillion.dev/session"
)

func init() {
	runner.Register(traffic.Point.Name, func(options runner.Options) runner.Point {
		return runner.PerTask(sending{options}.run)(options)
	})
}

// sending sends the packets of sessions, within the host's policy.
type sending struct{ options runner.Options }

// run sends the packets of a task, and a row each interval.
func (s sending) run(ctx context.Context, task session.PointTask, sink runner.Sink) error {
	t, err := traffic.Parse(task.Options)
	if err != nil {
		return err
	}
	if len(task.Peers) != 1 {
		return fmt.Errorf("send: %d destinations, want 1", len(task.Peers))
	}
	device, to, err := runner.Unicast(task.Peers[0])
	if err != nil {
		return err
	}
	release, err := s.options.Policy.Admit(policy.Request{
		Target: to, Protocol: t.Protocol(), BitsPerSecond: t.Limit.BitsPerSecond, PacketsPerSecond: t.Limit.PacketsPerSecond,
	})
	if err != nil {
		return err
	}
	defer release()
	r := &sentRows{task: task, traffic: t, to: to, sink: sink, account: send.NewAccount(t.Late)}
	if err := r.send(ctx, device, s.options); err != nil {
		return fmt.Errorf("send to %s by %s: %w", task.Peers[0].Agent, device, err)
	}
	<-ctx.Done() // the schedule has ended
	return nil
}

// sentRows sends for one task and makes its rows.
type sentRows struct {
	task    session.PointTask
	traffic *traffic.Traffic
	to      netip.Addr
	sink    runner.Sink

	sender dispatch.Sender
	header *frame.Header
	clock  clock.Follower

	mu      sync.Mutex
	account *send.Account
}

// send sends until the schedule or the context ends.
func (r *sentRows) send(ctx context.Context, device string, options runner.Options) (err error) {
	h, err := r.traffic.Header(r.to)
	if err != nil {
		return err
	}
	if err := send.Address(h, device); err != nil {
		return err
	}
	r.header = h
	packets, err := r.traffic.Schedule()
	if err != nil {
		return err
	}
	if _, err = r.clock.Follow(); err != nil {
		return err
	}
	r.sender, err = dispatch.Open(dispatch.Options{Device: device, Mechanism: r.traffic.Mechanism, Lead: sendLead, DropLate: r.traffic.DropLate})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	var rows sync.WaitGroup
	rows.Go(func() { options.Periods(time.Duration(r.task.Interval), ended, r.emit) })
	job := send.Job{
		Schedule: packets, Headers: map[string]*frame.Header{"": h}, Check: r.traffic.Limit.Check(), Delay: r.traffic.Delay,
	}
	err = send.Run(ctx, r.sender, job, r.take)
	close(ended)
	rows.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil // which is how a task ends
	}
	return errors.Join(err, r.sender.Close())
}

// sendLead is the pre-dispatch period: what is on its way when a task ends is cancelled.
const sendLead = 100 * time.Millisecond

// take counts a packet, and reports it if asked.
func (r *sentRows) take(record dispatch.Record) {
	r.mu.Lock()
	r.account.Add(record)
	late := r.account.IsLate(record)
	r.mu.Unlock()
	if r.traffic.Packets {
		owner := sender.Owner{Session: r.task.Session, Destination: r.task.Peers[0].Agent, Header: r.header}
		r.sink(&measure.SendPackets, sender.PacketRow(owner, record, nil, late, r.clock.Recent()))
	}
}

// emit makes the row of a period, by when it ended and how long it was.
func (r *sentRows) emit(at time.Time, length time.Duration) {
	r.mu.Lock()
	sum := r.account.Cut()
	r.mu.Unlock()
	floats := func(known bool, values ...float64) []measure.Value {
		cells := make([]measure.Value, len(values))
		for i, v := range values {
			if known {
				cells[i] = measure.Float64Value(v)
			}
		}
		return cells
	}
	text := func(s string) measure.Value {
		if s == "" {
			return measure.Value{}
		}
		return measure.StringValue(s)
	}
	lateness, distance := sum.Lateness, sum.Interdeparture
	sample := measure.Sample{
		measure.TimeValue(at), measure.StringValue(r.task.Session), measure.StringValue(r.task.Peers[0].Agent), measure.StringValue(r.to.String()),
		measure.StringValue(r.traffic.String()), measure.Int64Value(int64(length)),
		measure.Uint64Value(sum.Scheduled), measure.Uint64Value(sum.Sent), measure.Uint64Value(sum.Late), measure.Uint64Value(sum.LateDropped),
		measure.Uint64Value(sum.Cancelled), measure.Uint64Value(sum.Failed), text(failures(sum.Failures)), measure.Uint64Value(sum.Bytes),
	}
	sample = append(sample, floats(sum.BitsPerSecond > 0, sum.BitsPerSecond)...)
	sample = append(sample, floats(sum.Asked > 0, sum.Asked)...)
	sample = append(sample, floats(!lateness.Histogram.Empty(), lateness.P50, lateness.P99, lateness.Max)...)
	sample = append(sample, floats(!distance.Histogram.Empty(), distance.P50, distance.P99, distance.Max)...)
	sample = append(sample, measure.StringValue(r.sender.Name()), text(strings.Join(r.sender.Remarks(), "; ")))
	r.sink(&measure.Send, sample)
}

// failures lists causes with their counts, the most frequent first.
func failures(causes map[string]uint64) string {
	var texts []string
	for _, cause := range slices.SortedFunc(maps.Keys(causes), func(a, b string) int {
		return cmp.Or(cmp.Compare(causes[b], causes[a]), strings.Compare(a, b))
	}) {
		texts = append(texts, fmt.Sprintf("%s (%d)", cause, causes[cause]))
	}
	return strings.Join(texts, "; ")
}
