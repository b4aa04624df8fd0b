package pillion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/pillion"
	"pillion.dev/oml/omsp"
)

type omlCmd struct {
	Domains  omlDomainsCmd  `cmd:"" help:"List the domains (experiments) of instrumented applications."`
	Export   omlExportCmd   `cmd:"" help:"Export a domain to an SQLite file with the layout of OML's server."`
	Scaffold omlScaffoldCmd `cmd:"" help:"Generate the C header of an instrumented application."`
}

// errDomain is an unknown domain.
var errDomain = errors.New("no such domain")

// omlTable is one table of a domain.
type omlTable struct {
	domain, name, stream string
	schema               omsp.Schema
	start                int64 // of the domain, s since 1970
}

// omlTables asks for all tables, by domain and name.
func omlTables(ctx context.Context, client *api.Client) ([]omlTable, error) {
	request := &pillionv1.ExportRequest{Stream: "oml_tables", Columns: []string{"domain", "table_name", "stream", "fields", "start"}}
	var tables []omlTable
	err := export(ctx, client, request, func(*pillionv1.ExportResponse) {}, func(batch arrow.RecordBatch) error {
		for i := range int(batch.NumRows()) {
			text := func(column int) string { return strings.Clone(batch.Column(column).ValueStr(i)) }
			t := omlTable{domain: text(0), name: text(1), stream: text(2), start: batch.Column(4).(*array.Int64).Value(i)}
			if known := slices.IndexFunc(tables, func(k omlTable) bool { return k.stream == t.stream }); known >= 0 {
				tables[known].start = max(tables[known].start, t.start) // announced again
				continue
			}
			schema, err := omsp.ParseSchema(text(3))
			if err != nil {
				return fmt.Errorf("read table %s: %w", t.name, err)
			}
			if !omsp.ValidName(t.name) {
				return fmt.Errorf("read table %q: invalid name", t.name)
			}
			t.schema, t.schema.Name = schema, t.name
			tables = append(tables, t)
		}
		return nil
	})
	slices.SortStableFunc(tables, func(a, b omlTable) int { return strings.Compare(a.domain, b.domain) })
	return tables, pillion.Failed("list OML tables", err)
}

type omlDomainsCmd struct{ pillion.Repeated }

// Help has the examples.
func (omlDomainsCmd) Help() string {
	return "Shows each domain's tables, the number of tuples in the archive, and its start time.\n\nExamples:\n\n  pillion oml domains\n  pillion oml domains -o json"
}

// omlDomain is a domain as it is listed.
type omlDomain struct {
	name   string
	tables []string
	tuples int64
	start  time.Time
	last   *time.Time // nil: no tuple is stored
}

// Run lists domains.
func (c *omlDomainsCmd) Run(ctx context.Context, a *pillion.App, client *api.Client) error {
	tables, err := omlTables(ctx, client)
	if err != nil {
		return err
	}
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	if err != nil {
		return pillion.Failed("list streams", err)
	}
	streams := map[string]*pillionv1.Stream{}
	for _, s := range answer.Streams {
		streams[s.Name] = s
	}
	var domains []*omlDomain
	for _, t := range tables {
		if n := len(domains); n == 0 || domains[n-1].name != t.domain {
			domains = append(domains, &omlDomain{name: t.domain, start: time.Unix(t.start, 0)})
		}
		d, s := domains[len(domains)-1], streams[t.stream]
		d.tables = append(d.tables, t.name)
		d.tuples += s.GetRows()
		if s.GetLast() != nil && (d.last == nil || s.Last.AsTime().After(*d.last)) {
			at := s.Last.AsTime()
			d.last = &at
		}
	}
	return showDomains(a, domains)
}

func showDomains(a *pillion.App, domains []*omlDomain) error {
	list := []any{}
	t := pillion.NewTable("domain", ">tuples", "start", "last", "tables")
	for _, d := range domains {
		var last *timestamppb.Timestamp
		if d.last != nil {
			last = timestamppb.New(*d.last)
		}
		t.Add(pillion.Text(d.name), pillion.Count(d.tuples), pillion.Moment(timestamppb.New(d.start)), pillion.Moment(last), pillion.Text(strings.Join(d.tables, " ")))
		list = append(list, struct {
			Domain string     `json:"domain"`
			Tables []string   `json:"tables"`
			Tuples int64      `json:"tuples"`
			Start  string     `json:"start"`
			Last   *time.Time `json:"last"`
		}{d.name, d.tables, d.tuples, d.start.UTC().Format(time.RFC3339), d.last})
	}
	return a.Show(list, t)
}

// ofDomain are the tables of a domain.
func ofDomain(tables []omlTable, domain string) ([]omlTable, error) {
	tables = slices.DeleteFunc(tables, func(t omlTable) bool { return t.domain != domain })
	if len(tables) == 0 {
		return nil, fmt.Errorf("find domain: %w: %q", errDomain, domain)
	}
	return tables, nil
}
