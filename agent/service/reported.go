package service

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/measure"
)

// anyDomain is a Stream.Domain that matches all.
const anyDomain = "*"

// Limits of the windows that applications can create.
const (
	reportersMax = 1024
	knownMax     = 10_000
)

// domainColumn precedes the columns of a table in derived streams, and senderColumn is the
// first of these; both are keys of every stream of applications.
var domainColumn = measure.Field{Name: "oml_domain", Type: measure.String, Doc: "OML domain of the application"}

const (
	senderColumn = "oml_sender"
	senderAt     = 1
)

// reported are the derived streams of what applications report. Windows are kept apart
// by sender, since one may be minutes behind another one after an interruption.
type reported struct {
	tree tree
	put  measure.BatchSink
	log  *slog.Logger
	// origin returns domain and table of a relayed stream.
	origin func(*measure.Schema) (domain, table string, ok bool)

	mu     sync.Mutex
	tables map[string]*table // by the name of the relayed stream
	each   map[reporter]*reporting
	full   bool // logged
	closed bool
}

// table is a table of a domain with the streams that are derived from it.
type table struct {
	domain   string
	schema   *measure.Schema // of its point
	children []Stream
	failed   bool // the streams do not suit the columns: logged
}

type reporter struct{ stream, domain, sender string }

// reporting is one sender's part of a table.
type reporting struct {
	mu     sync.Mutex
	point  *measure.Point
	branch branch
	sample measure.Sample
	closed bool
}

func newReported(t tree, put measure.BatchSink, log *slog.Logger) *reported {
	return &reported{tree: t, put: put, log: log, tables: map[string]*table{}, each: map[reporter]*reporting{}}
}

// wanted reports whether a stream is derived from what applications report.
func (r *reported) wanted() bool {
	return slices.ContainsFunc(r.tree, func(s Stream) bool { return s.Domain != "" })
}

// Take implements application.Filters.
func (r *reported) Take(schema *measure.Schema, record arrow.RecordBatch) (replace bool) {
	t := r.table(schema)
	if t == nil {
		return false
	}
	if record.NumRows() == 0 {
		return replaced(t.children)
	}
	sender := record.Column(senderAt).(*array.String).Value(0)
	for {
		one := r.reporting(reporter{schema.Name, t.domain, sender}, t)
		if one == nil {
			return false
		}
		if taken, err := one.take(t.domain, record); taken {
			if err != nil {
				r.log.Warn("filter tuples of an application", "domain", t.domain, "sender", sender, "error", err)
			}
			return replaced(t.children)
		}
	}
}

// table is nil if no stream is derived from it.
func (r *reported) table(schema *measure.Schema) *table {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, known := r.tables[schema.Name]; known {
		return t
	}
	if len(r.tables) >= knownMax {
		clear(r.tables)
	}
	var t *table
	if domain, name, ok := r.origin(schema); ok {
		children := slices.DeleteFunc(slices.Clone(r.tree), func(s Stream) bool {
			return s.Point != name || s.Domain != anyDomain && s.Domain != domain
		})
		if len(children) > 0 {
			t = &table{domain: domain, schema: pointOf(schema), children: children}
		}
	}
	r.tables[schema.Name] = t
	return t
}

// pointOf is the schema of a table's point: the columns of the relayed stream after the
// domain.
func pointOf(relayed *measure.Schema) *measure.Schema {
	s := &measure.Schema{Name: "application", Doc: "tuples of applications", Fields: []measure.Field{relayed.Fields[0], domainColumn}}
	s.Fields = append(s.Fields, relayed.Fields[senderAt:]...)
	s.Fields[senderAt+1].Doc = "sender-id of the application"
	return s
}

// reporting is nil, with a message in the log, if the streams cannot be derived.
func (r *reported) reporting(key reporter, t *table) *reporting {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.each[key]; one != nil || t.failed || r.closed {
		return one
	}
	if len(r.each) >= reportersMax {
		if !r.full {
			r.log.Warn("too many senders of OML tuples: tuples of further ones are stored unfiltered", "limit", reportersMax, "domain", key.domain, "sender", key.sender)
		}
		r.full = true
		return nil
	}
	one := &reporting{}
	point, err := measure.NewPoint(t.schema)
	if err == nil {
		one.point = point
		err = one.branch.grow(r.tree, t.children, point, []string{domainColumn.Name, senderColumn}, r.put)
	}
	if err != nil {
		t.failed = true
		r.log.Warn("derive streams of an application: its tuples are stored unfiltered", "domain", key.domain, "error", errors.Join(err, one.branch.close(r.log)))
		return nil
	}
	r.each[key] = one
	return one
}

// take injects a batch; false if the sender's windows have been closed.
func (one *reporting) take(domain string, record arrow.RecordBatch) (taken bool, err error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.closed {
		return false, nil
	}
	columns := record.Columns()
	for row := range int(record.NumRows()) {
		one.sample = one.sample[:0]
		for i, column := range columns {
			value, _ := measure.ValueAt(column, row)
			if one.sample = append(one.sample, value); i == 0 {
				one.sample = append(one.sample, measure.StringValue(domain))
			}
		}
		if failed := one.point.Inject(one.sample); failed != nil && err == nil {
			err = failed
		}
	}
	return true, err
}

func (one *reporting) close(log *slog.Logger) error {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.closed = true
	return one.branch.close(log)
}

// Ended implements application.Filters: open windows of the sender become rows.
func (r *reported) Ended(domain, sender string) {
	r.mu.Lock()
	var ended []*reporting
	for key, one := range r.each {
		if key.domain == domain && key.sender == sender {
			ended = append(ended, one)
			delete(r.each, key)
		}
	}
	r.mu.Unlock()
	for _, one := range ended {
		if err := one.close(r.log); err != nil {
			r.log.Warn("store filtered tuples of an application", "domain", domain, "sender", sender, "error", err)
		}
	}
}

func (r *reported) reportLosses() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.each {
		one.branch.reportLosses(r.log)
	}
}

// close ends all windows. Tuples that come later are stored unfiltered.
func (r *reported) close() (err error) {
	r.mu.Lock()
	all := r.each
	r.each, r.closed = map[reporter]*reporting{}, true
	r.mu.Unlock()
	for _, one := range all {
		err = errors.Join(err, one.close(r.log))
	}
	return err
}
