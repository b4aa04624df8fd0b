package ingest

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure/application"
)

// decode decodes a group on all processors.
func (i *Ingest) decode(group []item) {
	i.mu.Lock()
	adopt := i.adopt
	i.mu.Unlock()
	var workers sync.WaitGroup
	next := make(chan *item, len(group))
	for n := range group {
		next <- &group[n]
	}
	close(next)
	for range min(runtime.GOMAXPROCS(0), len(group)) {
		workers.Go(func() {
			for it := range next {
				it.decode(adopt)
			}
		})
	}
	workers.Wait()
}

func (i *item) decode(adopt func(archive.Batch) (archive.Batch, error)) {
	if i.batch.Record != nil {
		return
	}
	d := &i.delivery
	agent := cmp.Or(d.Of, d.Agent)
	i.batch.Agent, i.batch.Key = agent, d.Key
	if d.Agent == OwnAgent || isOwn(d.Stream) || strings.HasPrefix(d.Stream, application.Prefix) { // only the server knows which names are in use
		i.err = fmt.Errorf("%w: the stream %q is written by the server only, as %q", bus.ErrRejected, d.Stream, OwnAgent)
		return
	}
	schema, record, err := d.Envelope.Decode()
	if err == nil && d.Site != "" {
		record, err = relayed(d.Site, schema, record)
	}
	i.batch = archive.Batch{Agent: agent, Key: d.Key, Oldest: d.Oldest, Schema: schema, Record: record}
	i.err = err
	if err == nil && strings.HasPrefix(d.Stream, application.RelayedPrefix) {
		i.batch, i.err = adopt(i.batch)
	} else if err == nil {
		i.implausible = implausible(record, time.Now())
	}
}

// A time is implausible that is ahead of the server's clock, or as old as no spool keeps
// rows. Such rows are stored and counted: they differ from the time of arrival beside
// them, by which they are retained.
const (
	aheadMost  = time.Hour
	behindMost = 366 * 24 * time.Hour
)

func implausible(record arrow.RecordBatch, now time.Time) (n uint64) {
	times, ok := record.Column(0).(*array.Timestamp)
	if !ok {
		return 0
	}
	first, last := arrow.Timestamp(now.Add(-behindMost).UnixNano()), arrow.Timestamp(now.Add(aheadMost).UnixNano())
	for _, at := range times.Values() {
		if at < first || at > last {
			n++
		}
	}
	return n
}
