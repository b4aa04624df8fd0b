// Package sender runs the sender by hand, without a server: it opens the device's
// namespace, resolves the destination, sends a schedule and prints what became of it.
package sender

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/agent/view"
	"pillion.dev/internal/clock"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/pcap"
	"pillion.dev/measure"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/reply"
	"pillion.dev/send/schedule"
)

// Options of a run.
type Options struct {
	Device    string
	Namespace *os.File                 // nil: the caller's
	Flows     map[string]*frame.Header // the default flow has an empty name
	Schedule  schedule.Schedule
	Model     *model.Model  // instead of a schedule
	FlowCount int           // flows of the model
	Late      time.Duration // bound from which a packet counts as late
	JSON      bool

	Mechanism  string
	Sequential bool
	Lead       time.Duration
	DropLate   time.Duration
	NoDriver   bool

	// Stream writes to TCP connections instead of sending packets, from the source ports of
	// the flows if FixedPorts is set.
	Stream     bool
	FixedPorts bool

	// Remarks on the schedule, for the summary.
	Remarks []string

	// Report takes a row for each packet (measure.SendPackets), if not nil.
	Report report.Report

	// RecordFile is where a record of each packet goes.
	RecordFile outfile.RecordsFile

	// Replies awaits a reply to each packet, as long as Wait after its departure.
	Replies bool
	Wait    time.Duration
}

// line is a packet in JSON. Times are of CLOCK_MONOTONIC.
type line struct {
	Train    uint32 `json:"train"`
	Number   uint32 `json:"number"`
	Intended int64  `json:"intended_ns"`
	Handed   int64  `json:"handed_ns,omitempty"`
	Driver   int64  `json:"driver_ns,omitempty"`
	Source   string `json:"driver_source,omitempty"`
	Hardware int64  `json:"hardware_ns,omitempty"`
	Late     bool   `json:"late"`
	Fate     string `json:"fate,omitempty"` // unless sent
	Error    string `json:"error,omitempty"`

	Reply     reply.Kind `json:"reply,omitempty"`
	ReplyFrom string     `json:"reply_from,omitempty"`
	ReplyAt   int64      `json:"reply_ns,omitempty"`
	RoundTrip int64      `json:"round_trip_ns,omitempty"`
}

// summary is the last line.
type summary struct {
	*send.Account
	Mechanism string   `json:"mechanism"`
	Mode      string   `json:"mode"`
	Remarks   []string `json:"remarks,omitempty"`
	// Uncertainty of times by their source, in nanoseconds.
	Uncertainty map[string]int64 `json:"uncertainty_ns"`
	Replies     *replySummary    `json:"replies,omitempty"`
	Model       string           `json:"model,omitempty"`
	Fits        []fit            `json:"fits,omitempty"`
}

// Run sends the schedule and prints the result: with JSON a line for each packet.
func Run(ctx context.Context, options Options, out io.Writer) (lost error) {
	if err := resolve(options); err != nil {
		return err
	}
	var drawn *traffic
	if options.Model != nil {
		drawn = &traffic{model: options.Model}
		if err := drawn.plan(&options, options.FlowCount); err != nil {
			return err
		}
	}
	job := send.Job{Schedule: options.Schedule, Headers: options.Flows}
	sender, run, err := open(ctx, options, &job)
	if err != nil {
		return err
	}
	defer sender.Close()
	v := view.View{Out: out, JSON: options.JSON}
	account := send.NewAccount(options.Late)
	var follower clock.Follower
	if _, err := follower.Follow(); err != nil {
		return err
	}
	owner := options.owner()
	records, err := options.RecordFile.Open(recordColumns...)
	if err != nil {
		return err
	}
	defer func() { _, err := records.Close(); lost = errors.Join(lost, err) }()
	var printed error
	show := func(r dispatch.Record, got *reply.Reply) {
		if records != nil {
			addRecord(records, packet(r, got, account.IsLate(r)))
		}
		if printed != nil {
			return
		}
		if options.JSON {
			printed = v.Print(packet(r, got, account.IsLate(r)), "")
		}
		if options.Report != nil {
			printed = errors.Join(printed, options.Report.Put(&measure.SendPackets, PacketRow(owner, r, got, account.IsLate(r), follower.Recent())))
		}
	}
	take := func(r dispatch.Record) { show(r, nil) }
	var awaited *replies
	if options.Replies {
		l, err := reply.Listen(options.Namespace, options.Device, options.Flows)
		if err != nil {
			return err
		}
		defer l.Close()
		job.Prepare = l.Prepare
		awaited = &replies{listener: l, wait: options.Wait, print: show, summary: replySummary{Kinds: map[reply.Kind]uint64{}}}
		take = awaited.add
	}
	failed := run(ctx, func(r dispatch.Record) {
		account.Add(r)
		if drawn != nil {
			drawn.sent(r)
		}
		take(r)
	})
	account.Close()
	s := summary{Account: account, Mechanism: sender.Name(), Mode: mode(options, sender.Name()), Remarks: append(options.Remarks, sender.Remarks()...), Uncertainty: map[string]int64{}}
	for source, bound := range sender.Uncertainty() {
		s.Uncertainty[source.String()] = bound.Nanoseconds()
	}
	if awaited != nil {
		awaited.end(ctx, account.Sent)
		s.Replies = &awaited.summary
	}
	if drawn != nil {
		s.Model, s.Fits = drawn.model.String(), drawn.fits()
	}
	if failed == nil {
		failed = unsent(account)
	}
	return errors.Join(failed, printed, v.Summary(s, "%s", table(&s)))
}

// owner has the header of all packets if they have one.
func (o Options) owner() (owner Owner) {
	if len(o.Flows) == 1 {
		owner.Header = o.Flows[""]
	}
	return owner
}

// unsent is an error if packets could not be sent.
func unsent(account *send.Account) error {
	switch {
	case account.Failed == 0:
		return nil
	case account.Sent == 0:
		return fmt.Errorf("%w (%d scheduled)", errNothing, account.Scheduled)
	}
	return fmt.Errorf("%w: %d of %d", errSome, account.Failed, account.Scheduled)
}

// errSome are packets of the schedule that could not be sent; the summary says why.
var errSome = errors.New("packets failed")

// errNothing is a schedule of which no packet could be sent.
var errNothing = errors.New("no packet was sent")

// resolve fills in the link-layer addresses of all flows.
func resolve(options Options) error {
	all := func() error {
		for name, h := range options.Flows {
			if err := send.Address(h, options.Device); err != nil {
				if name != "" {
					err = fmt.Errorf("flow %s: %w", name, err)
				}
				return err
			}
		}
		return nil
	}
	if options.Namespace != nil {
		return netns.DoIn(options.Namespace, all)
	}
	return all()
}

// Plan draws the schedule from the model, if there is one.
func Plan(options *Options) error {
	if options.Model == nil {
		return nil
	}
	return (&traffic{model: options.Model}).plan(options, options.FlowCount)
}

// Save writes the frames to a capture file instead of sending them.
func Save(ctx context.Context, options Options, out io.Writer) error {
	if err := resolve(options); err != nil {
		return err
	}
	if err := Plan(&options); err != nil {
		return err
	}
	job := send.Job{Schedule: schedule.Until(ctx, options.Schedule), Headers: options.Flows}
	var failures []error
	err := schedule.WriteCapture(out, time.Now(), job.Frames(func(err error) { failures = append(failures, err) }))
	return errors.Join(append(failures, err)...)
}

// Read opens a schedule file, text or binary or, unless replies are awaited, a capture, which has
// nil flows. The caller closes the file when the schedule is used up.
func Read(path string, replay schedule.Replay, replies bool) (schedule.Schedule, map[string]*frame.Header, io.Closer, error) {
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, nil, nil, err
		}
	}
	in := bufio.NewReader(file)
	magic, _ := in.Peek(4) // shorter files are neither
	if len(magic) == 4 && pcap.IsCapture([4]byte(magic)) {
		if replies {
			return nil, nil, nil, errors.Join(fmt.Errorf("%w: replies are matched only with packets that are built, not with packets of a capture", schedule.ErrFile), file.Close())
		}
		packets, err := schedule.ReadCapture(in, replay)
		if err != nil {
			return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
		}
		return packets, nil, file, nil
	}
	if len(magic) == 4 && schedule.IsBinary([4]byte(magic)) {
		binary, err := schedule.ReadBinary(in)
		if err != nil {
			return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
		}
		return binary.Packets(), binary.Flows, file, nil
	}
	text, err := schedule.ReadText(in)
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return text.Packets(), text.Flows, file, nil
}

// mode says how packets waited for their time.
func mode(options Options, mechanism string) string {
	if options.Stream {
		return "sequential"
	}
	for _, m := range dispatch.Mechanisms {
		if m.Name == mechanism && !m.Predispatch {
			return "sequential"
		}
	}
	lead := options.Lead
	if mechanism == "txtime" && lead == 0 {
		lead = dispatch.LaunchLead
	}
	if lead > 0 {
		return "pre-dispatch on the fly, " + lead.String() + " ahead"
	}
	return "initial pre-dispatch"
}

func packet(r dispatch.Record, got *reply.Reply, late bool) line {
	l := line{Train: r.Train, Number: r.Number, Intended: r.Intended, Handed: r.Handed, Driver: r.Driver, Source: r.Source.String(), Hardware: r.Hardware, Late: late}
	if r.Fate != dispatch.Sent {
		l.Fate = r.Fate.String()
	}
	if r.Error != nil {
		l.Error = r.Error.Error()
	}
	if got != nil {
		l.Reply, l.ReplyFrom, l.ReplyAt, l.RoundTrip = got.Kind, got.From.String(), got.At, got.At-r.Departure()
	}
	return l
}

var recordColumns = []string{
	"train", "number", "intended_ns", "handed_ns", "driver_ns", "driver_source", "hardware_ns", "late", "fate", "error",
	"reply", "reply_from", "reply_ns", "round_trip_ns",
}

// addRecord adds the record of a packet, which has the values of its line.
func addRecord(to *outfile.Records, l line) {
	text := func(v string) any { return outfile.If(v != "", v) }
	time := func(v int64) any { return outfile.If(v != 0, v) }
	to.Add(l.Train, l.Number, l.Intended, time(l.Handed), time(l.Driver), text(l.Source), time(l.Hardware), l.Late,
		cmp.Or(l.Fate, dispatch.Sent.String()), text(l.Error), text(string(l.Reply)), text(l.ReplyFrom),
		time(l.ReplyAt), outfile.If(l.Reply != "", l.RoundTrip))
}

func table(s *summary) string {
	text := fmt.Sprintf("mechanism %s (%s)\nscheduled %d = sent %d + late-dropped %d + cancelled %d + failed %d; %d sent late\n",
		s.Mechanism, s.Mode, s.Scheduled, s.Sent, s.LateDropped, s.Cancelled, s.Failed, s.Late)
	for cause, n := range s.Failures {
		text += fmt.Sprintf("  failed %d: %s\n", n, cause)
	}
	if s.Sent > 0 {
		text += fmt.Sprintf("%-24s %10s %10s %10s %10s %10s\n", "microseconds", "min", "p50", "p95", "p99", "max")
		text += row("departure lateness", s.Lateness) + row("interdeparture error", s.Interdeparture)
		if s.Replies != nil && s.Replies.Replied > 0 {
			text += row("round trip", s.Replies.RoundTrip)
		}
	}
	if r := s.Replies; r != nil {
		text += fmt.Sprintf("replies to %d of %d packets, %d duplicates", r.Replied, s.Sent, r.Duplicates)
		for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
			text += fmt.Sprintf(", %s %d", kind, r.Kinds[kind])
		}
		text += "\n"
	}
	if s.BitsPerSecond > 0 {
		text += fmt.Sprintf("rate %.4f Mbit/s", s.BitsPerSecond/1e6)
		if s.Asked > 0 {
			text += fmt.Sprintf(", %+.3f %% from the %.4f Mbit/s requested", (s.BitsPerSecond/s.Asked-1)*100, s.Asked/1e6)
		}
		text += "\n"
	}
	if s.Model != "" {
		text += "model " + s.Model + "\n"
	}
	for _, f := range s.Fits {
		text += f.String()
	}
	if len(s.Uncertainty) > 0 {
		text += "uncertainty of times:"
	}
	for i, source := range slices.Sorted(maps.Keys(s.Uncertainty)) {
		text += fmt.Sprintf("%s %s %d ns", []string{"", ","}[min(i, 1)], source, s.Uncertainty[source])
	}
	if len(s.Uncertainty) > 0 {
		text += "\n"
	}
	for _, r := range s.Remarks {
		text += "note: " + r + "\n"
	}
	return text
}

func row(name string, d send.Spread) string {
	if d.Histogram.Empty() {
		return fmt.Sprintf("%-24s %10s %10s %10s %10s %10s\n", name, "-", "-", "-", "-", "-")
	}
	return fmt.Sprintf("%-24s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, d.Min/1e3, d.P50/1e3, d.P95/1e3, d.P99/1e3, d.Max/1e3)
}
