package main

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/internal/netns"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
)

// store is a collector's backend in memory: of each sender's table the times and numbers.
type store struct {
	mu     sync.Mutex
	tables map[string]*rows
	starts map[string]int64
	ended  sync.Cond
	ends   int
	gaps   uint64
}

// rows are the numeric columns of a table, which all have the same length.
type rows struct {
	at      []int64 // client's time, ns since 1970
	columns map[string][]float64
}

func newStore() *store {
	s := &store{tables: map[string]*rows{}, starts: map[string]int64{}}
	s.ended.L = &s.mu
	return s
}

// Table implements collect.Backend.
func (s *store) Table(_ string, of omsp.Schema) (collect.Table, error) {
	name := "metadata"
	if of.Index != 0 {
		name = of.Name
	}
	schema, err := collect.SchemaOf(name, "", of)
	return collect.Table{Name: name, Schema: schema}, err
}

// Start implements collect.Backend.
func (s *store) Start(_ string, start int64) (int64, error) { return start, nil }

// Stored implements collect.Backend.
func (s *store) Stored(context.Context, uint64, collect.Table) (int64, error) { return 0, nil }

// Ended implements collect.Backend.
func (s *store) Ended(c collect.Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends++
	s.gaps += c.Gaps + c.Refused
	s.ended.Broadcast()
}

// Store implements collect.Backend.
func (s *store) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	s.mu.Lock()
	before := len(collect.Columns())
	key := record.Column(1).(*array.String).Value(0) + " " + schema.Name
	t := s.tables[key]
	if t == nil {
		t = &rows{columns: map[string][]float64{}}
		s.tables[key] = t
	}
	times := record.Column(0).(*array.Timestamp)
	for i := range int(record.NumRows()) {
		t.at = append(t.at, int64(times.Value(i)))
		for c := before; c < int(record.NumCols()); c++ {
			if v, ok := measure.ValueAt(record.Column(c), i); ok {
				number, _ := v.Number()
				t.columns[schema.Fields[c].Name] = append(t.columns[schema.Fields[c].Name], number)
			}
		}
	}
	s.mu.Unlock()
	done(nil)
}

// of are the rows of a sender's table, sorted by a column; call it when all have ended.
func (s *store) of(sender, table string) *rows {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[sender+" "+table]; t != nil {
		return t
	}
	return &rows{columns: map[string][]float64{}}
}

// await waits until so many connections have ended.
func (s *store) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ends < n {
		s.ended.Wait()
	}
}

// collector serves the store in the collector's namespace until close.
func (s *store) serve(b *bed) (closed func(), err error) {
	var listener net.Listener
	err = netns.Do(b.collector, func() (err error) {
		listener, err = net.Listen("tcp", ":3003")
		return err
	})
	if err != nil {
		return nil, err
	}
	c := collect.New(collect.Options{Backend: s})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Serve(listener, "")
	}()
	return func() {
		listener.Close()
		c.Close()
		<-ended
	}, nil
}

// sorted are the indexes of a column's values in ascending order.
func (r *rows) sorted(column string) []int {
	values := r.columns[column]
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return 0
	})
	return order
}
