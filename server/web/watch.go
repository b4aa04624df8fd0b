package web

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/skew"
	"pillion.dev/server/live"
)

const (
	pairsBuffer = 1024 // batches
	watchBuffer = 256  // batches
	// watchAlive is the time without changes after which an empty message is sent.
	watchAlive = 4 * time.Second
	// watchPause is the minimum time between two messages, except those with a new
	// window.
	watchPause = 250 * time.Millisecond
	// lackTimeout limits the query for the beginning of the first windows.
	lackTimeout = 5 * time.Second
)

// followPairs keeps the figures of all pairs until the context ends.
func followPairs(ctx context.Context, to *live.Pairs, live Live) {
	subscription := live.Subscribe([]string{measure.Flows.Name}, pairsBuffer)
	defer subscription.Close()
	to.Run(ctx, subscription.Batches())
}

// WatchPairs sends the figures of all pairs, by the second.
func (f *flows) WatchPairs(ctx context.Context, request *pillionv1.WatchPairsRequest, to *connect.ServerStream[pillionv1.WatchPairsResponse]) error {
	if err := checkText("session", request.GetSession()); err != nil {
		return err
	}
	history := request.GetHistory()
	if history > live.History {
		return invalid("history", "read history %d: use at most %d", history, live.History)
	}
	if history == 0 {
		history = live.History
	}
	scope := live.Scope{Session: request.GetSession(), Seen: scopeOf(ctx)}
	if err := scopeTo(&scope, request.GetSites(), "sites"); err != nil {
		return err
	}
	release, err := f.tails.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	reader := f.seconds.Reader(scope, int(history))
	alive := time.NewTimer(watchAlive)
	defer alive.Stop()
	for begun := false; ; begun = true {
		seconds, more, err := reader.Next()
		if err != nil {
			return connect.NewError(connect.CodeUnavailable, err)
		}
		for i := range seconds {
			if err := to.Send(pairsMessage(&seconds[i])); err != nil {
				return err
			}
		}
		if len(seconds) == 0 && !begun {
			if err := to.Send(&pillionv1.WatchPairsResponse{}); err != nil {
				return err
			}
		}
		if len(seconds) > 0 {
			alive.Reset(watchAlive)
		}
		if err := f.awaitPairs(ctx, more, alive, to); err != nil {
			return err
		}
	}
}

// awaitPairs waits for new figures, and sends empty messages meanwhile.
func (f *flows) awaitPairs(ctx context.Context, more <-chan struct{}, alive *time.Timer, to *connect.ServerStream[pillionv1.WatchPairsResponse]) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.stopping:
			return errStopping
		case <-more:
			return nil
		case <-alive.C:
			if err := to.Send(&pillionv1.WatchPairsResponse{}); err != nil {
				return err
			}
			alive.Reset(watchAlive)
		}
	}
}

func pairsMessage(s *live.PairSecond) *pillionv1.WatchPairsResponse {
	return &pillionv1.WatchPairsResponse{
		StartMs: s.StartMs, Agents: s.Agents, Sources: s.Sources, Destinations: s.Destinations,
		Packets: s.Packets, Expected: s.Expected, Lost: s.Lost, Reordered: s.Reordered, Duplicated: s.Duplicated,
		P50Ns: s.P50, P99Ns: s.P99, Rate: s.Rate, ClockErrorNs: s.ClockErrors,
	}
}

// WatchWindows sends the windows of one pair of hosts as they grow.
func (f *flows) WatchWindows(ctx context.Context, request *pillionv1.WatchWindowsRequest, to *connect.ServerStream[pillionv1.WatchWindowsResponse]) error {
	selection, err := selectionOf(request.GetSelection())
	if err != nil {
		return err
	}
	if selection.Source == "" {
		return invalid("selection.source", "read selection: it needs a source")
	}
	if selection.Destination == "" {
		return invalid("selection.destination", "read selection: it needs a destination")
	}
	step, err := stepOf(request.GetStepMs())
	if err != nil {
		return err
	}
	selection.Scope = scopeOf(ctx)
	release, err := f.tails.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	subscription := f.live.Subscribe([]string{measure.Flows.Name}, watchBuffer)
	defer subscription.Close()
	w := &windowWatcher{flows: f, watch: live.NewWatch(selection, step), histograms: request.GetHistograms(), corrected: request.GetCorrected(), to: to}
	return w.run(ctx, subscription)
}

// windowWatcher is one client that watches windows.
type windowWatcher struct {
	*flows
	watch      *live.Watch
	histograms bool
	// corrected is set if corrected delays were requested; estimates are the latest then.
	corrected bool
	estimates []skew.Estimate
	to        *connect.ServerStream[pillionv1.WatchWindowsResponse]
	sent      time.Time
	broken    bool
}

func (w *windowWatcher) run(ctx context.Context, subscription Subscription) error {
	// An empty message first, so that the client knows that the watch has started.
	if err := w.send(nil); err != nil {
		return err
	}
	ticks := time.NewTicker(watchPause / 2)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.stopping:
			return errStopping
		case batch, open := <-subscription.Batches():
			if !open {
				return errStopping
			}
			w.add(ctx, batch)
		case <-ticks.C:
		}
		if err := w.sendDue(); err != nil {
			return err
		}
	}
}

// add adds a batch and releases it. Rows from before the watch come from the archive,
// which stored them before publishing later ones.
func (w *windowWatcher) add(ctx context.Context, batch archive.Batch) {
	if w.corrected {
		w.estimates = w.clocks.Recent(w.watch.Pair())
		w.watch.Correct(w.estimates)
	}
	err := w.watch.Add(batch, time.Now())
	batch.Record.Release()
	if err != nil && !w.broken {
		w.broken = true
		w.log.Warn("watch windows", "agent", batch.Agent, "error", err)
	}
	question, lacks := w.watch.Lack()
	if !lacks {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lackTimeout)
	defer cancel()
	answer, err := w.archive.Windows(ctx, question)
	if err != nil {
		w.log.Warn("watch windows: the first ones are incomplete", "error", err)
		return
	}
	w.watch.Fill(answer)
}

// sendDue sends changed windows, immediately if one is new.
func (w *windowWatcher) sendDue() error {
	since := time.Since(w.sent)
	if since < watchPause && !w.watch.Fresh() {
		return nil
	}
	if changed := w.watch.Changed(); len(changed) > 0 || since >= watchAlive {
		return w.send(changed)
	}
	return nil
}

func (w *windowWatcher) send(windows []archive.Window) error {
	message := &pillionv1.WatchWindowsResponse{StepMs: w.watch.Step().Milliseconds()}
	for i := range windows {
		one := windowMessage(&windows[i], w.histograms)
		one.Corrected = correctedMessage(&windows[i], w.watch.Step(), 0, w.estimates, w.histograms)
		message.Windows = append(message.Windows, one)
	}
	w.sent = time.Now()
	return w.to.Send(message)
}
