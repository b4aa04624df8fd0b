package aggregate

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/internal/store"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// state is what the file has.
type state struct {
	// Mark of the rows that were taken last.
	Mark uint64
	// Open are the windows that are not complete; only the file has the list.
	Open []entry
	// Outbox are the batches that may not have been stored by the other server.
	Outbox []message

	open map[key]*sum
}

// key is what rows have in common that are merged. End and Interval are of the window, ns.
type key struct {
	End, Interval                int64
	Session, Source, Destination string
	Src, Dst                     string
}

// sum is what was merged so far.
type sum struct {
	flows.Sum
	// taken is when its first row was, ns.
	taken                         int64
	destinationClock, sourceClock flows.Bound
}

// message is a batch of an agent of the site.
type message struct {
	Agent string
	measure.Envelope
	sent bool
}

// add merges a row.
func (s *state) add(m *Merging, row *flows.Row, now time.Time) {
	k := key{Session: row.Session, Source: row.Source, Destination: row.Destination}
	if m.Prefixes {
		k.Src, k.Dst = m.prefix(row.Src), m.prefix(row.Dst)
	}
	k.End, k.Interval = row.End.UnixNano(), int64(row.Interval)
	if window := int64(m.Window); k.Interval <= window {
		middle := row.Middle().UnixNano()
		into := middle % window
		if into < 0 {
			into += window
		}
		k.End, k.Interval = middle-into+window, window
	}
	to := s.open[k]
	if to == nil {
		to = &sum{taken: now.UnixNano()}
		for _, text := range []*string{&k.Session, &k.Source, &k.Destination, &k.Src, &k.Dst} {
			*text = strings.Clone(*text) // it lies in the record
		}
		s.open[k] = to
	}
	if row.Delay.Count > 0 {
		first := to.Delay.Count == 0
		to.destinationClock = widest(to.destinationClock, row.DestinationClock, first)
		to.sourceClock = widest(to.sourceClock, row.SourceClock, first)
	}
	to.Merge(&row.Sum)
}

// widest bounds the errors of both, unless one is unknown.
func widest(a, b flows.Bound, first bool) flows.Bound {
	return flows.Bound{Ns: max(a.Ns, b.Ns), Known: b.Known && (a.Known || first)}
}

// prefix is the prefix of an address; other texts stay as they are.
func (m *Merging) prefix(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	bits := m.IPv6
	if address = address.Unmap().WithZone(""); address.Is4() {
		bits = m.IPv4
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return text
	}
	return prefix.String()
}

// due removes and returns the rows of the windows that are complete at a time, in a fixed order. A
// window that lies in the future, of a host whose clock is ahead, waits no longer than others.
func (s *state) due(m *Merging, at time.Time) (rows []flows.Row) {
	now := at.UnixNano()
	for k, sum := range s.open {
		complete := k.End+int64(m.Lateness) <= now || sum.taken+int64(2*m.Window+m.Lateness) <= now
		if !complete && len(s.open) <= openMost {
			continue
		}
		rows = append(rows, flows.Row{
			End: time.Unix(0, k.End), Interval: time.Duration(k.Interval),
			Session: k.Session, Source: k.Source, Destination: k.Destination, Flow: flows.Flow{Src: k.Src, Dst: k.Dst},
			Sum: sum.Sum, DestinationClock: sum.destinationClock, SourceClock: sum.sourceClock,
		})
	}
	for i := range rows {
		delete(s.open, keyOf(&rows[i]))
	}
	slices.SortFunc(rows, func(a, b flows.Row) int {
		if n := strings.Compare(a.Destination, b.Destination); n != 0 {
			return n
		}
		return a.End.Compare(b.End)
	})
	return rows
}

func keyOf(row *flows.Row) key {
	return key{
		End: row.End.UnixNano(), Interval: int64(row.Interval), Session: row.Session, Source: row.Source, Destination: row.Destination,
		Src: row.Src, Dst: row.Dst,
	}
}

// pack makes batches of rows, which are sorted by agent.
func (a *Aggregator) pack(rows []flows.Row) (messages []message, err error) {
	var sample measure.Sample
	for len(rows) > 0 {
		agent := rows[0].Destination
		first := a.next[agent]
		stream, err := measure.NewStream(&measure.Flows, measure.StreamOptions{}, func(schema *measure.Schema, record arrow.RecordBatch) error {
			batch, err := measure.Encode(measure.Key{Stream: schema.Name, Epoch: a.epoch, Sequence: a.next[agent]}, record)
			if err != nil {
				return err
			}
			batch.Oldest = first
			a.next[agent]++
			messages = append(messages, message{Agent: agent, Envelope: batch})
			return nil
		})
		if err != nil {
			return nil, err
		}
		for len(rows) > 0 && rows[0].Destination == agent && err == nil {
			sample = rows[0].Sample(sample[:0])
			err = stream.Append(sample)
			rows = rows[1:]
		}
		if err = errors.Join(err, stream.Close()); err != nil {
			return nil, fmt.Errorf("pack merged rows of %q: %w", agent, err)
		}
	}
	return messages, nil
}

// latest is the latest time of arrival in a record, or last.
func latest(last time.Time, record arrow.RecordBatch) time.Time {
	for _, i := range record.Schema().FieldIndices(archive.ArrivalColumn) {
		times, ok := record.Column(i).(*array.Timestamp)
		for n := range record.NumRows() {
			if ok && times.IsValid(int(n)) {
				if at := time.Unix(0, int64(times.Value(int(n)))); at.After(last) {
					last = at
				}
			}
		}
	}
	return last
}

// format of the file; a version that changes it so that earlier ones misread it increases it.
const format = 1

// load reads the file.
func (a *Aggregator) load() (found bool, err error) {
	a.state = state{open: map[key]*sum{}}
	text, err := os.ReadFile(a.path())
	if errors.Is(err, fs.ErrNotExist) {
		a.stale = false
		return false, nil
	}
	var version int
	if err == nil {
		from := gob.NewDecoder(bytes.NewReader(text))
		if err = from.Decode(&version); err == nil && version != format {
			err = fmt.Errorf("format %d, this version reads format %d", version, format)
		}
		if err == nil {
			err = from.Decode(&a.state)
		}
	}
	if err != nil {
		return false, fmt.Errorf("read state %s: %w", a.path(), err)
	}
	for i := range a.state.Open {
		a.state.open[a.state.Open[i].Key] = a.state.Open[i].sum()
	}
	a.state.Open, a.stale = nil, false
	return true, nil
}

// save replaces the file.
func (a *Aggregator) save() error {
	written := a.state
	for k, sum := range maps.All(a.state.open) {
		written.Open = append(written.Open, entryOf(k, sum))
	}
	var text bytes.Buffer
	to := gob.NewEncoder(&text)
	err := errors.Join(to.Encode(format), to.Encode(written))
	if err == nil {
		err = store.Replace(a.path(), text.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write state %s: %w", a.path(), err)
	}
	return nil
}
